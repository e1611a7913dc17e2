"""Activations that are alive at a stage's peak: those in flight, and those of the moment that sets the peak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from simcluster.memory import buffers, head
from simcluster.memory.activations import embedding_activations, layer_activations
from simcluster.memory.allocator import segment_slack_bytes
from simcluster.memory.arrays import plain, total
from simcluster.memory.counts import further_kinds, held_kinds
from simcluster.memory.inflight import chunk_sets, head_sets
from simcluster.memory.moments import peak_moment
from simcluster.memory.precision import activation_widths
from simcluster.memory.recompute import rebuilt, recompute_rules, saved
from simcluster.memory.setup import MemorySetup
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.layers import LayerKind, layer_kind


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """What one layer keeps for its backward, by component, and what its backward rebuilds [bytes]."""

    saved: dict[str, Num]
    rebuilt: Num


def layer_memory(
    arch: Architecture, setup: MemorySetup, software: SoftwareFamily, kind: LayerKind | None = None
) -> LayerMemory:
    """Activations of one layer under the recompute mode of the setup; kind is by default the first layer's.

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> layer = layer_memory(llama, MemorySetup(sequence=4096, recompute="full"), SoftwareFamily("mine"))
    >>> round(sum(layer.saved.values()) / 1e6, 2), round(layer.rebuilt / 1e6, 2)
    (33.55, 505.94)
    """
    activations = layer_activations(
        arch,
        setup.tokens,
        setup.sequence,
        setup.tp,
        kind=kind or layer_kind(arch, 0),
        cp=setup.cp,
        etp=setup.etp,
        context=software.cp_communication,
        imbalance=setup.imbalance,
        sequence_parallel=setup.sequence_parallel,
        attention=software.attention,
        dropout=software.dropout,
        fused_activation=software.fused_activation,
        widths=activation_widths(setup.precision, software),
    )
    rules = recompute_rules(setup.recompute, setup.modules or software.selective_modules)
    return LayerMemory(saved(activations, rules), rebuilt(activations, rules))


def layers_in_flight(
    arch: Architecture, chunks: Sequence[ChunkContents], sets: Sequence[Num], further: Num = 1
) -> dict[LayerKind, Num]:
    """Layers whose saved activations are alive, by kind: for each chunk its layers times its sets in flight.

    `further` are the sets of the layers that predict further tokens, where the stage holds the head.

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> list(layers_in_flight(llama, [ChunkContents(2), ChunkContents(3)], [7.0, 4.0]).values())
    [26.0]
    """
    alive: dict[LayerKind, Num] = {}
    for count, chunk in zip(sets, chunks, strict=True):
        kinds = Counter(layer_kind(arch, chunk.first + index) for index in range(chunk.layers))
        for kind, layers in kinds.items():
            alive[kind] = alive.get(kind, 0.0) + count * layers
    for kind in further_kinds(arch, chunks):
        alive[kind] = alive.get(kind, 0.0) + further
    return alive


def _alive(
    arch: Architecture, chunks: Sequence[ChunkContents], stage: int, setup: MemorySetup
) -> tuple[dict[LayerKind, Num], Sequence[Num]]:
    """Layers in flight by kind, and the sets of each chunk."""
    sets = chunk_sets(setup.schedule, stage, setup.pp, setup.micro_batches, len(chunks))
    losses = head_sets(setup.schedule, setup.pp, setup.micro_batches)
    return layers_in_flight(arch, chunks, sets, losses), sets


def saved_activations(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    stage: int,
    setup: MemorySetup,
    software: SoftwareFamily,
) -> dict[str, Num]:
    """Activations in flight at the stage's peak, by component `group.tensor` [bytes].

    `chunks` are the virtual stages that the stage holds, in the order of the model.

    >>> llama = Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000)
    >>> setup = MemorySetup(tp=8, pp=4, dp=4, sequence=4096, micro_batches=32)
    >>> sizes = saved_activations(llama, [ChunkContents(20, embedding=True)], 0, setup, SoftwareFamily("mine"))
    >>> round(sum(sizes.values()) / 1e9, 2)
    11.25
    """
    layers, sets = _alive(arch, chunks, stage, setup)
    parts: dict[str, Num] = {}
    for kind, count in layers.items():
        _add(parts, layer_memory(arch, setup, software, kind).saved, count)
    embedded = total(count * chunk.embedding for count, chunk in zip(sets, chunks, strict=True))
    widths = activation_widths(setup.precision, software)
    outer = embedding_activations(arch, setup.tokens, setup.residual_shards, dropout=software.dropout, widths=widths)
    _add(parts, outer, embedded)
    if any(chunk.head for chunk in chunks):
        _add(parts, _head_saved(arch, setup, software), 1.0)
    return parts


def _add(parts: dict[str, Num], more: Mapping[str, Num], times: Num) -> None:
    for name, size in more.items():
        parts[name] = parts.get(name, 0.0) + size * times


def rounding_bytes(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    stage: int,
    setup: MemorySetup,
    software: SoftwareFamily,
) -> Num:
    """Unused ends of the allocator's segments that hold the saved activations [bytes]."""
    return total(
        count * total(segment_slack_bytes(size) for size in layer_memory(arch, setup, software, kind).saved.values())
        for kind, count in _alive(arch, chunks, stage, setup)[0].items()
    )


