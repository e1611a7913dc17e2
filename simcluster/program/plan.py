"""The plan of a step: everything the engines need, as numbers and shapes.

`StepPlan` gathers what the scenario, catalogue and software family decided; the functions below derive from it the
contents of blocks and chunks, the gradient buckets, and the shape of the step program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from simcluster.parallel.mesh import Mesh
from simcluster.parallel.stages import ChunkContents
from simcluster.program.block import BlockOp, ExchangePlan, backward_block, forward_block
from simcluster.program.step import StepShape
from simcluster.shapes import Architecture, CollectiveKind, GroupShape, Transfer
from simcluster.workload.operators import (
    Batch,
    Element,
    LayerPlan,
    embedding_elements,
    head_elements,
    layer_elements,
)

BLOCKS = ("embedding", "layer", "head")
PASSES = ("forward", "backward")
ACTIVATION_BYTES = 2.0


@dataclass(frozen=True, slots=True)
class RecomputePlan:
    """What the backward pass runs again: whole layers, or the named parts of each layer."""

    whole_layers: bool = False
    parts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class DataParallelPlan:
    """How gradients are summed and parameters returned.

    group             ranks over which gradients are summed
    gather_group      ranks that return updated parameters to each other
    shards            ranks that share the optimizer's states (1: every rank keeps all)
    reduce_kind       collective of the gradients; bytes per parameter `gradient_bytes`
    gather_kind       collective that returns the parameters, "none" if every rank keeps all
    bucket_bytes      a bucket is closed once it holds this much
    """

    group: GroupShape
    gather_group: GroupShape
    shards: int = 1
    reduce_kind: CollectiveKind = "all_reduce"
    gather_kind: CollectiveKind | Literal["none"] = "none"
    gradient_bytes: float = 4.0
    parameter_bytes: float = 2.0
    bucket_bytes: float = 160e6
    overlap_reduce: bool = True
    overlap_gather: bool = True


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """Schedule and messages. `scatter`: each tp rank sends 1/tp of an activation that it holds whole."""

    schedule: str = "1f1b"
    virtual_stages: int = 1
    group: int | None = None
    overlap_messages: bool = False
    scatter: bool = True


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One training step of one replica, and of all replicas by symmetry.

    block_parameters   parameters of an embedding, a layer, a head on one rank
    optimizer_bytes    bytes that optimizer, norm and clipping move per parameter of the rank's shard
    gradient_pass_bytes  bytes moved per parameter of the whole rank to clear the gradients
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
    optimizer_bytes: float = 30.0
    gradient_pass_bytes: float = 8.0
    tied_exchange: bool = False


@dataclass(frozen=True, slots=True)
class Bucket:
    """Consecutive blocks of a chunk whose gradients are reduced, or parameters gathered, together.

    first, last    positions of its blocks in the order of the pass that makes or needs it
    parameters     on one rank
    """

    first: int
    last: int
    parameters: float


def block_names(contents: ChunkContents, backward: bool = False) -> tuple[str, ...]:
    """Blocks of a chunk in the order in which a pass runs them.

    >>> block_names(ChunkContents(2, embedding=True), backward=True)
    ('layer', 'layer', 'embedding')
    """
    names = ["embedding"] * contents.embedding + ["layer"] * contents.layers + ["head"] * contents.head
    return tuple(reversed(names) if backward else names)


def block_ops(plan: StepPlan, block: str, backward: bool) -> tuple[BlockOp, ...]:
    """Operations of one block in one pass."""
    elements = _elements(plan, block)
    exchange = plan.exchange
    if not backward:
        return forward_block(elements, exchange) + _loss_exchanges(plan, block)
    if block != "layer":
        return backward_block(elements, exchange)
    return backward_block(elements, exchange, plan.recompute.parts, plan.recompute.whole_layers)


def _elements(plan: StepPlan, block: str) -> tuple[Element, ...]:
    if block == "embedding":
        return embedding_elements(plan.arch, plan.batch, plan.layer)
    if block == "head":
        return head_elements(plan.arch, plan.batch, plan.layer, plan.padded_vocab)
    return layer_elements(plan.arch, plan.batch, plan.layer)


def _loss_exchanges(plan: StepPlan, block: str) -> tuple[BlockOp, ...]:
    """A vocabulary split over tp needs the maximum and two sums of each token's logits (fp32)."""
    if block != "head" or plan.mesh.tp == 1:
        return ()
    size = 4.0 * plan.batch.tokens
    names = ("loss_max", "loss_target", "loss_sum")
    return tuple(BlockOp(Transfer(name, "all_reduce", size, "tp"), 1, ()) for name in names)


def buckets(plan: StepPlan, contents: ChunkContents, backward: bool) -> tuple[Bucket, ...]:
    """Buckets of a chunk, in the order of the pass."""
    size = plan.data.gradient_bytes if backward else plan.data.parameter_bytes
    limit = plan.data.bucket_bytes / plan.data.gradient_bytes * size
    found: list[Bucket] = []
    first, held = 0, 0.0
    names = block_names(contents, backward)
    for position, name in enumerate(names):
        held += plan.block_parameters[name]
        if held * size >= limit or position == len(names) - 1:
            found.append(Bucket(first, position, held))
            first, held = position + 1, 0.0
    return tuple(found)


def step_shape(plan: StepPlan) -> StepShape:
    """Structure of the step program."""
    reduced = plan.data.group.ranks > 1
    gathered = reduced and plan.data.gather_kind != "none"
    pipeline = plan.pipeline
    return StepShape(
        schedule=pipeline.schedule,
        pp=plan.mesh.pp,
        micro_batches=plan.micro_batches,
        virtual_stages=pipeline.virtual_stages,
        group=pipeline.group,
        grad_buckets=_counts(plan, backward=True, wanted=reduced),
        gather_buckets=_counts(plan, backward=False, wanted=gathered),
        overlap_reduce=plan.data.overlap_reduce,
        overlap_gather=plan.data.overlap_gather,
        tied_embedding=plan.tied_exchange,
    )


def _counts(plan: StepPlan, backward: bool, wanted: bool) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(len(buckets(plan, chunk, backward)) if wanted else 0 for chunk in stage) for stage in plan.contents
    )


def message_bytes(plan: StepPlan) -> float:
    """Bytes that one rank sends to the next stage for one micro-batch (16-bit activations).

    175B, one sequence of 2,048 tokens, tp 8 with sequence parallel: 6,291,456 B.
    """
    whole = ACTIVATION_BYTES * float(plan.batch.tokens) * plan.arch.hidden
    split = plan.layer.sequence_parallel or plan.pipeline.scatter
    return whole / plan.mesh.tp if split else whole


def stage_parameters(plan: StepPlan, stage: Sequence[ChunkContents]) -> float:
    """Parameters of one stage on one rank."""
    return sum(plan.block_parameters[name] for chunk in stage for name in block_names(chunk))
