"""Peak memory of one rank of each pipeline stage, by component.

The peak is what stays through the step (states, communication buffers, workspace), the activations that are in flight
when the pipeline is fullest, and the larger of two moments: the loss of one micro-batch, or the backward of one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.memory import buffers
from simcluster.memory.allocator import PRIORS, MemoryPriors, communicator_bytes
from simcluster.memory.arrays import plain, total
from simcluster.memory.live import rounding_bytes, saved_activations, transient_bytes
from simcluster.memory.parameters import stage_parameters
from simcluster.memory.setup import MemorySetup
from simcluster.memory.static import family_states, static_bytes
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily

RESERVED_ONLY = ("allocator_rounding", "fragmentation")
DEVICE_ONLY = ("context", "communicators")


@dataclass(frozen=True, slots=True)
class StageMemory:
    """Peak of one rank of a stage; `components` [bytes] sum to `peak_bytes`, the figure that the device shows."""

    stage: int
    components: Mapping[str, Num]

    @property
    def peak_bytes(self) -> Num:
        """Same as `device_bytes`."""
        return self.device_bytes

    @property
    def device_bytes(self) -> Num:
        """Everything on the device, with context and communicators."""
        return _total(self.components, ())

    @property
    def reserved_bytes(self) -> Num:
        """What the framework's allocator holds."""
        return _total(self.components, DEVICE_ONLY)

    @property
    def allocated_bytes(self) -> Num:
        """Live tensors."""
        return _total(self.components, DEVICE_ONLY + RESERVED_ONLY)


def _total(components: Mapping[str, Num], without: tuple[str, ...]) -> Num:
    return total(size for name, size in components.items() if name not in without)


def grouped(parts: Mapping[str, Num]) -> dict[str, Num]:
    """Activations summed by operator group: `activations_attention`, `activations_mlp`, `activations_norms`, …

    >>> grouped({"mlp.up": 4.0, "mlp.activation": 2.0})
    {'activations_mlp': 6.0}
    """
    groups = dict.fromkeys(name.split(".")[0] for name in parts)
    return {
        f"activations_{group}": total(size for name, size in parts.items() if name.split(".")[0] == group)
        for group in groups
    }


def resident_bytes(
    arch: Architecture, chunks: Sequence[ChunkContents], setup: MemorySetup, software: SoftwareFamily
) -> dict[str, Num]:
    """What stays through the step: states and communication buffers [bytes]."""
    parts = stage_parameters(arch, chunks, setup.tp, setup.vocab_multiple)
    parameters = total(parts.values())
    states = static_bytes(parameters, family_states(software, setup.precision), setup.sharding, setup.shards)
    outer = parts["embedding"] + parts["head"]
    return (
        states
        | buffers.sharding_buffers(arch, parameters, outer, setup, software)
        | buffers.exchange_buffers(arch, setup, software)
    )


def stage_memory(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    stage: int,
    setup: MemorySetup,
    software: SoftwareFamily,
    priors: MemoryPriors = PRIORS,
) -> StageMemory:
    """Peak memory of one rank of a pipeline stage.

    `chunks` are the virtual stages that stage number `stage` (0 .. pp-1) holds. Numbers of `setup` may be arrays; then
    so are the components. Not modelled: experts, offload, latent attention, the optimizer's own temporaries (fused
    optimizers have none). Raises InputError for unknown names in `setup`.

    >>> gpt = Architecture("gpt-3", 96, 12288, 96, 96, 128, 49152, 50257, gated_ffn=False, norm="layernorm")
    >>> setup = MemorySetup(tp=8, pp=8, micro_batches=64, sharding="none", recompute="selective")
    >>> software = SoftwareFamily("megatron", attention="unfused", dropout=True)
    >>> chunks = [ChunkContents(4, embedding=True), ChunkContents(4), ChunkContents(4)]
    >>> memory = stage_memory(gpt, chunks, 0, setup, software)
    >>> 59 < memory.allocated_bytes / 2**30 < 61
    True
    """
    resident = resident_bytes(arch, chunks, setup, software)
    activations = grouped(saved_activations(arch, chunks, stage, setup, software))
    moving = activations | transient_bytes(arch, chunks, setup, software)
    components: dict[str, Num] = {
        **resident,
        **moving,
        "workspace": priors.workspace_bytes,
        "allocator_rounding": rounding_bytes(arch, chunks, stage, setup, software),
        "fragmentation": priors.fragmentation * total(moving.values()),
        "communicators": communicator_bytes((setup.tp, setup.pp, np.multiply(setup.dp, setup.cp)), priors),
        "context": priors.context_bytes,
    }
    return StageMemory(stage, {name: plain(size) for name, size in components.items()})