def transient_bytes(
    arch: Architecture, chunks: Sequence[ChunkContents], setup: MemorySetup, software: SoftwareFamily
) -> dict[str, Num]:
    """What is alive for a moment at the peak: the loss of one micro-batch, or the backward of one layer [bytes].

    The temporary weight gradient of the head counts beside all of the logits' bytes, an estimate (grade D): allocations
    that MooreThreads/SimuMax measured are larger by about this than without it.
    """
    moments: list[dict[str, Num]] = []
    if any(chunk.head for chunk in chunks):
        peak = head.logits_peak_bytes(_logits(arch, setup), _cross_entropy(software), setup.element_bytes)
        moments.append({"logits": peak, "weight_gradient": buffers.head_gradient_bytes(arch, setup, software)})
    moments += [
        {
            "recompute": layer_memory(arch, setup, software, kind).rebuilt,
            "backward": buffers.backward_working_bytes(arch, setup, kind),
            "context_exchange": buffers.context_bytes(arch, setup, software),
            "weight_gradient": buffers.weight_gradient_bytes(arch, setup, software, kind),
        }
        for kind in held_kinds(arch, chunks)
    ]
    return peak_moment(moments) if moments else {}


def _cross_entropy(software: SoftwareFamily) -> str:
    return "fused" if software.fused_cross_entropy else "unfused"


def _logits(arch: Architecture, setup: MemorySetup) -> Num:
    return head.logits(arch, setup.tokens, setup.tp, setup.vocab_multiple)


def _head_saved(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Inputs of final norm and head for each micro-batch in flight, and the losses of all but the current one.

    Every depth of multi-token prediction has a norm and a loss of its own before the same head, norms of the hidden
    state and of the next token's embedding, and a projection that reads both.
    """
    sets = head_sets(setup.schedule, setup.pp, setup.micro_batches)
    losses = 1 + arch.mtp_depth
    inputs = head.head_activations(arch, setup.tokens, setup.residual_shards, setup.element_bytes)
    kept = head.logits_saved_bytes(_logits(arch, setup), _cross_entropy(software), setup.element_bytes)
    parts = {name: sets * losses * size for name, size in inputs.items()}
    parts["head.losses"] = plain((sets * losses - 1) * kept)
    stream = setup.element_bytes * setup.tokens * arch.hidden / setup.residual_shards
    if arch.mtp_depth:
        parts["further.norm_inputs"] = 2 * sets * arch.mtp_depth * stream
        parts["further.projection_input"] = 2 * sets * arch.mtp_depth * stream
    return parts
