"""What a scenario comes to: every choice made, with its origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simcluster.hardware.cluster import Cluster
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine
from simcluster.resolve.terms import Means
from simcluster.scenario import Scenario
from simcluster.shapes import Architecture, Assumption
from simcluster.timing.software import SoftwareFamily


@dataclass(frozen=True, slots=True)
class Layout:
    """Batch and degrees of parallelism, all settled.

    sequences       sequences in a global batch
    micro_batches   micro-batches that one replica runs in a step
    recompute       mode as stated or assumed: none, selective, full, or the modules joined by "+"
    strategy        sharding strategy
    shards          ranks that share the optimizer's states (and, by strategy, gradients and parameters)
    grad_compression  as stated
    expert_imbalance  tokens of the busiest expert rank over the mean
    ep, etp         expert-parallel degree and tensor-parallel degree inside experts
    """

    tp: int
    pp: int
    dp: int
    cp: int
    virtual_stages: int
    schedule: str
    group: int | None
    sequence_parallel: bool
    micro_batch: int
    micro_batches: int
    sequences: int
    sequence_length: int
    recompute: str
    strategy: str
    shards: int
    precision: str
    ep: int = 1
    etp: int = 1
    grad_compression: str = "none"
    expert_imbalance: float = 1.0


@dataclass(frozen=True, slots=True)
class Resolved:
    """A scenario with every value settled.

    values        dotted path -> (value, origin): file:line:column, --set, a what-if, a default or an assumption
    assumptions   what nobody stated
    unmodelled    what was stated, or belongs to the software, and nothing computes yet
    means         settles what running and paying depends on; raises InputError for what the catalogue does not have
    """

    scenario: Scenario
    arch: Architecture
    cluster: Cluster
    family: SoftwareFamily
    layout: Layout
    plan: StepPlan
    machine: Machine
    values: Mapping[str, tuple[Any, str]]
    assumptions: tuple[Assumption, ...]
    means: Callable[[], Means] = field(compare=False, repr=False)
    unmodelled: tuple[str, ...] = ()
