"""Settles batch and degrees of parallelism, and checks them against model and cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from simcluster.memory.recompute import MODULES
from simcluster.parallel.schedules import SPLIT, dualpipe, overlapped
from simcluster.program.compression import Compression
from simcluster.resolve.batch import settle_batch, settle_length
from simcluster.resolve.expert_parallel import expert_degrees, expert_imbalance
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.findings import (
    LAYOUT,
    Finding,
    depth_finding,
    divisors,
    heads_finding,
    interleaving_finding,
    kv_heads_finding,
    padded_heads,
    product_finding,
    sequence_finding,
    virtual_stages_of,
)
from simcluster.scenario.training import Parallelism, RecomputeModules, StageSpec, parse_compression
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily

PRECISIONS = ("bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4", "tf32")
_IN_CHUNKS = ("zero-2", "zero-3", "fsdp", "hsdp")  # strategies whose shards move while chunks run
_MANY = 12  # legal values listed in a message
_MOST_LAYERS = 10_000
MOST_CHUNKS = 1_000_000  # forward and backward chunks of one replica's step; more takes minutes and gigabytes


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
            "no layout is given, and a plain evaluation chooses none",
            "state it, like parallelism: {tp: 8, pp: 4}, or let simulate, compare or plan_layout choose it",
        )
        return
    _check_supported(scenario, trail)
    if arch is not None:
        _check_model(plan, arch, trail)


def resolve_layout(
    scenario: Scenario, arch: Architecture, gpus: int, node_gpus: int, family: SoftwareFamily, trail: Trail
) -> Layout | None:
    """The layout, or None with problems noted in `trail`; `check_plan` comes before."""
    training = scenario.training
    plan = training.parallelism
    dp = _data_parallel(plan, gpus, node_gpus, trail) if isinstance(plan, Parallelism) else None
    if dp is None or not isinstance(plan, Parallelism):
        return None
    sequence = settle_length(scenario, arch, trail)
    batch = settle_batch(training, sequence, dp, plan.pp, family, trail)
    sequence_parallel = _sequence_parallel(plan, family, trail)
    _check_cut(plan, arch, sequence, sequence_parallel, family, trail)
    if batch is None:
        return None
    virtual = _virtual_stages(plan, arch, trail)
    schedule = _schedule(plan, virtual)
    if virtual == 1 and plan.order == "breadth-first":
        message = "breadth-first orders the chunks of a stage, but virtual_stages is 1"
        trail.problem(f"{LAYOUT}.order", message, "raise virtual_stages, or leave order out")
    if schedule != "breadth-first":
        _note(interleaving_finding(batch.micro_batches, plan.pp, virtual, batch.micro_batch, dp), trail)
    if not _check_size(plan.pp * virtual, batch.micro_batches, trail):
        return None
    strategy = training.sharding.strategy or family.sharding
    if training.sharding.strategy is None:
        trail.assume("training.sharding.strategy", strategy, f"default of {family.id}")
    replicas = dp * plan.cp * (2 if schedule == "dualpipe" else 1)  # devices that hold the same stage
    _check_sharding(scenario, strategy, replicas, trail)
    _check_schedule(schedule, strategy, plan.pp, batch.micro_batches, batch.micro_batch * dp, trail)
    _check_compression(scenario, strategy, trail)
    ep, etp = expert_degrees(plan, arch, dp, family, trail)
    if schedule == "1f1b" and overlaps_experts(family, ep, strategy):
        schedule = overlapped.NAME
    return Layout(
        tp=plan.tp,
        pp=plan.pp,
        dp=dp,
        cp=plan.cp,
        virtual_stages=virtual,
        schedule=schedule,
        group=None,
        sequence_parallel=sequence_parallel,
        micro_batch=batch.micro_batch,
        micro_batches=batch.micro_batches,
        sequences=batch.sequences,
        sequence_length=sequence,
        recompute=_recompute(scenario, family, trail),
        strategy=strategy,
        shards=shard_ranks(training.sharding.group, strategy, replicas, max(1, node_gpus // plan.tp), family),
        precision=training.precision,
        ep=ep,
        etp=etp,
        grad_compression=training.grad_compression,
        expert_imbalance=expert_imbalance(training, arch, ep, trail),
    )


def _check_supported(scenario: Scenario, trail: Trail) -> None:
    """Notes what is right but not simulated."""
    training = scenario.training
    findings = (
        ("precision", training.precision not in PRECISIONS, f"precision {training.precision}"),
        ("sharding.offload", training.sharding.offload == "pool", "offload to a pool of memory"),
    )
    for path, wanted, what in findings:
        if wanted:
            trail.unsupported(f"training.{path}", what)
    if isinstance(training.recompute, RecomputeModules):
        for module in training.recompute.modules:
            if module not in MODULES:
                advice = f"known: {', '.join(sorted(MODULES))}"
                trail.problem("training.recompute.modules", f"unknown module {module!r}", advice)
    if scenario.cluster.background:
        trail.unsupported("cluster.background", "other traffic on the fabric")


def _note(finding: Finding | None, trail: Trail) -> None:
    if finding is not None:
        trail.problem(finding.path, finding.message, finding.advice)


def _data_parallel(plan: Parallelism, gpus: int, node_gpus: int, trail: Trail) -> int | None:
    finding = product_finding(plan, gpus, nodes=gpus // node_gpus)
    if finding is not None:
        _note(finding, trail)
        return None
    if plan.dp is None:
        model = plan.tp * plan.pp * plan.cp
        trail.assume(f"{LAYOUT}.dp", gpus // model, f"{gpus} GPUs over tp x pp x cp = {model}")
        return gpus // model
    return plan.dp


def _check_model(plan: Parallelism, arch: Architecture, trail: Trail) -> None:
    """Notes what the model cannot be cut into."""
    _note(heads_finding(arch.heads, plan.tp) or kv_heads_finding(arch.heads, arch.kv_heads, plan.tp), trail)
    if arch.layers > _MOST_LAYERS:
        trail.problem("model.layers", f"{arch.layers} layers are more than is simulated", f"at most {_MOST_LAYERS}")
    virtual = virtual_stages_of(plan, arch.layers)
    if isinstance(virtual, Finding):
        _note(virtual, trail)
        return
    plan = plan.model_copy(update={"virtual_stages": virtual})
    if isinstance(plan.stages, str):
        _note(depth_finding(plan, arch.layers), trail)
        return
    held, parts = [stage.layers for stage in plan.stages], plan.pp * plan.virtual_stages
    if len(held) != parts or sum(held) != arch.layers:
        message = f"{len(held)} stages with {sum(held)} layers, the model has {arch.layers} in {parts} stages"
        trail.problem(f"{LAYOUT}.stages", message, "list the layers of each virtual stage in model order")
        return
    found = stage_ends(plan.stages)
    if isinstance(found, str):
        trail.problem(f"{LAYOUT}.stages", found, "put the embedding before all layers and the head behind them")


def _virtual_stages(plan: Parallelism, arch: Architecture, trail: Trail) -> int:
    """Virtual stages as stated, or as the stated layers of each make them; `_check_model` has told what is wrong."""
    found = virtual_stages_of(plan, arch.layers)
    if isinstance(found, Finding):
        return plan.virtual_stages
    if found != plan.virtual_stages:
        why = f"{arch.layers} layers / (pp {plan.pp} x {plan.layers_per_virtual_stage} layers)"
        trail.assume(f"{LAYOUT}.virtual_stages", found, why)
    return found


def _check_cut(
    plan: Parallelism, arch: Architecture, sequence: int, sequence_parallel: bool, family: SoftwareFamily, trail: Trail
) -> None:
    """Notes a sequence, or heads, that context and sequence parallelism cannot share out equally."""
    finding = sequence_finding(sequence, plan.cp)
    _note(finding, trail)
    factors = f"cp {plan.cp} x tp {plan.tp} = {plan.cp * plan.tp}"
    if finding is None and sequence_parallel and sequence % (plan.cp * plan.tp):
        message = f"{factors} does not divide the sequence of {sequence} tokens, which sequence parallelism shares out"
        trail.problem(f"{LAYOUT}.tp", message, "use a sequence_length that it divides, or sequence_parallel: false")
    heads = padded_heads(arch.heads, plan.tp)
    if plan.cp > 1 and family.cp_communication == "all-to-all" and heads % (plan.cp * plan.tp):
        message = f"{factors} does not divide the {arch.heads} heads, which all-to-all context parallelism shares out"
        fitting = ", ".join(map(str, divisors(heads // plan.tp)[:_MANY]))
        trail.problem(f"{LAYOUT}.cp", message, f"use cp {fitting}, or cp_communication: p2p")


def stage_ends(stages: Sequence[StageSpec]) -> tuple[int, int] | str:
    """Virtual stages that hold embedding and head of an explicit split, or what is wrong with it.

    Where nobody is named it is the first, and the last.

    >>> stage_ends([StageSpec(layers=0, embedding=True), StageSpec(layers=8), StageSpec(layers=0)])
    (0, 2)
    >>> stage_ends([StageSpec(layers=4), StageSpec(layers=4, embedding=True)])
    'layers stand before the embedding'
    """
    embeddings = [index for index, stage in enumerate(stages) if stage.embedding]
    heads = [index for index, stage in enumerate(stages) if stage.head]
    for what, named, usual in (("embedding", embeddings, stages[0].embedding), ("head", heads, stages[-1].head)):
        if len(named) > 1:
            return f"{len(named)} stages hold the {what}"
        if not named and usual is False:
            return f"no stage holds the {what}"
    embedding, head = (embeddings or [0])[0], (heads or [len(stages) - 1])[0]
    if any(stage.layers for stage in stages[:embedding]):
        return "layers stand before the embedding"
    if any(stage.layers for stage in stages[head + 1 :]) or head < embedding:
        return "layers, or the embedding, stand behind the head"
    return embedding, head


def _schedule(plan: Parallelism, virtual_stages: int) -> str:
    """Schedule as the step program names it; without a pipeline the parts of a backward stay together."""
    if virtual_stages > 1 and plan.order == "breadth-first":
        return "breadth-first"
    return "1f1b" if plan.pp == 1 and plan.schedule in SPLIT else plan.schedule


def overlaps_experts(family: SoftwareFamily, ep: int, strategy: str) -> bool:
    """Whether 1F1B runs forwards beside backwards, so that exchanges of experts hide."""
    return family.ep_overlap and ep > 1 and strategy not in _IN_CHUNKS


def _check_schedule(schedule: str, strategy: str, pp: int, micro_batches: int, sequences: int, trail: Trail) -> None:
    """Notes what a schedule cannot do; `sequences` are those of one micro-batch of every replica."""
    if schedule in SPLIT and strategy in _IN_CHUNKS:
        trail.unsupported("training.sharding.strategy", f"{strategy} with schedule {schedule}")
    if schedule == "dualpipe" and pp % 2 == 0 and not dualpipe.fits(pp, micro_batches):
        message = (
            f"dualpipe takes an even number of micro-batches, at least 2 pp = {2 * pp}; a replica has {micro_batches}"
        )
        advice = f"use a global_batch that is a multiple of {2 * sequences}, at least {2 * pp * sequences}"
        trail.problem(f"{LAYOUT}.schedule", message, advice)


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


def _check_size(parts: int, micro_batches: int, trail: Trail) -> bool:
    """Whether a step has few enough chunks to be simulated one by one."""
    most = MOST_CHUNKS // (2 * parts)
    if micro_batches <= most:
        return True
    message = f"{micro_batches} micro-batches a replica are more than is simulated in {parts} stages"
    trail.problem("training.global_batch", message, f"at most {most}; raise micro_batch, or lower global_batch")
    return False


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


def shard_ranks(group: int | str, strategy: str, replicas: int, in_node: int, family: SoftwareFamily) -> int:
    """Ranks that share one set of shards; hybrid sharding keeps them inside a node unless a group is stated.

    group      "all", "node" or a number of ranks
    in_node    replicas that a node holds
    """
    if strategy == "none":
        return 1
    if isinstance(group, int):
        return min(group, replicas)
    if group == "node" or strategy == "hsdp":
        return math.gcd(replicas, in_node)
    zero = int(family.zero_group) if strategy == "zero-1" else 0
    return math.gcd(replicas, zero) if zero else replicas
