"""Checks a stated layout against model, software and cluster, and says what to write instead."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.memory.recompute import MODULES
from simcluster.parallel.schedules import SPLIT, dualpipe
from simcluster.program.compression import Compression
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.findings import (
    LAYOUT,
    Finding,
    depth_finding,
    divisors,
    heads_finding,
    kv_heads_finding,
    padded_heads,
    sequence_finding,
    virtual_stages_of,
)
from simcluster.scenario.training import Parallelism, RecomputeModules, StageSpec, parse_compression
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily

PRECISIONS = ("bf16", "fp16", "fp8", "fp8-block", "mxfp8", "nvfp4", "tf32")
IN_CHUNKS = ("zero-2", "zero-3", "fsdp", "hsdp")  # strategies whose shards move while chunks run
MOST_CHUNKS = 1_000_000  # forward and backward chunks of one replica's step; more takes minutes and gigabytes
_MANY = 12  # legal values listed in a message
_MOST_LAYERS = 10_000


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


def _check_model(plan: Parallelism, arch: Architecture, trail: Trail) -> None:
    """Notes what the model cannot be cut into."""
    note(heads_finding(arch.heads, plan.tp) or kv_heads_finding(arch.heads, arch.kv_heads, plan.tp), trail)
    if arch.layers > _MOST_LAYERS:
        trail.problem("model.layers", f"{arch.layers} layers are more than is simulated", f"at most {_MOST_LAYERS}")
    virtual = virtual_stages_of(plan, arch.layers)
    if isinstance(virtual, Finding):
        note(virtual, trail)
        return
    plan = plan.model_copy(update={"virtual_stages": virtual})
    if isinstance(plan.stages, str):
        note(depth_finding(plan, arch.layers), trail)
        return
    held, parts = [stage.layers for stage in plan.stages], plan.pp * plan.virtual_stages
    if len(held) != parts or sum(held) != arch.layers:
        message = f"{len(held)} stages with {sum(held)} layers, the model has {arch.layers} in {parts} stages"
        trail.problem(f"{LAYOUT}.stages", message, "list the layers of each virtual stage in model order")
        return
    found = stage_ends(plan.stages)
    if isinstance(found, str):
        trail.problem(f"{LAYOUT}.stages", found, "put the embedding before all layers and the head behind them")


def check_cut(
    plan: Parallelism, arch: Architecture, sequence: int, sequence_parallel: bool, family: SoftwareFamily, trail: Trail
) -> None:
    """Notes a sequence, or heads, that context and sequence parallelism cannot share out equally."""
    finding = sequence_finding(sequence, plan.cp)
    note(finding, trail)
    factors = f"cp {plan.cp} x tp {plan.tp} = {plan.cp * plan.tp}"
    if finding is None and sequence_parallel and sequence % (plan.cp * plan.tp):
        message = f"{factors} does not divide the sequence of {sequence} tokens, which sequence parallelism shares out"
        trail.problem(f"{LAYOUT}.tp", message, "use a sequence_length that it divides, or sequence_parallel: false")
    heads = padded_heads(arch.heads, plan.tp)
    if plan.cp > 1 and family.cp_communication == "all-to-all" and heads % (plan.cp * plan.tp):
        message = f"{factors} does not divide the {arch.heads} heads, which all-to-all context parallelism shares out"
        fitting = ", ".join(map(str, divisors(heads // plan.tp)[:_MANY]))
        trail.problem(f"{LAYOUT}.cp", message, f"use cp {fitting}, or cp_communication: p2p")


def check_schedule(schedule: str, strategy: str, pp: int, micro_batches: int, sequences: int, trail: Trail) -> None:
    """Notes what a schedule cannot do; `sequences` are those of one micro-batch of every replica."""
    if schedule in SPLIT and strategy in IN_CHUNKS:
        trail.unsupported("training.sharding.strategy", f"{strategy} with schedule {schedule}")
    if schedule == "dualpipe" and pp % 2 == 0 and not dualpipe.fits(pp, micro_batches):
        message = (
            f"dualpipe takes an even number of micro-batches, at least 2 pp = {2 * pp}; a replica has {micro_batches}"
        )
        advice = f"use a global_batch that is a multiple of {2 * sequences}, at least {2 * pp * sequences}"
        trail.problem(f"{LAYOUT}.schedule", message, advice)


def check_sharding(scenario: Scenario, strategy: str, replicas: int, trail: Trail) -> None:
    """Notes a group of shards that does not divide the ranks."""
    group = scenario.training.sharding.group
    path = "training.sharding.group"
    if strategy != "none" and isinstance(group, int) and replicas % group:
        message = f"{group} does not divide the {replicas} data-parallel ranks"
        trail.problem(path, message, f"one of {listed(divisors(replicas))}, or all")


def check_compression(scenario: Scenario, strategy: str, trail: Trail) -> None:
    """Methods that need a rank's whole gradient do not go with sharded gradients."""
    method, argument = parse_compression(scenario.training.grad_compression)
    if strategy != "none" and Compression(method, argument).needs_whole_gradient:
        message = f"{method} needs whole gradients on every rank, sharding {strategy} keeps shards"
        trail.problem("training.grad_compression", message, "use bf16 or fp8, or sharding: {strategy: none}")


def check_size(parts: int, micro_batches: int, trail: Trail) -> bool:
    """Whether a step has few enough chunks to be simulated one by one."""
    most = MOST_CHUNKS // (2 * parts)
    if micro_batches <= most:
        return True
    message = f"{micro_batches} micro-batches a replica are more than is simulated in {parts} stages"
    trail.problem("training.global_batch", message, f"at most {most}; raise micro_batch, or lower global_batch")
    return False


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


def note(finding: Finding | None, trail: Trail) -> None:
    """Puts what was found on the trail."""
    if finding is not None:
        trail.problem(finding.path, finding.message, finding.advice)


def listed(values: list[int]) -> str:
    """Legal values for a message, the first of them.

    >>> listed([1, 2, 4])
    '1, 2, 4'
    """
    return ", ".join(map(str, values[:_MANY])) + (" …" if len(values) > _MANY else "")
