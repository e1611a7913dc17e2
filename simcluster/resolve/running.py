"""Settles how a job is run: what fails how often, what a restart takes, how checkpoints are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import log

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.failure_rates import (
    UnitCounts,
    default_failures,
    failure_causes,
    keeps_node,
    node_rate_spread,
)
from simcluster.hardware.found import fact, found_fact
from simcluster.memory.static import family_states
from simcluster.operations.checkpoint import checkpoint_bytes, load_s, restart_s
from simcluster.operations.spares import SWAP_S, mean_down, repair_wait_s, spares_that_pay
from simcluster.operations.spot import job_preemptions_per_s
from simcluster.resolve.settling import noted, reason
from simcluster.resolve.terms import RunTerms, StorageTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.operations import FailureRates, Incidents
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily
from simcluster.units import DAY_S, HOUR_S, MINUTE_S
from simcluster.workload.parameters import count_parameters

PREEMPTION = "Pre-emption"
_FAILURES = "operations.failures.rates"
_REPAIR_S = 3 * DAY_S  # estimate: a node comes back in 1 to 7 days under a support contract
_SPOT_WAIT_S = HOUR_S  # estimate: until as many spot machines can be had again; minutes to many hours
_PREEMPTION_SIGMA = 0.7  # estimate: the published rate is the least of its class, and differs by place and month
_NOTICED_S = 1.2 * MINUTE_S  # estimate: a crash is seen in 10 s, a tenth of failures hang until a 10 min watchdog
_SCHEDULER_S = _WARM_UP_S = MINUTE_S  # estimates: allocation and containers; compilation and the first slow steps
_PAUSE_SIZES = (7e9, 405e9)
_PCIE_SHARE = 0.8  # estimate: of the slot's rate, one GPU to pinned host memory
_SERIALISE_BYTES_PER_S = 2e9  # estimate: one process that writes tensors into a file
_DIAGNOSE_S = (12 * HOUR_S, 4 * DAY_S)  # estimate: median and 90th percentile


@dataclass(frozen=True, slots=True)
class _Failures:
    """Interruptions of the job by cause [1/s], whose rates they are, sigma of ln rate, and the part that takes a node.

    A cause in `keeping` leaves the node at work.
    """

    causes: Mapping[str, float]
    of: str
    sigma: float
    keeping: frozenset[str] = frozenset()

    @property
    def node_share(self) -> float:
        """Share of interruptions after which a node is out of work."""
        total = sum(self.causes.values())
        kept = sum(rate for cause, rate in self.causes.items() if cause in self.keeping)
        return 1.0 - kept / total if total else 1.0


@dataclass(frozen=True, slots=True)
class _Downtime:
    """Spare nodes, and mean seconds from an interruption to a whole allocation: with a node at hand, and waiting."""

    spares: int
    replaced_s: float
    waiting_s: float


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint's bytes, the storage it goes to, and one node's rate to there [bytes/s]."""

    state_bytes: float
    storage: StorageTerms
    link: float


def state_bytes(arch: Architecture, family: SoftwareFamily, precision: str) -> float:
    """Bytes of a checkpoint from which the job can restart: weights and states of the optimizer."""
    states = family_states(family, precision)
    return float(checkpoint_bytes(float(count_parameters(arch).total), states.weights, states.optimizer))


