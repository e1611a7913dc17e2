"""Settles batch and degrees of parallelism, and checks them against model and cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from simcluster.program.compression import Compression
from simcluster.resolve.expert_parallel import expert_degrees, expert_imbalance
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.checks import MOST_PADDING, padded_heads, product_finding
from simcluster.scenario.training import Parallelism, RecomputeModules, StageSpec, parse_compression
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily

_PRECISIONS = ("bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4", "tf32")
_SCHEDULES = ("1f1b", "gpipe", "none")
_DEFAULT_SEQUENCE = 4096
_DEFAULT_BATCH_TOKENS = 4_000_000
ENDS = 2  # embedding and head may stand alone in the first and the last stage
_MANY = 12  # legal values listed in a message
_MOST_LAYERS = 10_000
_MOST_CHUNKS = 1_000_000  # forward and backward chunks of one replica's step; more takes minutes and gigabytes


def divisors(number: int) -> list[int]:
    """Divisors of a number, in order.

    >>> divisors(12)
    [1, 2, 3, 4, 6, 12]
    """
    small = [value for value in range(1, math.isqrt(number) + 1) if number % value == 0]
    return sorted({*small, *(number // value for value in small)})


def executed_architecture(arch: Architecture, tp: int, trail: Trail) -> Architecture:
    """The model as it runs: heads padded to a multiple of tp where they do not divide, and said so."""
    heads = padded_heads(arch.heads, tp)
    if heads == arch.heads:
        return arch
    why = f"tp {tp} does not divide {arch.heads} heads; padded, each rank holds {heads // tp} (some frameworks refuse)"
    trail.assume("model.heads", heads, why)
    return replace(arch, heads=heads, kv_heads=heads if arch.kv_heads == arch.heads else arch.kv_heads)


def _listed(values: list[int]) -> str:
    return ", ".join(map(str, values[:_MANY])) + (" …" if len(values) > _MANY else "")


def check_plan(scenario: Scenario, arch: Architecture | None, trail: Trail) -> None:
    """Notes what the stated plan asks for that is not simulated, or that the model (if it is known) cannot do."""
    plan = scenario.training.parallelism
    if not isinstance(plan, Parallelism):
        trail.problem(
            "training.parallelism",
            "no layout is given, and choosing one is not built yet",
            "state it, for instance parallelism: {tp: 8, pp: 4}",
        )
        return
    _check_supported(scenario, plan, trail)
    if arch is not None:
        _check_model(plan, arch, trail)


def resolve_layout(
    scenario: Scenario, arch: Architecture, gpus: int, node_gpus: int, family: SoftwareFamily, trail: Trail
) -> Layout | None:
    """The layout, or None with problems noted in `trail`; `check_plan` comes before."""
    training = scenario.training
    plan = training.parallelism
    dp = _data_parallel(plan, gpus, trail) if isinstance(plan, Parallelism) else None
    if dp is None or not isinstance(plan, Parallelism):
        return None
    sequence = _sequence_length(scenario, arch, trail)
    sequences = _sequences(scenario, sequence, dp, trail)
    micro_batch = _micro_batch(scenario, trail)
    if sequences % (dp * micro_batch):
        each = sequences / dp
        advice = (
            f"with dp {dp} and micro_batch {micro_batch} use a global_batch that is a multiple of {dp * micro_batch}"
        )
        trail.problem(
            "training.global_batch",
            f"{sequences} sequences over dp {dp} are {each:g} a replica, not micro-batches of {micro_batch}",
            advice,
        )
        return None
    micro_batches = sequences // (dp * micro_batch)
    if not _check_size(plan, micro_batches, trail):
        return None
    strategy = training.sharding.strategy or family.sharding
    if training.sharding.strategy is None:
        trail.assume("training.sharding.strategy", strategy, f"default of {family.id}")
    _check_sharding(scenario, strategy, dp * plan.cp, trail)
    _check_compression(scenario, strategy, trail)
    ep, etp = expert_degrees(plan, arch, dp, trail)
    return Layout(
        tp=plan.tp,
        pp=plan.pp,
        dp=dp,
        cp=plan.cp,
        virtual_stages=plan.virtual_stages,
        schedule=plan.schedule,
        group=None,
        sequence_parallel=_sequence_parallel(plan, family, trail),
        micro_batch=micro_batch,
        micro_batches=micro_batches,
        sequences=sequences,
        sequence_length=sequence,
        recompute=_recompute(scenario, family, trail),
        strategy=strategy,
        shards=_shards(scenario, strategy, dp * plan.cp, max(1, node_gpus // plan.tp), family),
        precision=training.precision,
        ep=ep,
        etp=etp,
        grad_compression=training.grad_compression,
        expert_imbalance=expert_imbalance(training, arch, ep, trail),
    )


def _check_supported(scenario: Scenario, plan: Parallelism, trail: Trail) -> None:
    """Notes what is right but not simulated."""
    training = scenario.training
    findings = (
        ("parallelism.schedule", plan.schedule not in _SCHEDULES, f"schedule {plan.schedule}"),
        ("parallelism.order", plan.order != "depth-first", "breadth-first interleaving"),
        ("precision", training.precision not in _PRECISIONS, f"precision {training.precision}"),
        ("sharding.offload", training.sharding.offload != "none", "offload"),
    )
    for path, wanted, what in findings:
        if wanted:
            trail.unsupported(f"training.{path}", what)
    if scenario.cluster.background:
        trail.unsupported("cluster.background", "other traffic on the fabric")


def _data_parallel(plan: Parallelism, gpus: int, trail: Trail) -> int | None:
    finding = product_finding(plan, gpus)
    if finding is not None:
        trail.problem(finding.path, finding.message, finding.advice)
        return None
    if plan.dp is None:
        model = plan.tp * plan.pp * plan.cp
        trail.assume("training.parallelism.dp", gpus // model, f"{gpus} GPUs over tp x pp x cp = {model}")
        return gpus // model
    return plan.dp


def _check_model(plan: Parallelism, arch: Architecture, trail: Trail) -> None:
    where = "training.parallelism"
    if padded_heads(arch.heads, plan.tp) > (1 + MOST_PADDING) * arch.heads:
        legal = f"divisors of the heads: {_listed(divisors(arch.heads))}"
        trail.problem(f"{where}.tp", f"{plan.tp} does not divide {arch.heads} attention heads", legal)
    if arch.kv_heads != arch.heads and arch.kv_heads % plan.tp and plan.tp % arch.kv_heads:
        trail.problem(
            f"{where}.tp",
            f"{plan.tp} neither divides {arch.kv_heads} KV heads nor is a multiple of them",
            "use a power of two",
        )
    if arch.layers > _MOST_LAYERS:
        trail.problem("model.layers", f"{arch.layers} layers are more than is simulated", f"at most {_MOST_LAYERS}")
    parts = plan.pp * plan.virtual_stages
    if plan.stages == "auto" and parts > arch.layers + ENDS:
        most = f"at most {arch.layers + ENDS} in all, embedding and head alone in one each"
        trail.problem(f"{where}.pp", f"{parts} stages for {arch.layers} layers", most)
    if plan.stages != "auto":
        held = [stage.layers for stage in plan.stages]
        if len(held) != parts or sum(held) != arch.layers:
            message = f"{len(held)} stages with {sum(held)} layers, the model has {arch.layers} in {parts} stages"
            trail.problem(f"{where}.stages", message, "list the layers of each virtual stage in model order")
        elif _moves_the_ends(plan.stages):
            trail.unsupported(f"{where}.stages", "an embedding or head on another than the first or last stage")


def _moves_the_ends(stages: Sequence[StageSpec]) -> bool:
    """Whether an explicit split puts embedding or head elsewhere than first and last."""
    last = len(stages) - 1
    return any(
        stage.embedding not in (None, index == 0) or stage.head not in (None, index == last)
        for index, stage in enumerate(stages)
    )


def _check_sharding(scenario: Scenario, strategy: str, replicas: int, trail: Trail) -> None:
    group = scenario.training.sharding.group
    path = "training.sharding.group"
    if strategy != "none" and isinstance(group, int) and replicas % group:
        message = f"{group} does not divide the {replicas} data-parallel ranks"
        trail.problem(path, message, f"one of {_listed(divisors(replicas))}, or all")


def _check_compression(scenario: Scenario, strategy: str, trail: Trail) -> None:
    """Methods that need a rank's whole gradient do not go with sharded gradients."""
    method, argument = parse_compression(scenario.training.grad_compression)
    if strategy != "none" and Compression(method, argument).needs_whole_gradient:
        message = f"{method} needs whole gradients on every rank, sharding {strategy} keeps shards"
        trail.problem("training.grad_compression", message, "use bf16 or fp8, or sharding: {strategy: none}")


