"""Turns a settled layout into the numbers and shapes of a step plan."""

from __future__ import annotations

from simcluster.analysis.balancing import balanced_layers, with_layers
from simcluster.hardware.cluster import Cluster
from simcluster.memory.parameters import further_parameters, layer_parameters, stage_parameters
from simcluster.memory.precision import LOW_BYTES, element_bytes
from simcluster.memory.recompute import recompute_modules_of
from simcluster.memory.static import DTYPE_BYTES
from simcluster.parallel.mesh import Mesh
from simcluster.parallel.schedules import SPLIT, overlapped
from simcluster.parallel.stages import ChunkContents, both_ways, stage_contents
from simcluster.program.block import ExchangePlan
from simcluster.program.plan import BLOCK_OF, PipelinePlan, RecomputePlan, StepPlan
from simcluster.program.pricing import Machine
from simcluster.resolve.data_parallel import data_parallel_plan
from simcluster.resolve.expert_parallel import expert_copies, expert_groups
from simcluster.resolve.layout_checks import stage_ends
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario.training import Parallelism
from simcluster.shapes import Architecture, GroupShape
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.elements import ACTIVATION_BYTES, Batch, LayerPlan
from simcluster.workload.layers import layer_kind
from simcluster.workload.parameters import padded_vocab
from simcluster.workload.rerun import rerun_shares


def recompute_plan(mode: str, arch: Architecture, family: SoftwareFamily) -> RecomputePlan:
    """What the backward runs again, from a mode or from modules joined by "+"."""
    kind, modules = recompute_modules_of(mode, family.selective_modules)
    if kind != "selective":
        return RecomputePlan(whole_layers=kind == "full")
    return RecomputePlan(parts=tuple(sorted(rerun_shares(modules, arch).items())))


def step_plan(
    arch: Architecture,
    cluster: Cluster,
    family: SoftwareFamily,
    layout: Layout,
    parallelism: Parallelism,
) -> StepPlan:
    """The plan of one step."""
    mesh = Mesh(layout.tp, layout.cp, layout.dp, layout.pp)
    contents = _contents(arch, family, layout, parallelism)
    batch = Batch(layout.micro_batch, layout.sequence_length, layout.cp)
    together = _ends_together(contents)
    parameters, experts = _block_parameters(arch, layout, together)
    wide = element_bytes(layout.precision) / ACTIVATION_BYTES
    return StepPlan(
        arch=arch,
        mesh=mesh,
        contents=contents,
        batch=batch,
        micro_batches=layout.micro_batches,
        layer=_layer_plan(family, layout),
        exchange=_exchange_plan(arch, cluster, family, layout, wide * float(batch.tokens)),
        widening=wide,
        recompute=recompute_plan(layout.recompute, arch, family),
        data=data_parallel_plan(cluster, family, layout, mesh),
        pipeline=PipelinePlan(
            schedule=layout.schedule,
            virtual_stages=layout.virtual_stages,
            group=layout.group,
            overlap_messages=_overlap_messages(family, layout),
            scatter=family.scatter_p2p,
        ),
        padded_vocab=int(padded_vocab(arch.vocab, layout.tp)),
        block_parameters=parameters,
        expert_parameters=experts,
        optimizer_bytes=family.optimizer_bytes - DTYPE_BYTES[family.gradient_storage],
        gradient_pass_bytes=DTYPE_BYTES[family.gradient_storage],
        tied_exchange=arch.tied_embeddings and not together,
    )


def _exchange_plan(
    arch: Architecture, cluster: Cluster, family: SoftwareFamily, layout: Layout, tokens: float
) -> ExchangePlan:
    """How exchanges inside layers are done; `tokens` are weighed by how wide activations are."""
    return ExchangePlan(
        tp=layout.tp,
        bytes=ACTIVATION_BYTES * tokens * arch.hidden,
        sequence_parallel=layout.sequence_parallel,
        bulk_overlap=family.tp_bulk_overlap,
        shared_beside=family.shared_expert_overlap and layout.schedule != overlapped.NAME,  # none do both
        chunks=_chunks(arch, family, layout),
        hidden=arch.hidden,
        cp=layout.cp,
        context=family.cp_communication,
        ep=layout.ep,
        etp=layout.etp,
        expert_copies=expert_copies(arch, family, _expert_group(cluster, layout), layout.ep),
    )


