"""The plan of a step: everything the engines need, as numbers and shapes.

`StepPlan` gathers what the scenario, catalogue and software family decided; the functions below derive from it the
contents of blocks and chunks, the gradient buckets, and the shape of the step program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from simcluster.parallel.mesh import Mesh
from simcluster.parallel.stages import ChunkContents
from simcluster.program.block import COMPUTE, BlockOp, ExchangePlan, backward_block, forward_block
from simcluster.program.chunk import ChunkShape
from simcluster.program.compression import Compression
from simcluster.program.offload import OffloadPlan
from simcluster.program.paired import pair_names
from simcluster.program.step import StepShape
from simcluster.shapes import Architecture, CollectiveKind, GroupShape, Transfer
from simcluster.workload.elements import ACTIVATION_BYTES, Batch, Element, LayerPlan, widened
from simcluster.workload.layers import LayerKind, layer_kind
from simcluster.workload.operators import (
    embedding_elements,
    further_token_elements,
    head_elements,
    layer_elements,
)

LAYER_BLOCKS = {
    "layer": LayerKind("dense", "full"),
    "layer-window": LayerKind("dense", "window"),
    "experts": LayerKind("moe", "full"),
    "experts-window": LayerKind("moe", "window"),
}
BLOCK_OF = {kind: name for name, kind in LAYER_BLOCKS.items()}


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """What the backward pass runs again: whole layers, or parts (or elements) of each layer with the share of each."""

    whole_layers: bool = False
    parts: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class DataParallelPlan:
    """How gradients are summed and parameters returned.

    group             ranks over which gradients are summed; `expert_group` those of experts
    gather_group      ranks that return updated parameters to each other
    shards            ranks that share the optimizer's states (1: every rank keeps all)
    reduce_kind       collective of the gradients; bytes per parameter `gradient_bytes`
    gather_kind       collective that returns the parameters, "none" if every rank keeps all
    bucket_bytes      a bucket is closed once it holds this much
    compression       how gradients are compressed on the wire, if they are
    units             traffic of sharded units inside chunks; then there are no buckets for what it moves
    """

    group: GroupShape
    gather_group: GroupShape
    expert_group: GroupShape = field(default_factory=lambda: GroupShape(1))
    shards: int = 1
    expert_shards: int = 1
    reduce_kind: CollectiveKind = "all_reduce"
    gather_kind: CollectiveKind | Literal["none"] = "none"
    gradient_bytes: float = 4.0
    parameter_bytes: float = 2.0
    bucket_bytes: float = 160e6
    overlap_reduce: bool = True
    overlap_gather: bool = True
    units: ShardPlan | None = None
    compression: Compression | None = None


@dataclass(frozen=True, slots=True)
class ShardPlan:
    """What moves inside chunks because a rank holds only a shard of each unit (ZeRO-2, ZeRO-3, FSDP, HSDP).

    gather            units are gathered before they run; again in backward if `regather`
    gather_once       only the first micro-batch gathers (parameters stay whole until the step's end)
    reduce            gradients are reduced as each unit's backward ends
    reduce_each       after every micro-batch, else after the last only
    replicas          ranks that hold copies of a shard, over which its gradient is summed (hybrid sharding)
    ahead             units gathered beyond the one that runs
    """

    gather: bool
    reduce: bool
    regather: bool = True
    gather_once: bool = False
    reduce_each: bool = True
    replicas: GroupShape = field(default_factory=lambda: GroupShape(1))
    ahead: int = 1


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Schedule and messages. `scatter`: each tp rank sends 1/tp of an activation that it holds whole.

    schedule   as `simcluster.parallel.schedules.stage_orders` names them
    """

    schedule: str = "1f1b"
    virtual_stages: int = 1
    group: int | None = None
    overlap_messages: bool = False
    scatter: bool = True


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One training step of one replica, and of all replicas by symmetry.

    block_parameters   parameters of each block on one rank, its share of the experts included
    widening           bytes of an activation over those of a 16-bit one
    expert_parameters  those of them that belong to experts (their gradients are summed over fewer ranks)
    optimizer_bytes    bytes that optimizer, norm and clipping move per parameter of the rank's shard
    gradient_pass_bytes  bytes moved per parameter of the whole rank to clear the gradients
    offload            where the states live if not on the GPU
    """

    arch: Architecture
    mesh: Mesh
    contents: tuple[tuple[ChunkContents, ...], ...]
    batch: Batch
    micro_batches: int
    layer: LayerPlan
    exchange: ExchangePlan
    recompute: RecomputePlan
    data: DataParallelPlan
    pipeline: PipelinePlan
    padded_vocab: int
    block_parameters: dict[str, float]
    expert_parameters: dict[str, float] = field(default_factory=dict)
    optimizer_bytes: float = 30.0
    gradient_pass_bytes: float = 8.0
    tied_exchange: bool = False
    widening: float = 1.0
    offload: OffloadPlan | None = None


@dataclass(frozen=True, slots=True)
class Bucket:
    """Consecutive blocks of a chunk whose gradients are reduced, or parameters gathered, together.

    first, last    positions of its blocks in the order of the pass that makes or needs it
    parameters     on one rank, experts apart
    experts        parameters of experts on one rank
    """

    first: int
    last: int
    parameters: float
    experts: float = 0.0


# What surrounds the layer in a block of multi-token prediction: no framework runs it again.
_NEVER_AGAIN = ("mtp_projection", "final_norm", "output", "loss")


def block_names(plan: StepPlan, contents: ChunkContents, backward: bool = False) -> tuple[str, ...]:
    """Blocks of a chunk in the order of a pass; layers by kind, those of further tokens after the head."""
    layers = (BLOCK_OF[layer_kind(plan.arch, contents.first + i)] for i in range(contents.layers))
    names = ["embedding"] * contents.embedding + [*layers]
    names += ["head", *["mtp"] * plan.arch.mtp_depth] if contents.head else []
    return tuple(reversed(names) if backward else names)


def paired_names(plan: StepPlan, forward: ChunkContents, backward: ChunkContents) -> tuple[str, ...]:
    """Blocks of a forward chunk beside a backward one, see `simcluster.program.paired`."""
    kinds = {**LAYER_BLOCKS, "mtp": layer_kind(plan.arch, plan.arch.layers)}
    exchanging = frozenset(name for name, kind in kinds.items() if kind.mlp == "moe" and plan.exchange.ep > 1)
    return pair_names(block_names(plan, forward), block_names(plan, backward, backward=True), exchanging)


def block_ops(plan: StepPlan, block: str, backward: bool) -> tuple[BlockOp, ...]:
    """Operations of one block in one pass."""
    elements = _elements(plan, block)
    exchange = plan.exchange
    if not backward:
        ops = forward_block(elements, exchange)
        return ops + _loss_exchanges(plan, block, len(ops) - 1)
    if block not in LAYER_BLOCKS and block != "mtp":
        return backward_block(elements, exchange)
    if plan.recompute.whole_layers:
        again = tuple(element for element in elements if element.name not in _NEVER_AGAIN)
        return backward_block(elements, exchange, again=again)
    return backward_block(elements, exchange, dict(plan.recompute.parts))


def weight_gradient_ops(plan: StepPlan, block: str) -> tuple[BlockOp, ...]:
    """The operations of a block's backward that only the optimizer waits for, one after the other."""
    kernels = [
        kernel
        for element in reversed(_elements(plan, block))
        for kernel in (() if element.exchange == "context" else element.wgrad)
    ]
    return tuple(BlockOp(kernel, COMPUTE, (place - 1,) if place else ()) for place, kernel in enumerate(kernels))


def _elements(plan: StepPlan, block: str) -> tuple[Element, ...]:
    """Elements of a block; head and routers stay in 16 bits."""
    wide = replace(plan.layer, dtype=plan.layer.head_dtype)
    if block == "embedding":
        elements = embedding_elements(plan.arch, plan.batch, wide)
    elif block == "head":
        elements = head_elements(plan.arch, plan.batch, wide, plan.padded_vocab)
    elif block == "mtp":
        elements = further_token_elements(plan.arch, plan.batch, plan.layer, plan.padded_vocab)
    else:
        elements = layer_elements(plan.arch, plan.batch, plan.layer, LAYER_BLOCKS[block])
    return tuple(widened(element, plan.widening) for element in elements) if plan.widening != 1.0 else elements


def _loss_exchanges(plan: StepPlan, block: str, last: int) -> tuple[BlockOp, ...]:
    """A vocabulary split over tp needs the maximum and two sums of each token's logits (fp32), once they are there."""
    if block not in ("head", "mtp") or plan.mesh.tp == 1:
        return ()
    size = 4.0 * plan.batch.tokens
    names = ("loss_max", "loss_target", "loss_sum")
    return tuple(BlockOp(Transfer(name, "all_reduce", size, "tp"), 1, (last,)) for name in names)


def buckets(plan: StepPlan, contents: ChunkContents, backward: bool) -> tuple[Bucket, ...]:
    """Buckets of a chunk, in the order of the pass."""
    size = plan.data.gradient_bytes if backward else plan.data.parameter_bytes
    limit = plan.data.bucket_bytes / plan.data.gradient_bytes * size
    found: list[Bucket] = []
    first, held, experts = 0, 0.0, 0.0
    names = block_names(plan, contents, backward)
    for position, name in enumerate(names):
        held += plan.block_parameters[name]
        experts += plan.expert_parameters.get(name, 0.0)
        if held * size >= limit or position == len(names) - 1:
            found.append(Bucket(first, position, held - experts, experts))
            first, held, experts = position + 1, 0.0, 0.0
    return tuple(found)


def step_shape(plan: StepPlan) -> StepShape:
    """Structure of the step program."""
    units = plan.data.units
    shared = has_copies(plan)
    reduced = shared and not (units and units.reduce)
    gathered = shared and plan.data.gather_kind != "none" and not (units and units.gather)
    pipeline = plan.pipeline
    return StepShape(
        schedule=pipeline.schedule,
        pp=plan.mesh.pp,
        micro_batches=plan.micro_batches,
        virtual_stages=len(plan.contents[0]),
        group=pipeline.group,
        grad_buckets=_counts(plan, backward=True, wanted=reduced),
        gather_buckets=_counts(plan, backward=False, wanted=gathered),
        overlap_reduce=plan.data.overlap_reduce,
        overlap_gather=plan.data.overlap_gather,
        tied_embedding=plan.tied_exchange,
        wires=has_wires(plan),
        replica_wires=has_wires(plan) and units is not None and units.reduce and units.replicas.ranks > 1,
        ends=end_stages(plan) if plan.tied_exchange else None,
        host_copies=() if plan.offload is None else _counts(plan, backward=True, wanted=True),
        drives=plan.offload is not None and plan.offload.drives,
    )


def end_stages(plan: StepPlan) -> tuple[int, int]:
    """Stages that hold embedding and head."""
    held = list(enumerate(plan.contents))
    embedding = next(stage for stage, chunks in held if any(chunk.embedding for chunk in chunks))
    return embedding, next(stage for stage, chunks in reversed(held) if any(chunk.head for chunk in chunks))


def has_wires(plan: StepPlan) -> bool:
    """Whether chunks move shards."""
    return plan.data.units is not None and has_copies(plan)


def has_copies(plan: StepPlan) -> bool:
    """Whether any gradient is summed: of the whole rank over replicas, or of experts over the ranks that share them."""
    return plan.data.group.ranks > 1 or (bool(plan.expert_parameters) and plan.data.expert_group.ranks > 1)


def chunk_shape(plan: StepPlan, blocks: int, backward: bool, position: int) -> ChunkShape:
    """Structure of a chunk; `position` is 0, 1, 2 for the first, a middle, the last (or only) micro-batch."""
    units = plan.data.units
    if units is None or not has_copies(plan):
        return ChunkShape(blocks)
    first = position == 0 or (position == 2 and plan.micro_batches == 1)
    needed = units.gather and (units.regather or not backward)
    gathers = needed and (first or not units.gather_once)
    scatters = backward and units.reduce and (units.reduce_each or position == 2)
    return ChunkShape(blocks, gathers, scatters, scatters and units.replicas.ranks > 1, units.ahead)


def _counts(plan: StepPlan, backward: bool, wanted: bool) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(len(buckets(plan, chunk, backward)) if wanted else 0 for chunk in stage) for stage in plan.contents
    )


def message_bytes(plan: StepPlan) -> float:
    """Bytes that one rank sends to the next stage for one micro-batch.

    175B, one sequence of 2,048 tokens, tp 8 with sequence parallel: 6,291,456 B.
    """
    whole = plan.widening * ACTIVATION_BYTES * float(plan.batch.tokens) * plan.arch.hidden
    split = plan.layer.sequence_parallel or plan.pipeline.scatter
    return whole / plan.mesh.tp if split else whole


def stage_parameters(plan: StepPlan, stage: Sequence[ChunkContents]) -> float:
    """Parameters of one stage on one rank, experts included."""
    return sum(plan.block_parameters[name] for chunk in stage for name in block_names(plan, chunk))


def stage_experts(plan: StepPlan, stage: Sequence[ChunkContents]) -> float:
    """Parameters of experts of one stage on one rank."""
    return sum(plan.expert_parameters.get(name, 0.0) for chunk in stage for name in block_names(plan, chunk))
