"""Settles how a job is run: what fails how often, what a restart takes, where checkpoints go."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import log

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.failure_rates import UnitCounts, default_failures, failure_causes, node_rate_spread
from simcluster.hardware.found import fact, found_fact
from simcluster.hardware.storage import StorageRates, storage_rates, written_storage_rates
from simcluster.operations.checkpoint import checkpoint_bytes, load_s, restart_s
from simcluster.operations.spares import SWAP_S, mean_down, node_wait_s, spares_needed
from simcluster.operations.spot import job_preemptions_per_s
from simcluster.resolve.terms import RunTerms, noted, reason
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.operations import FailureRates, Incidents, StorageSystem
from simcluster.shapes import Architecture
from simcluster.units import DAY_S, HOUR_S, MINUTE_S
from simcluster.workload.parameters import count_parameters

PREEMPTION = "Pre-emption"
_FAILURES, _STORAGE = "operations.failures.rates", "operations.storage.system"
_SPARES_COVER = 0.95  # estimate: share of failures that find a spare node, of which spares are counted
_REPAIR_S = 3 * DAY_S  # estimate: a node comes back in 1 to 7 days under a support contract
_NOTICED_S = 1.2 * MINUTE_S  # estimate: a crash is seen in 10 s, a tenth of failures hang until a 10 min watchdog
_SCHEDULER_S = _WARM_UP_S = MINUTE_S  # estimates: allocation and containers; compilation and the first slow steps
_PAUSE_SIZES = (7e9, 405e9)
_PCIE_SHARE = 0.8  # estimate: of the slot's rate, one GPU to pinned host memory
_SERIALISE_BYTES_PER_S = 2e9  # estimate: one process that writes tensors into a file
_DIAGNOSE_S = (12 * HOUR_S, 4 * DAY_S)  # estimate: median and 90th percentile


def run_terms(scenario: Scenario, arch: Architecture, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> RunTerms:
    """How the job is run; what is wrong is noted in the trail."""
    operations = scenario.operations
    failures, sigma = _failures(scenario, cluster, catalogue, trail)
    node_failures_per_s = sum(failures.values()) / cluster.nodes
    spares, detect = _replacement(scenario, cluster, node_failures_per_s, catalogue, trail)
    if _is_spot(scenario):
        failures = {**failures, PREEMPTION: _preemptions(cluster, catalogue, trail)}
    rates = _storage(scenario, cluster, catalogue, trail)
    write, read = (rates.write.value, rates.read.value) if rates else (1.0, 1.0)
    parameters = float(count_parameters(arch).total)
    state = float(checkpoint_bytes(parameters, scenario.training.precision).full)
    node_link = _node_link(cluster)
    loading = float(load_s(state, read, nodes=cluster.nodes, nic_bytes_per_s=node_link))
    detect, restart = _restart(scenario, cluster, detect, loading, trail)
    waits = _asynchronous(scenario, trail)
    return RunTerms(
        failures_per_s=failures,
        rate_sigma=sigma,
        spares=spares,
        detect_s=detect,
        restart_s=restart,
        checkpoint_bytes=state,
        asynchronous=waits,
        pause_s=_pause(parameters, catalogue, trail) if waits else 0.0,
        interval_s=None if operations.checkpoint.interval == "auto" else operations.checkpoint.interval,
        write_bytes_per_s=write,
        read_bytes_per_s=read,
        node_bytes_per_s=node_link,
        copy_bytes_per_s=min(_PCIE_SHARE * cluster.node.pcie_bytes_per_s, cluster.node.gpu.memory_bytes_per_s),
        serialise_bytes_per_s=_SERIALISE_BYTES_PER_S,
        node_sigma=_node_sigma(scenario, trail),
        slow_nodes=tuple((slow.count, slow.factor) for slow in operations.stragglers.slow_nodes),
        incidents=_incidents(operations.failures.incidents, trail),
    )


def _failures(
    scenario: Scenario, cluster: Cluster, catalogue: Catalogue, trail: Trail
) -> tuple[Mapping[str, float], float]:
    """Interruptions of the job by cause, and how far their rate may be off (standard deviation of its ln)."""
    stated = scenario.operations.failures.rates
    if isinstance(stated, FailureRates):
        return {"Node": stated.interruptions_per_node_day * cluster.nodes / DAY_S}, 0.0
    counts = UnitCounts.of(cluster)
    if isinstance(stated, str):
        causes = noted(trail, _FAILURES, partial(failure_causes, catalogue, stated, counts))
        sigma = node_rate_spread(catalogue)
    else:
        chosen = default_failures(catalogue, cluster.node.gpu)
        causes, sigma = failure_causes(catalogue, chosen.name, counts), chosen.ln_sigma
        trail.assume(_FAILURES, chosen.name, chosen.why)
    return {cause: found.value for cause, found in (causes or {}).items()}, sigma


def _replacement(
    scenario: Scenario, cluster: Cluster, node_failures_per_s: float, catalogue: Catalogue, trail: Trail
) -> tuple[int, float]:
    """Spare nodes, and the time from a failure to a whole allocation.

    A cluster of one's own waits for a repair once its spares are used up; a cloud gives another node.
    """
    stated = trail.is_stated("cluster.spares")
    if not (scenario.acquire and scenario.acquire.own):
        found = found_fact(catalogue, "reliability", "recovery", "replacement of a node and restart, automatic")
        wait = SWAP_S if stated and scenario.cluster.spares else found.value / 2  # half of it is the restart
        return scenario.cluster.spares, _NOTICED_S + wait
    down = float(mean_down(cluster.nodes, node_failures_per_s, _REPAIR_S))
    spares = scenario.cluster.spares
    if not stated:
        spares = int(spares_needed(down, _SPARES_COVER))
        repair = f"{down:.2g} nodes in repair, {_REPAIR_S / DAY_S:.0f} days each"
        why = f"not stated: {_SPARES_COVER:.0%} of failures find one ({repair})"
        trail.assume("cluster.spares", spares, why)
    return spares, _NOTICED_S + float(node_wait_s(down, spares, _REPAIR_S))


def _restart(
    scenario: Scenario, cluster: Cluster, detect_s: float, loading_s: float, trail: Trail
) -> tuple[float, float]:
    """Time from a failure to a whole allocation, and from there to the first useful step; a stated time is both."""
    stated = scenario.operations.failures.restart
    if stated is not None:
        return 0.0, stated
    restart = float(restart_s(cluster.gpus, loading_s, scheduler_s=_SCHEDULER_S, warm_up_s=_WARM_UP_S))
    parts = f"{detect_s:.0f} s until replaced, {restart:.0f} s to start, of which {loading_s:.0f} s loading"
    trail.assume("operations.failures.restart", detect_s + restart, f"estimate: {parts}")
    return detect_s, restart


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


def _is_spot(scenario: Scenario) -> bool:
    return bool(scenario.acquire and scenario.acquire.rent and scenario.acquire.rent.term == "spot")


def _preemptions(cluster: Cluster, catalogue: Catalogue, trail: Trail) -> float:
    """Times that a job loses an instance to others [1/s]."""
    found = found_fact(catalogue, "prices", "discounts", "spot interruptions of large GPUs at AWS")
    trail.assume("operations.failures.preemptions_per_node_s", found.value, reason(found))
    return float(job_preemptions_per_s(cluster.nodes, found.value))


def _storage(scenario: Scenario, cluster: Cluster, catalogue: Catalogue, trail: Trail) -> StorageRates | None:
    stated = scenario.operations.storage.system
    if isinstance(stated, StorageSystem):
        return noted(
            trail,
            _STORAGE,
            lambda: written_storage_rates(catalogue, stated.drives, stated.drive, stated.nic, stated.replicas),
        )
    rates = noted(trail, _STORAGE, lambda: storage_rates(catalogue, stated, cluster.nodes))
    if stated is None and rates is not None:
        trail.assume("operations.storage.write_bytes_per_s", rates.write.value, reason(rates.write))
    return rates


def _node_link(cluster: Cluster) -> float:
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