def run_terms(
    scenario: Scenario, arch: Architecture, cluster: Cluster, saved: Saved, catalogue: Catalogue, trail: Trail
) -> RunTerms:
    """How the job is run; what is wrong is noted in the trail."""
    operations = scenario.operations
    failures = _failures(scenario, cluster, catalogue, trail)
    down = _downtime(scenario, cluster, failures, catalogue, trail)
    loading = float(
        load_s(saved.state_bytes, saved.storage.read_bytes_per_s, nodes=cluster.nodes, nic_bytes_per_s=saved.link)
    )
    replaced, restart = _restart(scenario, cluster, down, loading, trail)
    taken = _preemptions(scenario, cluster, catalogue, trail)
    waits = _asynchronous(scenario, trail)
    rate = sum(failures.causes.values())
    lost, spot = rate * (replaced + down.waiting_s), taken * (replaced + _SPOT_WAIT_S)
    return RunTerms(
        failures_per_s={**failures.causes, PREEMPTION: taken} if taken else failures.causes,
        rates_of=failures.of,
        rate_sigma=failures.sigma,
        preemption_sigma=_PREEMPTION_SIGMA if taken else 0.0,
        spares=down.spares,
        detect_s=(lost + spot) / (rate + taken) if rate + taken else replaced,
        spot_wait_s=_SPOT_WAIT_S if taken else 0.0,
        restart_s=restart,
        checkpoint_bytes=saved.state_bytes,
        asynchronous=waits,
        pause_s=_pause(float(count_parameters(arch).total), catalogue, trail) if waits else 0.0,
        interval_s=None if operations.checkpoint.interval == "auto" else operations.checkpoint.interval,
        storage=saved.storage,
        node_bytes_per_s=saved.link,
        copy_bytes_per_s=min(_PCIE_SHARE * cluster.node.pcie_bytes_per_s, cluster.node.gpu.memory_bytes_per_s),
        serialise_bytes_per_s=_SERIALISE_BYTES_PER_S,
        node_sigma=_node_sigma(scenario, trail),
        slow_nodes=tuple((slow.count, slow.factor) for slow in operations.stragglers.slow_nodes),
        incidents=_incidents(operations.failures.incidents, trail),
    )


