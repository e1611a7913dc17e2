"""Peak memory of one rank of each pipeline stage, by component.

The peak is what stays through the step (states, communication buffers, workspace), the activations that are in flight
when the pipeline is fullest, and the larger of two moments: the loss of one micro-batch, or the backward of one layer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.memory.allocator import PRIORS, MemoryPriors, communicator_bytes
from simcluster.memory.arrays import plain, total
from simcluster.memory.buffers import exchange_buffers
from simcluster.memory.counts import RankParameters, rank_parameters
from simcluster.memory.live import rounding_bytes, saved_activations, transient_bytes
from simcluster.memory.precision import LOW_BYTES, cached_bytes
from simcluster.memory.setup import MemorySetup
from simcluster.memory.static import family_states, static_bytes, strategy
from simcluster.memory.units import sharding_buffers
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


def state_bytes(counts: RankParameters, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Weights, gradients and optimizer states, those of experts apart, and cast copies that stay [bytes].

    Weights that are stored in low precision (with their copy for the backward) replace the 16-bit ones.

    >>> te = SoftwareFamily("te", fp8_weight_cache=True)
    >>> state_bytes(RankParameters(10.0, 0.0, 2.0, 7.0), MemorySetup(precision="fp8", sharding="none"), te)
    {'weights': 20.0, 'gradients': 40.0, 'optimizer': 120.0, 'cast_weights': 14.0}
    """
    states = family_states(software, setup.precision)
    parts = static_bytes(counts.dense, states, setup.sharding, setup.shards)
    experts = static_bytes(counts.experts, states, setup.sharding, setup.expert_shards)
    parts |= {f"expert_{name}": size for name, size in experts.items() if np.any(size)}
    if setup.offload:
        parts = _on_gpu(parts, setup)
    if strategy(setup.sharding).gathers_weights:
        return parts
    copies = cached_bytes(setup.precision, software)
    if copies:
        parts["cast_weights"] = copies * counts.linear
    if software.fp8_param_gather and setup.precision in LOW_BYTES:
        stored = np.subtract(counts.linear, counts.experts) * states.weights
        parts["weights"] = parts["weights"] - stored
        parts.pop("expert_weights", None)
    return parts


def _on_gpu(parts: Mapping[str, Num], setup: MemorySetup) -> dict[str, Num]:
    """Of states that live outside, what stays: gradients, and parameters unless their shards are gathered to be used.

    >>> _on_gpu({"weights": 4.0, "gradients": 8.0, "optimizer": 24.0}, MemorySetup(dp=2, sharding="fsdp"))
    {'weights': 0.0, 'gradients': 8.0}
    """
    kept = {name: size for name, size in parts.items() if not name.endswith("optimizer")}
    if strategy(setup.sharding).gathers_weights:
        alone = np.equal(setup.shards, 1)  # nobody gathers what nobody shares
        for name in [name for name in kept if name.endswith("weights")]:
            kept[name] = plain(np.where(alone, kept[name], 0.0))
    return kept


def resident_bytes(
    arch: Architecture, chunks: Sequence[ChunkContents], setup: MemorySetup, software: SoftwareFamily
) -> dict[str, Num]:
    """What stays through the step: states and communication buffers [bytes]."""
    counts = rank_parameters(arch, chunks, setup)
    return (
        state_bytes(counts, setup, software)
        | sharding_buffers(arch, chunks, counts, setup, software)
        | exchange_buffers(arch, setup, software)
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
    so are the components. What is zero is left out. Not modelled: static buffers of token dispatchers, the
    optimizer's own temporaries (fused optimizers have none). Raises InputError for unknown names in `setup`.

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
        "communicators": communicator_bytes(_groups(setup), priors),
        "context": priors.context_bytes,
    }
    return StageMemory(stage, {name: plain(size) for name, size in components.items() if np.any(size)})


def _groups(setup: MemorySetup) -> tuple[Num, ...]:
    """Ranks of each parallel axis that has communicators of its own."""
    own_etp = np.where(np.not_equal(setup.etp, setup.tp), setup.etp, 1)
    return (setup.tp, setup.pp, np.multiply(setup.dp, setup.cp), setup.cp, setup.ep, own_etp)
