"""Settles batch and degrees of parallelism."""

from __future__ import annotations

import math
from dataclasses import replace

from simcluster.parallel.schedules import SPLIT, overlapped
from simcluster.resolve.batch import settle_batch, settle_length
from simcluster.resolve.expert_parallel import expert_degrees, expert_imbalance
from simcluster.resolve.layout_checks import (
    IN_CHUNKS,
    check_compression,
    check_cut,
    check_schedule,
    check_sharding,
    check_size,
    note,
)
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.findings import (
    LAYOUT,
    Finding,
    interleaving_finding,
    padded_heads,
    product_finding,
    virtual_stages_of,
)
from simcluster.scenario.training import Parallelism, RecomputeModules
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily


def executed_architecture(arch: Architecture, tp: int, trail: Trail) -> Architecture:
    """The model as it runs: heads padded to a multiple of tp where they do not divide, and said so."""
    heads = padded_heads(arch.heads, tp)
    if heads == arch.heads:
        return arch
    why = f"tp {tp} does not divide {arch.heads} heads; padded, each rank holds {heads // tp} (some frameworks refuse)"
    trail.assume("model.heads", heads, why)
    return replace(arch, heads=heads, kv_heads=heads if arch.kv_heads == arch.heads else arch.kv_heads)


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
    check_cut(plan, arch, sequence, sequence_parallel, family, trail)
    if batch is None:
        return None
    virtual = _virtual_stages(plan, arch, trail)
    schedule = _schedule(plan, virtual, trail)
    if schedule != "breadth-first":
        note(interleaving_finding(batch.micro_batches, plan.pp, virtual, batch.micro_batch, dp), trail)
    if not check_size(plan.pp * virtual, batch.micro_batches, trail):
        return None
    replicas = dp * plan.cp * (2 if schedule == "dualpipe" else 1)  # devices that hold the same stage
    strategy = _strategy(scenario, family, replicas, trail)
    check_schedule(schedule, strategy, plan.pp, batch.micro_batches, batch.micro_batch * dp, trail)
    ep, etp = expert_degrees(plan, arch, dp, family, trail)
    recompute = _recompute(scenario, family, trail)
    if schedule == "1f1b" and overlaps_experts(family, ep, plan.pp, virtual, strategy, recompute):
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
        recompute=recompute,
        strategy=strategy,
        shards=shard_ranks(training.sharding.group, strategy, replicas, max(1, node_gpus // plan.tp), family),
        precision=training.precision,
        ep=ep,
        etp=etp,
        grad_compression=training.grad_compression,
        expert_imbalance=expert_imbalance(training, arch, ep, trail),
    )


def _data_parallel(plan: Parallelism, gpus: int, node_gpus: int, trail: Trail) -> int | None:
    finding = product_finding(plan, gpus, nodes=gpus // node_gpus)
    if finding is not None:
        note(finding, trail)
        return None
    if plan.dp is None:
        model = plan.tp * plan.pp * plan.cp
        trail.assume(f"{LAYOUT}.dp", gpus // model, f"{gpus} GPUs over tp x pp x cp = {model}")
        return gpus // model
    return plan.dp


def _virtual_stages(plan: Parallelism, arch: Architecture, trail: Trail) -> int:
    """Virtual stages as stated, or as the stated layers of each make them; `_check_model` has told what is wrong."""
    found = virtual_stages_of(plan, arch.layers)
    if isinstance(found, Finding):
        return plan.virtual_stages
    if found != plan.virtual_stages:
        why = f"{arch.layers} layers / (pp {plan.pp} x {plan.layers_per_virtual_stage} layers)"
        trail.assume(f"{LAYOUT}.virtual_stages", found, why)
    return found


def _schedule(plan: Parallelism, virtual_stages: int, trail: Trail) -> str:
    """Schedule as the step program names it; without a pipeline the parts of a backward stay together."""
    if plan.order == "breadth-first":
        if virtual_stages > 1:
            return "breadth-first"
        message = "breadth-first orders the chunks of a stage, but virtual_stages is 1"
        trail.problem(f"{LAYOUT}.order", message, "raise virtual_stages, or leave order out")
    if plan.pp == 1 and plan.schedule in SPLIT:
        trail.assume(f"{LAYOUT}.schedule", "1f1b", f"{plan.schedule} with pp 1: without a pipeline there is no bubble")
        return "1f1b"
    return plan.schedule


def _strategy(scenario: Scenario, family: SoftwareFamily, replicas: int, trail: Trail) -> str:
    """What is sharded over data-parallel ranks, checked against what else is stated."""
    strategy = scenario.training.sharding.strategy
    if strategy is None:
        strategy = family.sharding
        trail.assume("training.sharding.strategy", strategy, f"default of {family.id}")
    check_sharding(scenario, strategy, replicas, trail)
    check_compression(scenario, strategy, trail)
    return strategy


def overlaps_experts(
    family: SoftwareFamily, ep: int, pp: int, virtual_stages: int, strategy: str, recompute: str
) -> bool:
    """Whether 1F1B runs forwards beside backwards, so that exchanges of experts hide.

    Megatron-Core, which does it, asks for virtual stages in a pipeline, and for layers that are not run again whole.
    """
    can = (pp == 1 or virtual_stages > 1) and recompute != "full" and strategy not in IN_CHUNKS
    return family.ep_overlap and ep > 1 and can


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