def _check_size(plan: Parallelism, micro_batches: int, trail: Trail) -> bool:
    """Whether a step has few enough chunks to be simulated one by one."""
    parts = plan.pp * plan.virtual_stages
    most = _MOST_CHUNKS // (2 * parts)
    if micro_batches <= most:
        return True
    message = f"{micro_batches} micro-batches a replica are more than is simulated in {parts} stages"
    trail.problem("training.global_batch", message, f"at most {most}; raise micro_batch, or lower global_batch")
    return False


def _sequence_length(scenario: Scenario, arch: Architecture, trail: Trail) -> int:
    stated = scenario.training.sequence_length
    if stated:
        return stated
    length = min(arch.max_sequence or _DEFAULT_SEQUENCE, _DEFAULT_SEQUENCE)
    trail.assume("training.sequence_length", length, "the model's own length, at most 4,096")
    return length


def _sequences(scenario: Scenario, sequence: int, dp: int, trail: Trail) -> int:
    stated = scenario.training.sequences_per_step(sequence, dp)
    if stated:
        return stated
    sequences = max(1, round(_DEFAULT_BATCH_TOKENS / sequence / dp)) * dp
    trail.assume("training.global_batch", sequences, "about 4M tokens a step, a whole number of sequences a replica")
    return sequences


