"""The weeks of a run, from a simulated step and the terms on which it runs."""

from __future__ import annotations

import math
from dataclasses import replace

from simcluster.analysis.uncertainty import ErrorTerm, spread
from simcluster.engine.step import StepTimes
from simcluster.errors import InputError, Problem
from simcluster.operations.checkpoint import SavePath, SaveTime, asynchronous_save, synchronous_save
from simcluster.operations.running import Incidents, RunResult, RunSetup, run
from simcluster.resolve import Resolved
from simcluster.resolve.running import PREEMPTION
from simcluster.resolve.terms import RunTerms

PREEMPTIONS = "preemptions:spot"  # evidence of how often machines are taken away
_BARRIER_S = 1.0  # estimate: all ranks agree that a checkpoint is whole


def course_of_run(
    resolved: Resolved,
    terms: RunTerms,
    times: StepTimes,
    slow_down: float,
    error_terms: tuple[ErrorTerm, ...],
    seed: int,
) -> RunResult:
    """Goodput and interruptions; with a number of tokens also days, with their 80 % interval.

    `slow_down` is the mean step over that of typical nodes.

    Raises InputError if failures come so fast that the run makes no headway.
    """
    layout, tokens = resolved.layout, resolved.scenario.training.tokens
    step_s = float(times.total[0])
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
        rate_sigma=_rate_sigma(terms),
    )
    try:
        return run(setup, seed)
    except InputError as error:
        raise InputError([_placed(problem, resolved) for problem in error.problems]) from error


def _placed(problem: Problem, resolved: Resolved) -> Problem:
    """A problem of a stated value with where it was stated."""
    path = problem.message.partition(":")[0]
    _, origin = resolved.values.get(path, (None, ""))
    return replace(problem, message=f"{origin}: {problem.message}") if origin else problem


def _taken_share(terms: RunTerms) -> float:
    """Share of pre-emptions in all interruptions."""
    rate = sum(terms.failures_per_s.values())
    return terms.failures_per_s.get(PREEMPTION, 0.0) / rate if rate else 0.0


def _rate_sigma(terms: RunTerms) -> float:
    """Standard deviation of ln of the rate of all interruptions; failures and pre-emptions err apart."""
    taken = _taken_share(terms)
    return math.hypot((1.0 - taken) * terms.rate_sigma, taken * terms.preemption_sigma)


def run_error_terms(terms: RunTerms, found: RunResult) -> tuple[ErrorTerm, ...]:
    """What the wall time of a run rests on beside the steps: how often it fails, and loses machines to others."""
    taken = _taken_share(terms)
    parts = (
        ErrorTerm(f"failures:{terms.rates_of}", (1.0 - taken) * found.rate_share, terms.rate_sigma),
        ErrorTerm(PREEMPTIONS, taken * found.rate_share, terms.preemption_sigma),
    )
    return tuple(term for term in parts if term.share and term.sigma)


def paid_error_terms(terms: RunTerms, found: RunResult) -> tuple[ErrorTerm, ...]:
    """The same of the hours that are paid: waiting for spot machines is not."""
    unpaid = unpaid_share(terms, found)
    free = unpaid / (1.0 - unpaid)
    return tuple(
        replace(term, share=term.share - free) if term.evidence == PREEMPTIONS else term
        for term in run_error_terms(terms, found)
    )


def unpaid_share(terms: RunTerms, found: RunResult) -> float:
    """Share of the wall time in which spot machines are waited for, and not paid."""
    return found.interruptions_per_s.get(PREEMPTION, 0.0) * terms.spot_wait_s


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
