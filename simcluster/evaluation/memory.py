"""Memory of a resolved scenario, with the layers of any plan of it."""

from __future__ import annotations

from simcluster.memory.recompute import recompute_modules_of
from simcluster.memory.report import MemoryReport, memory_report
from simcluster.memory.setup import MemorySetup
from simcluster.program.plan import StepPlan
from simcluster.resolve import Resolved


def memory_of(resolved: Resolved, plan: StepPlan) -> MemoryReport:
    """Peak memory of each stage against the GPU; `plan` is the scenario's, or holds its layers on other stages."""
    layout = resolved.layout
    mode, modules = recompute_modules_of(layout.recompute, resolved.family.selective_modules)
    setup = MemorySetup(
        tp=layout.tp,
        pp=layout.pp,
        dp=layout.dp,
        cp=layout.cp,
        micro_batch=layout.micro_batch,
        sequence=layout.sequence_length,
        micro_batches=layout.micro_batches,
        schedule=layout.schedule,
        sequence_parallel=layout.sequence_parallel,
        sharding=layout.strategy,
        shard_ranks=layout.shards,
        recompute=mode,
        modules=modules,
        precision=layout.precision,
        ep=layout.ep,
        etp=layout.etp,
        expert_shard_ranks=plan.data.expert_shards,
        imbalance=plan.layer.imbalance,
        offload=plan.offload is not None,
    )
    capacity = resolved.cluster.node.gpu.memory_bytes
    return memory_report(plan.arch, plan.contents, setup, resolved.family, capacity)