def _micro_batch(scenario: Scenario, trail: Trail) -> int:
    stated = scenario.training.micro_batch
    if isinstance(stated, int):
        return stated
    trail.assume("training.micro_batch", 1, "not stated; with a given layout nothing else is safe to assume")
    return 1


def _sequence_parallel(plan: Parallelism, family: SoftwareFamily, trail: Trail) -> bool:
    if plan.tp == 1:
        return False
    if plan.sequence_parallel is None:
        trail.assume("training.parallelism.sequence_parallel", family.sequence_parallel, f"default of {family.id}")
        return family.sequence_parallel
    return plan.sequence_parallel


def _recompute(scenario: Scenario, family: SoftwareFamily, trail: Trail) -> str:
    stated = scenario.training.recompute
    if isinstance(stated, RecomputeModules):
        return "+".join(stated.modules)
    if stated is None:
        trail.assume("training.recompute", family.recompute, f"default of {family.id}")
        return family.recompute
    return stated


def _shards(scenario: Scenario, strategy: str, replicas: int, in_node: int, family: SoftwareFamily) -> int:
    """Ranks that share one set of shards; hybrid sharding keeps them inside a node unless a group is stated."""
    if strategy == "none":
        return 1
    group = scenario.training.sharding.group
    if isinstance(group, int):
        return min(group, replicas)
    if group == "node" or strategy == "hsdp":
        return math.gcd(replicas, in_node)
    zero = int(family.zero_group) if strategy == "zero-1" else 0
    return math.gcd(replicas, zero) if zero else replicas
