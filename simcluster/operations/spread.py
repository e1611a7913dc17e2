"""How far the wall time of a run may be off: seeded draws of step time, failure rate and luck."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.operations.course import Course
from simcluster.operations.renewal import segment

Floats = NDArray[np.float64]

DRAWS = 4000
_MANY = 1e6  # interruptions a segment or a restart, beyond which a run ends never
_LARGEST_COUNT = 1e15  # what a Poisson draw of 64 bits holds with room


def wall_draws(
    course: Course,
    step_sigma: float,
    rate_sigma: float,
    seed: int | np.random.SeedSequence,
    *,
    draws: int = DRAWS,
    step_log_error: Floats | None = None,
) -> Floats:
    """Wall times [s] of `draws` runs that differ in step time, failure rate and luck.

    step_sigma, rate_sigma [standard deviation of ln, >= 0; the latter of failures, not of incidents]; the checkpoint
    interval keeps its number of steps. Work has a negative binomial number of interruptions (a geometric one a
    segment), and so have restarts; the sum of work lost is drawn as normal, the sum of diagnoses as log-normal of the
    right mean and variance (Fenton 1960). The same seed gives the same draws, and two runs with one seed share the
    errors of step time and rate; `step_log_error` (draws,) replaces the drawn ln error of the step time where a
    comparison has its own.

    >>> course = Course(1e6, 3600.0, 30.0, 0.0, 1e-5, 0.0, 300.0, 120.0, 0.0, 0.0, 300.0)
    >>> walls = wall_draws(course, 0.05, 0.5, seed=1)
    >>> bool(1e6 < np.median(walls) < 1.1e6), bool((walls == wall_draws(course, 0.05, 0.5, seed=1)).all())
    (True, True)
    """
    step_stream, rate_stream, luck = _streams(seed)
    if step_log_error is None:
        step_log_error = step_sigma * step_stream.standard_normal(draws)
    slower = np.exp(step_log_error)
    failures = course.failures_per_s * np.exp(rate_sigma * rate_stream.standard_normal(len(slower)))
    rate = failures + course.incidents_per_s
    span = course.interval_s * slower + course.checkpoint_s
    struck, lost = _lost_work(course, rate, span, luck)
    again, restarts = _restarts(course, rate, struck, luck)
    steady = course.startup_s + course.segments * course.checkpoint_s + course.work_s * slower
    return np.asarray(steady + lost + restarts + _downtime(course, struck + again, rate, luck), dtype=np.float64)


def _streams(seed: int | np.random.SeedSequence) -> list[np.random.Generator]:
    """Three generators below a seed, without counting up the children of a sequence that the caller owns."""
    root = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    return [
        np.random.default_rng(np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, child)))
        for child in range(3)
    ]


def _lost_work(course: Course, rate: Floats, span: Floats, luck: np.random.Generator) -> tuple[Floats, Floats]:
    """Interruptions of work, and the seconds of work lost to them."""
    per_segment, mean = _struck_and_lost(span, rate, course.flush_s)
    count = _mixed_poisson(np.full(len(rate), course.segments), per_segment, luck)
    # time since the last checkpoint that counts is about uniform over a span, shorter where failures come faster
    deviation = np.minimum(span / np.sqrt(12.0), 1.0 / np.maximum(rate, 1e-300))
    lost = count * mean + np.sqrt(count) * deviation * luck.standard_normal(len(rate))
    return count, np.clip(lost, 0.0, count * (span + course.flush_s))


def _restarts(course: Course, rate: Floats, struck: Floats, luck: np.random.Generator) -> tuple[Floats, Floats]:
    """Interruptions of restarts, and the seconds of all restarts."""
    per_restart, mean = _struck_and_lost(np.full(len(rate), course.restart_s), rate, 0.0)
    again = _mixed_poisson(struck, per_restart, luck)
    return again, struck * course.restart_s + again * mean


def _struck_and_lost(span: Floats, rate: Floats, flush_s: float) -> tuple[Floats, Floats]:
    """Mean interruptions until `span` seconds pass without one, and the mean seconds that each of them loses."""
    parts = segment(span, 0.0, rate, flush_s=flush_s)
    struck = np.asarray(parts.interruptions, dtype=float)
    with np.errstate(invalid="ignore"):
        lost = np.divide(parts.lost_s, struck, out=np.zeros_like(struck), where=struck > 0)
    return np.minimum(struck, _MANY), np.nan_to_num(lost)


def _mixed_poisson(trials: Floats, mean: Floats, luck: np.random.Generator) -> Floats:
    """Negative binomial: the sum of `trials` (any real number) geometric counts of that mean."""
    expected = np.minimum(luck.standard_gamma(trials) * mean, _LARGEST_COUNT)
    return luck.poisson(expected).astype(float)


def _downtime(course: Course, count: Floats, rate: Floats, luck: np.random.Generator) -> Floats:
    """Seconds down over `count` interruptions, some of them incidents."""
    share = np.divide(course.incidents_per_s, rate, out=np.zeros_like(rate), where=rate > 0)
    incidents = luck.binomial(count.astype(np.int64), np.minimum(share, 1.0)).astype(float)
    some: NDArray[Any] = np.maximum(incidents, 1.0)
    variance = np.log1p(course.diagnosis_cv**2 / some)
    luckless = np.exp(np.sqrt(variance) * luck.standard_normal(len(count)) - variance / 2.0)
    return np.asarray((count - incidents) * course.down_s + incidents * course.diagnosis_s * luckless)
