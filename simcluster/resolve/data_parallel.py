"""How gradients are summed and parameters shared out, from a settled layout."""

from __future__ import annotations

from typing import Literal

from simcluster.hardware.cluster import Cluster
from simcluster.memory.precision import LOW_BYTES, element_bytes
from simcluster.memory.static import DTYPE_BYTES
from simcluster.parallel.mesh import Mesh, group_shape, joined_group, stage_pair
from simcluster.program.compression import Compression
from simcluster.program.plan import DataParallelPlan, ShardPlan
from simcluster.resolve.records import Layout
from simcluster.scenario.training import parse_compression
from simcluster.shapes import CollectiveKind, GroupShape
from simcluster.timing.software import SoftwareFamily

WHOLE = ("zero-3", "fsdp", "hsdp")  # strategies that also share out the parameters


def data_parallel_plan(cluster: Cluster, family: SoftwareFamily, layout: Layout, mesh: Mesh) -> DataParallelPlan:
    """Traffic of data parallelism; experts are summed over the ranks that hold the same ones."""
    domain, node = cluster.node.scale_up_domain, cluster.node.gpus
    mirrored = layout.schedule == "dualpipe"  # every stage is on two devices of a pipeline
    replicas = layout.dp * layout.cp * (2 if mirrored else 1)
    sharded = layout.strategy != "none" and layout.shards > 1
    stage_ranks = layout.tp * replicas
    copies = max(1, stage_ranks // (layout.ep * layout.etp))
    low = family.fp8_param_gather and layout.precision in LOW_BYTES
    group = joined_group(mesh, ("cp", "dp"), domain, node)
    gather = group_shape(min(layout.shards, layout.dp * layout.cp), mesh.stride("cp"), mesh.world, domain, node)
    expert = group_shape(max(1, copies // (2 if mirrored else 1)), layout.ep * layout.etp, mesh.world, domain, node)
    if mirrored:
        pair = stage_pair(mesh, 0, mesh.pp - 1, domain, node)
        group, expert = _doubled(group, pair), _doubled(expert, pair)
        gather = _doubled(gather, pair) if layout.shards == replicas else gather
    return DataParallelPlan(
        group=group,
        gather_group=gather,
        expert_group=expert,
        shards=layout.shards,
        expert_shards=(copies if layout.shards == replicas else min(copies, layout.shards)) if sharded else 1,
        reduce_kind=_reduce_kind(family, layout, replicas, sharded),
        gather_kind=_gather_kind(family, layout, sharded),
        gradient_bytes=DTYPE_BYTES[family.gradient_dtype],
        parameter_bytes=1.0 if low else element_bytes(layout.precision),
        bucket_bytes=max(family.bucket_bytes, family.bucket_bytes_per_rank * replicas),
        overlap_reduce=family.overlap_grad_reduce,
        overlap_gather=family.overlap_param_gather,
        units=_units(cluster, family, layout, mesh) if sharded else None,
        compression=_compression(layout),
    )


def _doubled(group: GroupShape, pair: GroupShape) -> GroupShape:
    """A group and its mirror image at the other end of the pipeline."""
    if group.ranks == 1:
        return pair
    apart = 2 if pair.domains > 1 else 1
    return GroupShape(2 * group.ranks, apart * group.domains, pair.sharers if group.domains == 1 else group.sharers)


def _compression(layout: Layout) -> Compression | None:
    method, argument = parse_compression(layout.grad_compression)
    return None if method == "none" else Compression(method, argument)


def _reduce_kind(family: SoftwareFamily, layout: Layout, replicas: int, sharded: bool) -> CollectiveKind:
    if sharded and layout.strategy in WHOLE:
        return "reduce_scatter"
    if sharded and layout.shards == replicas and family.gradient_sync == "reduce-scatter":
        return "reduce_scatter"
    return "all_reduce"


def _gather_kind(family: SoftwareFamily, layout: Layout, sharded: bool) -> CollectiveKind | Literal["none"]:
    if not sharded or layout.strategy in WHOLE:
        return "none"
    return "all_gather" if family.parameter_sync == "all-gather" else "broadcast"


def _units(cluster: Cluster, family: SoftwareFamily, layout: Layout, mesh: Mesh) -> ShardPlan | None:
    """Traffic inside chunks: ZeRO-2 reduces there, ZeRO-3, FSDP and HSDP also gather there."""
    if layout.strategy not in ("zero-2", *WHOLE):
        return None
    domain, node = cluster.node.scale_up_domain, cluster.node.gpus
    whole = layout.strategy in WHOLE
    once = layout.pp > 1 and not family.reshard_with_pp
    others = layout.dp * layout.cp // layout.shards
    replicas = group_shape(others, mesh.stride("cp") * layout.shards, mesh.world, domain, node)
    return ShardPlan(
        gather=whole,
        reduce=True,
        regather=family.reshard_after_forward and not once,
        gather_once=once,
        reduce_each=family.reduce_every_micro_batch and not once,
        replicas=replicas if others > 1 else GroupShape(1),
        ahead=1 if family.overlap_param_gather else 0,
    )
