"""Bytes per parameter of weights, gradients and optimizer states, and how sharding divides them.

| convention | weights | gradients | optimizer | none | zero-1 over d |
|---|---|---|---|---|---|
| fp32 Adam | 4 | 4 | 8 | 16 | 8 + 8/d |
| bf16 with fp32 main gradients (NVIDIA/Megatron-LM, distributed optimizer guide) | 2 | 4 | 12 | 18 | 6 + 12/d |
| fp16 weights and gradients, fp32 copy of these (same guide) | 2 | 2 | 16 | 20 | 4 + 16/d |
| ZeRO paper, mixed precision (Rajbhandari et al. 2020) | 2 | 2 | 12 | 16 | 4 + 12/d |

Sources in brackets; the other conventions below are sums of the sizes of what is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.memory.names import look_up
from simcluster.shapes import Num
from simcluster.timing.software import SoftwareFamily

DTYPE_BYTES: Mapping[str, float] = MappingProxyType({"fp32": 4.0, "bf16": 2.0, "fp16": 2.0})


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter before any sharding."""

    weights: float = 2.0
    gradients: float = 4.0
    optimizer: float = 12.0

    @property
    def total(self) -> float:
        """All states of one parameter."""
        return self.weights + self.gradients + self.optimizer


CONVENTIONS: Mapping[str, StateBytes] = MappingProxyType(
    {
        "fp32": StateBytes(4, 4, 8),
        "bf16": StateBytes(2, 4, 12),
        "fp16": StateBytes(2, 2, 16),
        "zero-paper": StateBytes(2, 2, 12),
        "pure-bf16": StateBytes(2, 2, 4),
        "adam-8bit": StateBytes(2, 2, 6),
        "muon": StateBytes(2, 4, 8),
        "bf16-moments": StateBytes(2, 4, 8),
    }
)


@dataclass(frozen=True, slots=True)
class Sharding:
    """What a strategy divides over its shard group.

    sharded           states that each rank holds 1/d of
    gathers_weights   weights are gathered unit by unit while they are used
    reduce_buffers    buckets of whole gradients that are alive while the shards are reduced
    live_parameters   parameters that may stay gathered because they are used again soon
    """

    sharded: frozenset[str] = frozenset()
    gathers_weights: bool = False
    reduce_buffers: int = 0
    live_parameters: float = 0.0


_ALL = frozenset({"weights", "gradients", "optimizer"})
STRATEGIES: Mapping[str, Sharding] = MappingProxyType(
    {
        "none": Sharding(),
        "zero-1": Sharding(frozenset({"optimizer"})),
        "zero-2": Sharding(frozenset({"gradients", "optimizer"}), reduce_buffers=2),
        "zero-3": Sharding(_ALL, gathers_weights=True, live_parameters=1e9),  # a default of deepspeedai/DeepSpeed
        "fsdp": Sharding(_ALL, gathers_weights=True),
        "hsdp": Sharding(_ALL, gathers_weights=True),
    }
)


def strategy(name: str) -> Sharding:
    """The sharding strategy of that name: none, zero-1, zero-2, zero-3, fsdp or hsdp.

    >>> sorted(strategy("zero-1").sharded)
    ['optimizer']
    """
    return look_up(STRATEGIES, name, "training.sharding.strategy")


def family_states(software: SoftwareFamily, precision: str = "bf16") -> StateBytes:
    """What a software family keeps for each parameter; fp32 and tf32 training has no separate master copy.

    >>> family_states(SoftwareFamily("megatron")).total, family_states(SoftwareFamily("megatron"), "fp32").total
    (18.0, 16)
    """
    if precision in ("fp32", "tf32"):
        return CONVENTIONS["fp32"]
    weights, gradients = DTYPE_BYTES[software.parameter_storage], DTYPE_BYTES[software.gradient_storage]
    return StateBytes(weights, gradients, software.optimizer_state_bytes)


def bytes_per_parameter(states: StateBytes, sharding: str = "none", shard_ranks: Num = 1) -> dict[str, Num]:
    """Bytes per parameter that one rank holds, by state.

    shard_ranks [ranks, >= 1] is the group that shares the shards: dp·cp for a distributed optimizer, the FSDP group, or
    the shard subgroup under hsdp; scalar or array. Raises InputError for an unknown strategy.

    >>> sum(bytes_per_parameter(CONVENTIONS["bf16"], "zero-1", 64).values())
    6.1875
    >>> sum(bytes_per_parameter(CONVENTIONS["zero-paper"], "zero-3", 64).values())
    0.25
    """
    sharded = strategy(sharding).sharded
    whole = {"weights": states.weights, "gradients": states.gradients, "optimizer": states.optimizer}
    return {name: size / (shard_ranks if name in sharded else 1) for name, size in whole.items()}


def static_bytes(parameters: Num, states: StateBytes, sharding: str = "none", shard_ranks: Num = 1) -> dict[str, Num]:
    """Bytes of weights, gradients and optimizer states on one rank.

    parameters [count] are those of the rank after tensor and pipeline parallelism; arguments broadcast.

    >>> sizes = static_bytes(6738415616, CONVENTIONS["bf16"], "zero-1", 8)
    >>> round(sum(sizes.values()) / 1e9, 2)
    50.54
    """
    per_parameter = bytes_per_parameter(states, sharding, shard_ranks)
    return {name: plain(np.multiply(parameters, size)) for name, size in per_parameter.items()}