def balanced_plan(plan: StepPlan, machine: Machine, trail: Trail) -> StepPlan:
    """The plan with its layers split anew, so that the longest virtual stage takes as little time as it can."""
    sizes = balanced_layers(plan, machine)
    trail.assume("training.parallelism.stages", list(sizes), "balanced: the longest stage is as short as it can be")
    return with_layers(plan, sizes)


def _contents(
    arch: Architecture, family: SoftwareFamily, layout: Layout, parallelism: Parallelism
) -> tuple[tuple[ChunkContents, ...], ...]:
    """What every stage holds; under DualPipe also its mirror image."""
    explicit, ends = None, None
    if not isinstance(parallelism.stages, str):
        explicit, found = [stage.layers for stage in parallelism.stages], stage_ends(parallelism.stages)
        ends = None if isinstance(found, str) else found
    held = stage_contents(arch.layers, layout.pp, layout.virtual_stages, explicit, family.stage_balance, ends)
    return both_ways(held) if layout.schedule == "dualpipe" else held


def _ends_together(contents: tuple[tuple[ChunkContents, ...], ...]) -> bool:
    """Whether a stage that holds the embedding also holds the head."""
    return any(any(one.embedding for one in chunks) and any(one.head for one in chunks) for chunks in contents)


def _overlap_messages(family: SoftwareFamily, layout: Layout) -> bool:
    """Schedules that split the backward come with messages of their own that do not block."""
    if layout.schedule in SPLIT:
        return True
    return family.overlap_p2p_interleaved if layout.virtual_stages > 1 else family.overlap_p2p


def _attention_dtype(family: SoftwareFamily, precision: str) -> str:
    """Attention stays in 16 bits under an 8- or 4-bit recipe unless the software says otherwise."""
    if precision in LOW_BYTES:
        return "fp8" if family.fp8_attention else "bf16"
    return precision


def _chunks(arch: Architecture, family: SoftwareFamily, layout: Layout) -> int:
    """Pieces of an overlapped tp exchange: one a rank; only with sequence parallel, and where the software does it."""
    overlap = family.tp_overlap_moe if arch.experts else family.tp_overlap
    return layout.tp if overlap and layout.sequence_parallel else 1


def _expert_group(cluster: Cluster, layout: Layout) -> GroupShape:
    world = layout.tp * layout.cp * layout.dp * layout.pp
    domain, node = cluster.node.scale_up_domain, cluster.node.gpus
    return expert_groups(layout.ep, layout.etp, world, domain, node)["ep"]


def _layer_plan(family: SoftwareFamily, layout: Layout) -> LayerPlan:
    return LayerPlan(
        tp=layout.tp,
        cp=layout.cp,
        ep=layout.ep,
        etp=layout.etp,
        imbalance=layout.expert_imbalance,
        context=family.cp_communication,
        grouped_gemm=family.grouped_gemm,
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
        attention_dtype=_attention_dtype(family, layout.precision),
        head_dtype="bf16" if layout.precision in LOW_BYTES else layout.precision,
    )


def _block_parameters(arch: Architecture, layout: Layout, together: bool) -> tuple[dict[str, float], dict[str, float]]:
    """Parameters of each block on one rank, and those of them that belong to experts.

    A tied table on one stage counts once.
    """
    tied_here = arch.tied_embeddings and together
    table = {"embedding": ChunkContents(0, embedding=True), "head": ChunkContents(0, embedding=tied_here, head=True)}
    counts = {name: float(sum(stage_parameters(arch, [piece], layout.tp).values())) for name, piece in table.items()}
    if tied_here:
        counts["head"] -= counts["embedding"]
    experts: dict[str, float] = {}
    for index in range(arch.layers):
        kind = layer_kind(arch, index)
        name = BLOCK_OF[kind]
        if name not in counts:
            parts = layer_parameters(arch, layout.tp, kind, layout.ep, layout.etp)
            counts[name] = float(sum(parts.values()))
            experts[name] = float(parts.get("experts", 0.0))
    if arch.mtp_depth:
        parts = further_parameters(arch, layout.tp, ep=layout.ep, etp=layout.etp, embedding_here=together)
        counts["mtp"] = float(sum(parts.values())) / arch.mtp_depth
        experts["mtp"] = float(parts.get("experts", 0.0)) / arch.mtp_depth
    return counts, experts
