"""Power of a job: its GPUs by phase of the step, nodes, network, storage, building."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.analysis.power import (
    Gpu,
    Node,
    PhaseSeconds,
    PowerReport,
    Site,
    energy_per_token_j,
    phase_seconds,
    power_report,
    run_energy_kwh,
)
from simcluster.analysis.waterfall import Waterfall
from simcluster.engine.step import StepTimes
from simcluster.operations.running import RunResult
from simcluster.resolve import Resolved
from simcluster.resolve.terms import Means

_TRAINING = ("useful", "degraded", "checkpoint", "lost_work")  # parts of a run in which GPUs work


@dataclass(frozen=True, slots=True)
class PowerResult:
    """Watts while the job trains, unless the name says otherwise.

    gpu_average_w, node_average_w   of one
    it_average_w, facility_average_w  of all nodes, spares, network and storage; with what the building adds
    energy_per_token_j              at the facility's meter, while it trains
    phases                          seconds of a step by phase
    it_nameplate_w                  rated power, which colocation bills
    it_average_over_all_hours_w     idle hours included
    run_kwh                         of the run, failures included; None without a number of tokens
    swing_w                         how far the GPUs' power moves within a step
    """

    gpu_average_w: float
    node_average_w: float
    it_average_w: float
    facility_average_w: float
    energy_per_token_j: float
    phases: PhaseSeconds
    it_nameplate_w: float
    it_average_over_all_hours_w: float
    run_kwh: float | None
    swing_w: float


def power_of(resolved: Resolved, means: Means, times: StepTimes, fall: Waterfall, run: RunResult) -> PowerResult:
    """Power on the settled terms."""
    cluster, terms = resolved.cluster, means.power
    phases = phase_seconds(fall, times.busy, float(times.optimizer.mean()))
    site = Site(cluster.nodes, means.run.spares, terms.network_w, terms.storage_w, terms.pue)
    node = Node(cluster.node.gpus, terms.host_w, terms.fans_w, terms.supply_factor)
    report = power_report(phases, Gpu(terms.gpu_idle_w, terms.gpu_limit_w), node, site)
    layout = resolved.layout
    tokens = layout.sequences * layout.sequence_length
    return PowerResult(
        gpu_average_w=float(report.gpu_average_w),
        node_average_w=float(report.node_average_w),
        it_average_w=float(report.it_average_w),
        facility_average_w=float(report.facility_average_w),
        energy_per_token_j=float(energy_per_token_j(report.facility_average_w, fall.total_s, tokens)),
        phases=phases,
        it_nameplate_w=(cluster.nodes + means.run.spares) * terms.nameplate_w + terms.network_w + terms.storage_w,
        it_average_over_all_hours_w=_over_all_hours(report, means.hours),
        run_kwh=_run_kwh(report, run, terms.pue),
        swing_w=float(report.swing_w),
    )


def _over_all_hours(report: PowerReport, hours: float) -> float:
    return float(hours * report.it_average_w + (1.0 - hours) * report.it_idle_w)


def _run_kwh(report: PowerReport, run: RunResult, pue: float) -> float | None:
    """Energy of all the time that the run takes; restarts and waits at idle power."""
    if run.ledger_s is None or run.wall_s is None:
        return None
    works = sum(run.ledger_s[part] for part in _TRAINING)
    idle_w = pue * float(report.it_idle_w)
    return float(run_energy_kwh(report.facility_average_w, works, idle_w=idle_w, idle_s=run.wall_s - works))
