"""Activations that are alive at a stage's peak: those in flight, and those of the moment that sets the peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.memory import buffers, head
from simcluster.memory.activations import embedding_activations, layer_activations
from simcluster.memory.allocator import segment_slack_bytes
from simcluster.memory.arrays import total
from simcluster.memory.inflight import chunk_sets, head_sets
from simcluster.memory.moments import peak_moment
from simcluster.memory.recompute import rebuilt, recompute_rules, saved
from simcluster.memory.setup import MemorySetup
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily


@dataclass(frozen=True, slots=True)
class LayerMemory:
    """What one layer keeps for its backward, by component, and what its backward rebuilds [bytes]."""

    saved: dict[str, Num]
    rebuilt: Num


def layer_memory(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> LayerMemory:
    """Activations of one layer under the recompute mode of the setup.

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
        sequence_parallel=setup.sequence_parallel,
        attention=software.attention,
        dropout=software.dropout,
        fused_norm=software.fused_norm,
        fused_activation=software.fused_activation,
        element_bytes=setup.element_bytes,
    )
    rules = recompute_rules(setup.recompute, setup.modules or software.selective_modules)
    return LayerMemory(saved(activations, rules), rebuilt(activations, rules))


def layers_in_flight(chunks: Sequence[ChunkContents], sets: Sequence[Num]) -> Num:
    """Layers whose saved activations are alive: for each chunk its layers times its sets in flight.

    >>> layers_in_flight([ChunkContents(2), ChunkContents(3)], [7.0, 4.0])
    26.0
    """
    return total(count * chunk.layers for count, chunk in zip(sets, chunks, strict=True))


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
    sets = chunk_sets(setup.schedule, stage, setup.pp, setup.micro_batches, len(chunks))
    layers = layers_in_flight(chunks, sets)
    parts = {name: size * layers for name, size in layer_memory(arch, setup, software).saved.items()}
    embedded = total(count * chunk.embedding for count, chunk in zip(sets, chunks, strict=True))
    outer = embedding_activations(
        arch, setup.tokens, setup.residual_shards, dropout=software.dropout, element_bytes=setup.element_bytes
    )
    parts |= {name: size * embedded for name, size in outer.items()}
    if any(chunk.head for chunk in chunks):
        parts |= _head_saved(arch, setup, software)
    return parts


def rounding_bytes(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    stage: int,
    setup: MemorySetup,
    software: SoftwareFamily,
) -> Num:
    """Unused ends of the allocator's segments that hold the saved activations [bytes]."""
    sets = chunk_sets(setup.schedule, stage, setup.pp, setup.micro_batches, len(chunks))
    tensors = layer_memory(arch, setup, software).saved.values()
    return layers_in_flight(chunks, sets) * total(segment_slack_bytes(size) for size in tensors)


def transient_bytes(
    arch: Architecture, chunks: Sequence[ChunkContents], setup: MemorySetup, software: SoftwareFamily
) -> dict[str, Num]:
    """What is alive for a moment at the peak: the loss of one micro-batch, or the backward of one layer [bytes].

    The temporary weight gradient of the head counts beside all of the logits' bytes, an estimate (grade D): allocations
    that MooreThreads/SimuMax measured are larger by about this than without it.
    """
    gradients = buffers.weight_gradient_bytes(arch, setup, software)
    moments: list[dict[str, Num]] = []
    if any(chunk.head for chunk in chunks):
        peak = head.logits_peak_bytes(_logits(arch, setup), _cross_entropy(software))
        moments.append({"logits": peak, "weight_gradient": gradients["head"]})
    if any(chunk.layers for chunk in chunks):
        moments.append(
            {
                "recompute": layer_memory(arch, setup, software).rebuilt,
                "backward": buffers.backward_working_bytes(arch, setup),
                "weight_gradient": gradients["layer"],
            }
        )
    return peak_moment(moments) if moments else {}


def _cross_entropy(software: SoftwareFamily) -> str:
    return "fused" if software.fused_cross_entropy else "unfused"


def _logits(arch: Architecture, setup: MemorySetup) -> Num:
    return head.logits(arch, setup.tokens, setup.tp, setup.vocab_multiple)


def _head_saved(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Inputs of final norm and head for each micro-batch in flight, and the losses of all but the current one."""
    sets = head_sets(setup.schedule, setup.pp, setup.micro_batches)
    inputs = head.head_activations(arch, setup.tokens, setup.residual_shards, setup.element_bytes)
    losses = (sets - 1) * head.logits_saved_bytes(_logits(arch, setup), _cross_entropy(software))
    return {name: sets * size for name, size in inputs.items()} | {"head.losses": losses}
