"""The weeks of a run, from a simulated step and the terms on which it runs."""

from __future__ import annotations

from dataclasses import replace

from simcluster.analysis.power import EXPOSED
from simcluster.analysis.uncertainty import ErrorTerm, spread
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.operations.checkpoint import SavePath, SaveTime, asynchronous_save, synchronous_save
from simcluster.operations.running import Incidents, RunResult, RunSetup, run
from simcluster.operations.stragglers import step_slow_down
from simcluster.resolve import Resolved
from simcluster.resolve.terms import RunTerms

_BARRIER_S = 1.0  # estimate: all ranks agree that a checkpoint is whole


def course_of_run(
    resolved: Resolved,
    terms: RunTerms,
    fall: Waterfall,
    error_terms: tuple[ErrorTerm, ...],
    seed: int,
) -> RunResult:
    """Goodput and interruptions; with a number of tokens also days, with their 80 % interval.

    Raises InputError if failures come so fast that the run makes no headway.
    """
    layout, tokens = resolved.layout, resolved.scenario.training.tokens
    step_s = fall.total_s
    exposed = sum(seconds for cause, seconds in zip(CAUSES, fall.seconds) if cause in EXPOSED)
    slow_down = step_slow_down(resolved.cluster.nodes, 1.0 - exposed / step_s, terms.node_sigma, terms.slow_nodes)
    setup = RunSetup(
        step_s=step_s,
        work_s=tokens / (layout.sequences * layout.sequence_length) * step_s if tokens else None,
        failures_per_s=terms.failures_per_s,
        checkpoint=save_time(resolved, terms),
        interval_s=terms.interval_s,
        restart_s=terms.restart_s,
        detect_s=terms.detect_s,
        startup_s=terms.restart_s if tokens else 0.0,
        slow_down=slow_down,
        incidents=Incidents(*terms.incidents) if terms.incidents else None,
        step_sigma=spread(error_terms),
        rate_sigma=terms.rate_sigma,
    )
    return run(setup, seed)


def run_error_terms(terms: RunTerms, found: RunResult) -> tuple[ErrorTerm, ...]:
    """What wall time and cost of a run rest on beside the steps: how often it is interrupted."""
    if not terms.rate_sigma or not found.rate_share:
        return ()
    return (ErrorTerm(f"failures:{terms.rates_of}", found.rate_share, terms.rate_sigma),)


def save_time(resolved: Resolved, terms: RunTerms) -> SaveTime:
    """How long a checkpoint blocks the steps, and how long it is on its way after that."""
    path = SavePath(
        writers=resolved.cluster.gpus,
        nodes=resolved.cluster.nodes,
        copy_bytes_per_s=terms.copy_bytes_per_s,
        storage_bytes_per_s=terms.storage.write_bytes_per_s,
        nic_bytes_per_s=terms.node_bytes_per_s,
        serialise_bytes_per_s=terms.serialise_bytes_per_s,
        barrier_s=_BARRIER_S,
    )
    if not terms.asynchronous:
        return synchronous_save(terms.checkpoint_bytes, path)
    saved = asynchronous_save(terms.checkpoint_bytes, path)
    return replace(saved, blocking_s=max(float(saved.blocking_s), terms.pause_s))  # the pause holds a copy