def _failures(scenario: Scenario, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> _Failures:
    """What interrupts the job how often, and how far that may be off."""
    stated = scenario.operations.failures.rates
    if isinstance(stated, FailureRates):
        return _Failures({"Node": stated.interruptions_per_node_day * cluster.nodes / DAY_S}, "stated", 0.0)
    if isinstance(stated, str):
        name, sigma = stated, node_rate_spread(catalogue)
    else:
        chosen = default_failures(catalogue, cluster.node.gpu)
        name, sigma = chosen.name, chosen.ln_sigma
        trail.assume(_FAILURES, name, chosen.why)
    found = noted(trail, _FAILURES, partial(failure_causes, catalogue, name, UnitCounts.of(cluster))) or {}
    causes = {cause: rate.value for cause, rate in found.items()}
    return _Failures(causes, name, sigma, frozenset(one for one in causes if keeps_node(catalogue, name, one)))


def _downtime(
    scenario: Scenario, cluster: Cluster, failures: _Failures, catalogue: Catalogue, trail: Trail
) -> _Downtime:
    """Spares, and how long a failed node is missing.

    A cluster of one's own waits for a repair once its spares are used up; a cloud gives another node.
    """
    stated = trail.is_stated("cluster.spares")
    if not (scenario.acquire and scenario.acquire.own):
        found = found_fact(catalogue, "reliability", "recovery", "replacement of a node and restart, automatic")
        swap = SWAP_S if stated and scenario.cluster.spares else found.value / 2  # half of it is the restart
        return _Downtime(scenario.cluster.spares, _NOTICED_S + failures.node_share * swap, 0.0)
    node_failures_per_s = failures.node_share * sum(failures.causes.values()) / cluster.nodes
    out = float(mean_down(cluster.nodes, node_failures_per_s, _REPAIR_S))
    spares = scenario.cluster.spares
    if not stated:
        spares = spares_that_pay(cluster.nodes, out)
        repair = f"{out:.2g} nodes in repair, {_REPAIR_S / DAY_S:.0f} days each"
        trail.assume("cluster.spares", spares, f"not stated: more would cost more than waiting for repairs ({repair})")
    waiting = failures.node_share * float(repair_wait_s(out, spares, _REPAIR_S))
    return _Downtime(spares, _NOTICED_S + failures.node_share * SWAP_S, waiting)


def _restart(
    scenario: Scenario, cluster: Cluster, down: _Downtime, loading_s: float, trail: Trail
) -> tuple[float, float]:
    """Time until a node at hand replaces a failed one, and from there to the first useful step; a stated time is both.

    Waiting for a repair when no spare is left comes on top of a stated time.
    """
    stated = scenario.operations.failures.restart
    if down.waiting_s:
        why = f"mean over interruptions of waiting for a repair with {down.spares} spares"
        trail.assume("operations.failures.repair_wait_s", down.waiting_s, why)
    if stated is not None:
        return 0.0, stated
    restart = float(restart_s(cluster.gpus, loading_s, scheduler_s=_SCHEDULER_S, warm_up_s=_WARM_UP_S))
    parts = f"{down.replaced_s:.0f} s until replaced, {restart:.0f} s to start, of which {loading_s:.0f} s loading"
    trail.assume("operations.failures.restart", down.replaced_s + restart, f"estimate: {parts}")
    return down.replaced_s, restart


def _asynchronous(scenario: Scenario, trail: Trail) -> bool:
    mode = scenario.operations.checkpoint.mode
    if mode is None:
        trail.assume("operations.checkpoint.mode", "async", "not stated: steps wait only for the copy to host memory")
    return mode != "sync"


def _pause(parameters: float, catalogue: Catalogue, trail: Trail) -> float:
    """How long steps stand still around the copy of an asynchronous checkpoint, a power of the model's size [s]."""
    quantity = fact(catalogue, "storage", "checkpoints", "blocking time of an asynchronous PyTorch save").quantity
    low, high = quantity.low or 0.0, quantity.high or 0.0
    (small, large), size = _PAUSE_SIZES, max(parameters, _PAUSE_SIZES[0])
    pause: float = low * (size / small) ** (log(high / low) / log(large / small))
    why = f"PyTorch saves stop for {low:.0f} s at 7B, {high:.0f} s at 405B (estimate)"
    trail.assume("operations.checkpoint.pause_s", pause, why)
    return pause


def _preemptions(scenario: Scenario, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> float:
    """Times that a job loses an instance to others [1/s]; 0 but on the spot market."""
    if not (scenario.acquire and scenario.acquire.rent and scenario.acquire.rent.term == "spot"):
        return 0.0
    found = found_fact(catalogue, "prices", "discounts", "spot interruptions of large GPUs at AWS")
    trail.assume("operations.failures.preemptions_per_node_s", found.value, reason(found))
    trail.assume("operations.failures.spot_wait_s", _SPOT_WAIT_S, "estimate: until other machines are had, not paid")
    return float(job_preemptions_per_s(cluster.nodes, found.value))


def node_link(cluster: Cluster) -> float:
    """Bytes/s of one node to storage: its cards for that, else one of those for training."""
    node = cluster.node
    own = node.entry.number("storage_nics") * node.entry.number("storage_nic_rate") if node.entry else 0.0
    return own or cluster.nic_bytes_per_s or node.nic_bytes_per_s or float("inf")


def _node_sigma(scenario: Scenario, trail: Trail) -> float:
    stated = scenario.operations.stragglers.node_sigma
    if stated is None:
        why = "the usual spread between nodes is in the rates, which were fitted on whole clusters"
        trail.assume("operations.stragglers.node_sigma", 0.0, why)
    return stated or 0.0


def _incidents(stated: Incidents | None, trail: Trail) -> tuple[float, float, float] | None:
    """Per month, median and 90th percentile of the time to find one."""
    if stated is None or not stated.per_month:
        return None
    spread = stated.diagnose
    if spread is not None:
        return stated.per_month, spread.median, spread.p90
    median, p90 = _DIAGNOSE_S
    for key, value in (("median", median), ("p90", p90)):
        trail.assume(f"operations.failures.incidents.diagnose.{key}", value, "estimate: not stated")
    return stated.per_month, median, p90
