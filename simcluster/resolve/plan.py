"""Turns a settled layout into the numbers and shapes of a step plan."""

from __future__ import annotations

from typing import Literal

from simcluster.hardware.cluster import Cluster
from simcluster.memory.parameters import stage_parameters
from simcluster.parallel.mesh import Mesh, group_shape, joined_group
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.program.block import ExchangePlan
from simcluster.program.plan import (
    ACTIVATION_BYTES,
    DataParallelPlan,
    PipelinePlan,
    RecomputePlan,
    StepPlan,
)
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario.training import Parallelism
from simcluster.shapes import Architecture, CollectiveKind
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.operators import Batch, LayerPlan
from simcluster.workload.parameters import padded_vocab

WIDTH_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}

# Parts of a layer that a framework's recompute module runs again (names of NVIDIA/Megatron-LM).
MODULES = {"core_attn": "core_attention", "layernorm": "norm", "mlp_act": "activation"}


def recompute_plan(mode: str, family: SoftwareFamily, trail: Trail) -> RecomputePlan:
    """What the backward runs again, from a mode or from modules joined by "+"."""
    if mode in ("none", "full"):
        return RecomputePlan(whole_layers=mode == "full")
    modules = family.selective_modules if mode == "selective" else tuple(mode.split("+"))
    unknown = [module for module in modules if module not in MODULES]
    if unknown:
        advice = f"known: {', '.join(sorted(MODULES))}"
        trail.problem("training.recompute", f"modules {', '.join(unknown)} are not simulated yet", advice)
    return RecomputePlan(parts=frozenset(MODULES[module] for module in modules if module in MODULES))


def step_plan(
    arch: Architecture,
    cluster: Cluster,
    family: SoftwareFamily,
    layout: Layout,
    parallelism: Parallelism,
    trail: Trail,
) -> StepPlan:
    """The plan of one step."""
    mesh = Mesh(layout.tp, layout.cp, layout.dp, layout.pp)
    explicit = None if parallelism.stages == "auto" else [stage.layers for stage in parallelism.stages]
    contents = stage_contents(arch.layers, layout.pp, layout.virtual_stages, explicit, family.stage_balance)
    batch = Batch(layout.micro_batch, layout.sequence_length)
    return StepPlan(
        arch=arch,
        mesh=mesh,
        contents=contents,
        batch=batch,
        micro_batches=layout.micro_batches,
        layer=_layer_plan(family, layout),
        exchange=ExchangePlan(
            tp=layout.tp,
            bytes=ACTIVATION_BYTES * float(batch.tokens) * arch.hidden,
            sequence_parallel=layout.sequence_parallel,
            bulk_overlap=family.tp_bulk_overlap,
            chunks=layout.tp if family.tp_overlap and layout.sequence_parallel else 1,
        ),
        recompute=recompute_plan(layout.recompute, family, trail),
        data=_data_plan(cluster, family, layout, mesh),
        pipeline=PipelinePlan(
            schedule=layout.schedule,
            virtual_stages=layout.virtual_stages,
            group=layout.group,
            overlap_messages=(family.overlap_p2p_interleaved if layout.virtual_stages > 1 else family.overlap_p2p),
            scatter=family.scatter_p2p,
        ),
        padded_vocab=int(padded_vocab(arch.vocab, layout.tp)),
        block_parameters=_block_parameters(arch, layout),
        optimizer_bytes=family.optimizer_bytes - WIDTH_BYTES[family.gradient_storage],
        gradient_pass_bytes=WIDTH_BYTES[family.gradient_storage],
        tied_exchange=arch.tied_embeddings and layout.pp > 1,
    )


def _layer_plan(family: SoftwareFamily, layout: Layout) -> LayerPlan:
    return LayerPlan(
        tp=layout.tp,
        sequence_parallel=layout.sequence_parallel,
        attention=family.attention,
        fused_softmax=family.fused_softmax,
        fused_norm=family.fused_norm,
        fused_activation=family.fused_activation,
        fused_rotary=family.fused_rope,
        fused_cross_entropy=family.fused_cross_entropy,
        dropout=family.dropout,
        accumulate_in_gemm=family.accumulate_in_gemm,
        dtype=layout.precision,
        attention_dtype=layout.precision,
    )


def _data_plan(cluster: Cluster, family: SoftwareFamily, layout: Layout, mesh: Mesh) -> DataParallelPlan:
    domain, node = cluster.node.scale_up_domain, cluster.node.gpus
    replicas = layout.dp * layout.cp
    sharded = layout.strategy != "none" and layout.shards > 1
    whole = layout.shards == replicas
    scatter = sharded and whole and family.gradient_sync == "reduce-scatter"
    gather: CollectiveKind | Literal["none"] = "none"
    if sharded:
        gather = "all_gather" if family.parameter_sync == "all-gather" else "broadcast"
    return DataParallelPlan(
        group=joined_group(mesh, ("cp", "dp"), domain, node),
        gather_group=group_shape(layout.shards, mesh.stride("cp"), mesh.world, domain, node),
        shards=layout.shards,
        reduce_kind="reduce_scatter" if scatter else "all_reduce",
        gather_kind=gather,
        gradient_bytes=WIDTH_BYTES[family.gradient_dtype],
        parameter_bytes=WIDTH_BYTES["bf16"],
        bucket_bytes=max(family.bucket_bytes, family.bucket_bytes_per_rank * replicas),
        overlap_reduce=family.overlap_grad_reduce,
        overlap_gather=family.overlap_param_gather,
    )


def _block_parameters(arch: Architecture, layout: Layout) -> dict[str, float]:
    """Parameters of an embedding, a layer and a head on one rank; a tied table on one stage counts once."""
    alone = layout.pp == 1
    pieces = {
        "embedding": ChunkContents(0, embedding=True),
        "layer": ChunkContents(1),
        "head": ChunkContents(0, embedding=arch.tied_embeddings and alone, head=True),
    }
    counts = {name: float(sum(stage_parameters(arch, [piece], layout.tp).values())) for name, piece in pieces.items()}
    if arch.tied_embeddings and alone:
        counts["head"] -= counts["embedding"]
    return counts
