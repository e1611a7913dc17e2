"""What running a job and paying for it depends on, settled from scenario and catalogue: each value with its origin.

None of it changes a step. Times in seconds, money in USD.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.shapes import Assumption


@dataclass(frozen=True, slots=True)
class StorageTerms:
    """Storage that all nodes share.

    rented_bytes   capacity to rent for what the job keeps
    raw_bytes      of all drives
    write_bytes_per_s, read_bytes_per_s   all nodes together
    power_w
    """

    rented_bytes: float
    raw_bytes: float
    write_bytes_per_s: float
    read_bytes_per_s: float
    power_w: float


@dataclass(frozen=True, slots=True)
class NodeTerms:
    """How unlike nodes are: spread between them, of one from step to step, known slow ones.

    slow_nodes (count, factor), anywhere in the cluster
    named      (node, factor) of slow ones whose place is known
    measured   name and time of each node of the cluster, in the order of the ranks, instead of all but jitter; or empty
    """

    node_sigma: float = 0.0
    jitter_sigma: float = 0.0
    slow_nodes: tuple[tuple[int, float], ...] = ()
    named: tuple[tuple[int, float], ...] = ()
    measured: tuple[tuple[str, float], ...] = ()

    @property
    def alike(self) -> bool:
        """Whether all nodes are equally fast."""
        return not (self.node_sigma or self.jitter_sigma or self.slow_nodes or self.named or self.measured)


@dataclass(frozen=True, slots=True)
class Doubt:
    """How unsure a value is.

    row     what it was read from: two prices of one row are wrong together
    sigma   standard deviation of ln value
    """

    row: str
    sigma: float


@dataclass(frozen=True, slots=True)
class RunTerms:
    """How a job is run.

    failures_per_s     interruptions of the job by cause [1/s]
    rates_of           whose rates they are: jobs with rates of one fleet are wrong together
    rate_sigma         standard deviation of ln of their rate
    preemption_sigma   the same of pre-emptions
    spares             nodes that wait for others to fail
    detect_s           from a failure to an allocation that is whole again, mean over all causes
    spot_wait_s        part of that after a pre-emption: until other machines are had, which is not paid
    restart_s          from there to the first useful step, loading included
    checkpoint_bytes   of the whole job, all that a restart needs
    asynchronous       steps wait only for the copy to host memory
    pause_s            of the steps around that copy
    interval_s         between checkpoints; None: the one that loses least
    storage            where they go
    node_bytes_per_s   of one node's link to storage
    copy_bytes_per_s, serialise_bytes_per_s   of one GPU to host memory, and of its process into a file
    nodes              how unlike they are
    incidents          outages that a person has to find: per month, median and 90th percentile of the time
    """

    failures_per_s: Mapping[str, float]
    rates_of: str
    rate_sigma: float
    preemption_sigma: float
    spares: int
    detect_s: float
    spot_wait_s: float
    restart_s: float
    checkpoint_bytes: float
    asynchronous: bool
    pause_s: float
    interval_s: float | None
    storage: StorageTerms
    node_bytes_per_s: float
    copy_bytes_per_s: float
    serialise_bytes_per_s: float
    nodes: NodeTerms
    incidents: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class PowerTerms:
    """Power of GPUs, of what is around them, and of the building.

    gpu_idle_w, gpu_limit_w   of a GPU without a job and at its limit
    host_w, fans_w       of a node, before supply losses and at full load
    supply_factor        power in over power out of the supplies
    nameplate_w          rated power of a node
    network_w, storage_w of the whole cluster
    pue                  power of the facility over that of the machines
    """

    gpu_idle_w: float
    gpu_limit_w: float
    host_w: float
    fans_w: float
    supply_factor: float
    nameplate_w: float
    network_w: float
    storage_w: float
    pue: float


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """A cluster that is bought; prices of all of it in USD, shares as fractions.

    residual   share of all capital that the resale brings at the horizon; `early_residual` that of year-old machines
    doubts     of fields that nobody stated
    """

    nodes_usd: float
    network_usd: float
    storage_usd: float
    misc: float
    residual: float
    early_residual: float
    wacc: float
    support: float
    insurance: float
    staff_usd_per_s: float
    lead_time_s: float
    electricity_usd_per_j: float
    colocation_usd_per_w_s: float
    doubts: Mapping[str, Doubt]


@dataclass(frozen=True, slots=True)
class RentTerms:
    """A cluster that is rented: term, prices in USD per second, support as a share of the rent.

    paid_nodes   nodes with spares over those that work
    doubts       of fields that nobody stated
    """

    term: str
    usd_per_gpu_s: float
    paid_nodes: float
    storage_usd_per_s: float
    egress_usd_per_s: float
    support: float
    doubts: Mapping[str, Doubt]


@dataclass(frozen=True, slots=True)
class Means:
    """All of it; `acquire` is None where the scenario does not say how the machines are got.

    market        what a rent of the same GPU would cost, for machines that are bought
    hours         share of the hours that the machines work
    horizon_s     for how long they are kept
    values, assumptions, unmodelled   as in `Resolved`
    notes         what to know of files that the scenario names
    """

    run: RunTerms
    power: PowerTerms
    acquire: OwnTerms | RentTerms | None
    market: RentTerms | None
    hours: float
    horizon_s: float
    values: Mapping[str, tuple[Any, str]]
    assumptions: tuple[Assumption, ...]
    unmodelled: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
