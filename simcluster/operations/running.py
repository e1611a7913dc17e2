"""Weeks of a training run: how much of the wall time is useful, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from simcluster.errors import InputError, Problem
from simcluster.operations.course import Course
from simcluster.operations.renewal import best_interval_s, segment_s
from simcluster.operations.setup import Incidents, RunSetup
from simcluster.operations.spread import wall_draws
from simcluster.units import MONTH_S

__all__ = ["INCIDENT", "Incidents", "RunResult", "RunSetup", "planned_course", "run"]

INCIDENT = "incident"  # the cause under which incidents are counted
_LEAST_GOODPUT = 1e-6
_STEP = 1e-3  # relative, of the rate whose effect on the wall time is asked for


@dataclass(frozen=True, slots=True)
class RunResult:
    """What becomes of a run. Causes count incidents as "incident"; what open work (work_s None) leaves open is None.

    goodput                 useful work over wall time, 0 to 1
    interval_s              of steps between two checkpoints, at the speed they run at; None: no checkpoint is needed
    interval_steps          the same in steps
    mtbf_s                  mean running time between interruptions; None: none occurs
    interruptions_per_s     of wall time, by cause; those that strike a restart included
    shares                  of wall time by component of the ledger; sum 1
    rate_share              relative growth of wall time over that of the failures' rate
    wall_s                  expected wall time; wall_s_p10 and wall_s_p90 its 80 % interval (widened to hold wall_s)
    expected_interruptions  over the run; interruptions by cause
    ledger_s                useful, checkpoint, lost_work, restart, downtime, degraded; sum wall_s
    """

    goodput: float
    interval_s: float | None
    interval_steps: int | None
    mtbf_s: float | None
    interruptions_per_s: Mapping[str, float]
    shares: Mapping[str, float]
    rate_share: float
    wall_s: float | None = None
    wall_s_p10: float | None = None
    wall_s_p90: float | None = None
    expected_interruptions: float | None = None
    interruptions: Mapping[str, float] | None = None
    ledger_s: Mapping[str, float] | None = None


def run(setup: RunSetup, seed: int | np.random.SeedSequence = 0) -> RunResult:
    """Expected course of a run by the renewal equation, and the 80 % interval of its wall time by draws.

    The same seed gives the same result. Raises InputError where failures come so fast that the run makes no headway.

    >>> from simcluster.operations.checkpoint import SaveTime
    >>> day = 86400.0
    >>> rates, save = {"gpu": 1 / (2 * day)}, SaveTime(60.0)
    >>> found = run(RunSetup(5.0, 30 * day, rates, save, restart_s=300, detect_s=600, rate_sigma=0.5))
    >>> round(found.goodput, 3), found.interval_steps, round(found.expected_interruptions, 1)
    (0.969, 903, 15.4)
    >>> round(found.wall_s / day, 1), found.wall_s_p10 < found.wall_s < found.wall_s_p90
    (31.0, True)
    """
    course, steps = planned_course(setup)
    ledger, count = _expected(course, setup.slow_down)
    total = sum(ledger.values())
    goodput = ledger["useful"] / total
    if not goodput > _LEAST_GOODPUT:
        raise InputError(_no_headway(course))
    causes = _shares_by_cause(setup)
    rate = course.interruptions_per_s
    shares = {component: value / total for component, value in ledger.items()}
    result = RunResult(
        goodput=goodput,
        interval_s=steps * setup.step_s * setup.slow_down if steps else None,
        interval_steps=steps,
        mtbf_s=1.0 / rate if rate > 0 and 1.0 / rate < math.inf else None,
        interruptions_per_s={cause: share * count / total for cause, share in causes.items()},
        shares=shares,
        rate_share=_rate_share(course, setup.slow_down, total),
    )
    return result if setup.work_s is None else _over_the_work(result, setup, course, ledger, count, seed)


def planned_course(setup: RunSetup) -> tuple[Course, int | None]:
    """The run with its checkpoint interval settled, and that interval in steps (None: no checkpoint is needed).

    Where the work is open, the course is one interval long.

    >>> from simcluster.operations.checkpoint import SaveTime
    >>> planned_course(RunSetup(5.0, None, {"gpu": 1e-5}, SaveTime(60.0)))[1]
    685
    """
    incidents = setup.incidents
    failures = sum(setup.failures_per_s.values())
    incidents_per_s = incidents.per_month / MONTH_S if incidents else 0.0
    steps = _interval_steps(setup, failures + incidents_per_s)
    step = setup.step_s * setup.slow_down
    work = steps or 1 if setup.work_s is None else setup.work_s / setup.step_s
    course = Course(
        work_s=work * step,
        interval_s=(steps or 1) * step,
        checkpoint_s=float(setup.checkpoint.blocking_s) if steps else 0.0,
        flush_s=float(setup.checkpoint.flush_s),
        failures_per_s=failures,
        incidents_per_s=incidents_per_s,
        restart_s=setup.restart_s,
        down_s=setup.detect_s,
        diagnosis_s=incidents.mean_s if incidents else 0.0,
        diagnosis_cv=incidents.variation if incidents else 0.0,
        startup_s=setup.startup_s if setup.work_s is not None else 0.0,
    )
    return course, steps


def _interval_steps(setup: RunSetup, rate: float) -> int | None:
    """Whole steps between checkpoints: not more than the run has, not so few that flushes pile up."""
    step = setup.step_s * setup.slow_down
    most = math.inf if setup.work_s is None else max(1, math.ceil(setup.work_s / setup.step_s * (1 - 1e-12)))
    blocking, flush = float(setup.checkpoint.blocking_s), float(setup.checkpoint.flush_s)
    least = max(1, math.ceil(flush / step * (1 - 1e-12)))
    if setup.interval_s is not None:
        if setup.interval_s < flush and max(1, round(setup.interval_s / step)) < min(least, most):
            raise InputError(_too_often(setup.interval_s, flush))
        return int(min(max(round(setup.interval_s / step), least), most))
    best = min(float(best_interval_s(blocking, rate, flush)), most * step)
    if math.isinf(best):
        return None
    near = {int(min(max(count, least), most)) for count in (best // step, best // step + 1)}
    return min(sorted(near), key=lambda count: _loss(count * step, blocking, rate))


def _loss(work_s: float, blocking_s: float, rate: float) -> float:
    return float(segment_s(work_s, blocking_s, rate)) / work_s


def _expected(course: Course, slow_down: float) -> tuple[dict[str, float], float]:
    """Expected seconds by component, and the expected number of interruptions."""
    parts, segments = course.expected_segment(), course.segments
    useful = course.work_s / slow_down
    ledger = {
        "useful": useful,
        "checkpoint": segments * float(parts.checkpoint_s),
        "lost_work": segments * float(parts.lost_s),
        "restart": segments * float(parts.restart_s) + course.startup_s,
        "downtime": segments * float(parts.down_s),
        "degraded": course.work_s - useful,
    }
    return ledger, segments * float(parts.interruptions)


def _rate_share(course: Course, slow_down: float, total: float) -> float:
    """D ln(wall time) / d ln(rate of failures); checkpoints stay as they are planned."""
    more = replace(course, failures_per_s=course.failures_per_s * (1.0 + _STEP))
    return math.log(sum(_expected(more, slow_down)[0].values()) / total) / math.log1p(_STEP)


def _shares_by_cause(setup: RunSetup) -> dict[str, float]:
    """Share of each cause in the interruptions; zeros where there are none."""
    rates = dict(setup.failures_per_s)
    if setup.incidents:
        rates[INCIDENT] = rates.get(INCIDENT, 0.0) + setup.incidents.per_month / MONTH_S
    whole = sum(rates.values())
    return {cause: rate / whole if whole > 0 else 0.0 for cause, rate in rates.items()}


def _over_the_work(
    result: RunResult,
    setup: RunSetup,
    course: Course,
    ledger: Mapping[str, float],
    count: float,
    seed: int | np.random.SeedSequence,
) -> RunResult:
    """The result with what a stated amount of work adds."""
    wall = sum(ledger.values())
    low, high = np.quantile(wall_draws(course, setup.step_sigma, setup.rate_sigma, seed), [0.1, 0.9])
    return replace(
        result,
        wall_s=wall,
        wall_s_p10=min(float(low), wall),
        wall_s_p90=max(float(high), wall),
        expected_interruptions=count,
        interruptions={cause: share * count for cause, share in _shares_by_cause(setup).items()},
        ledger_s=ledger,
    )


def _too_often(interval_s: float, flush_s: float) -> Problem:
    return Problem(
        f"operations.checkpoint.interval: {interval_s:.3g} s is less than the {flush_s:.3g} s in which one checkpoint"
        " reaches storage",
        "state a longer interval or faster storage (operations.storage.system), or leave the interval to auto",
    )


def _no_headway(course: Course) -> Problem:
    between = 1.0 / course.interruptions_per_s
    needed = course.interval_s + course.checkpoint_s + course.flush_s + course.restart_s
    return Problem(
        f"the run makes no headway: it is interrupted every {between:.3g} s of running, and a restart with the work up"
        f" to the first checkpoint that counts takes {needed:.3g} s",
        "shorten operations.failures.restart or operations.checkpoint.interval, or check operations.failures.rates",
    )
