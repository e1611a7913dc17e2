"""Time lost to failures between two checkpoints, and the interval that loses least.

A segment is tau seconds of steps and one checkpoint. Failures are exponential with rate lambda; they may strike while
steps run, while a checkpoint blocks them and while the job restarts, not while it is down. With blocking time C,
restart R and downtime D of an interruption, and a flush F that runs behind the next steps (an asynchronous checkpoint
counts once it is flushed; F = 0 is a synchronous one):

    E[segment] = e^(lambda (R + F)) (1/lambda + D) (e^(lambda (tau + C)) - 1)

F = 0: Bougeret, Casanova, Rabie, Robert & Vivien, "Checkpointing strategies for parallel jobs", SC 2011. F > 0 follows
from the same argument with two states: a failure before the flush ends falls back one checkpoint further, and the first
checkpoint after a restart commits after tau + C + F. All arguments broadcast; a rate of zero is taken as the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.memory.arrays import plain
from simcluster.shapes import Num

_TINY = 1e-8  # checkpoint over MTBF below which the expansion is more exact than Lambert's W near its branch point
_MOST = 200.0  # exponent; the product of three such powers is still a float
_NEVER = 1e-300  # rates below have no inverse in floats


@dataclass(frozen=True, slots=True)
class Segment:
    """Expected parts of one segment [s]; they sum to `total_s`. `interruptions` is a count.

    useful_s      the steps between two checkpoints
    checkpoint_s  steps wait for the checkpoint
    lost_s        work (and checkpoints) done and lost
    restart_s     restarts, those that fail included
    down_s        nothing runs
    """

    useful_s: Num
    checkpoint_s: Num
    lost_s: Num
    restart_s: Num
    down_s: Num
    interruptions: Num

    @property
    def total_s(self) -> Num:
        """Expected wall time of the segment."""
        return self.useful_s + self.checkpoint_s + self.lost_s + self.restart_s + self.down_s


def segment(
    work_s: Num, checkpoint_s: Num, failures_per_s: Num, *, restart_s: Num = 0.0, down_s: Num = 0.0, flush_s: Num = 0.0
) -> Segment:
    """Expected parts of a segment (equation above).

    work_s [s, > 0] steps between two checkpoints; checkpoint_s [s, >= 0] time that a checkpoint blocks them;
    failures_per_s [1/s, >= 0] of the whole job; restart_s, down_s [s] of an interruption; flush_s [s, <= work_s] write
    behind the steps. No part is expected to be struck more than e^200 times: stays finite where all is hopeless.

    >>> parts = segment(1.0, 0.1, 0.5, restart_s=0.2, down_s=0.3)
    >>> round(parts.total_s, 5), round(parts.lost_s, 5), round(parts.interruptions, 5)
    (1.86385, 0.36651, 0.81037)
    """
    span = np.add(work_s, checkpoint_s)
    flushes, spans, restarts = (
        np.minimum(np.multiply(failures_per_s, part), _MOST) for part in (flush_s, span, restart_s)
    )
    struck = np.exp(flushes) * np.expm1(spans)
    interruptions = struck * np.exp(restarts)
    return Segment(
        useful_s=plain(work_s + np.zeros_like(struck)),
        checkpoint_s=plain(checkpoint_s + np.zeros_like(struck)),
        lost_s=plain(span * _beyond_linear(spans, flushes)),
        restart_s=plain(struck * restart_s * _expm1_over(restarts)),
        down_s=plain(interruptions * down_s),
        interruptions=plain(interruptions),
    )


def segment_s(
    work_s: Num, checkpoint_s: Num, failures_per_s: Num, *, restart_s: Num = 0.0, down_s: Num = 0.0, flush_s: Num = 0.0
) -> Num:
    """Expected wall time [s] of `work_s` seconds of steps and one checkpoint; arguments as in `segment`.

    >>> round(segment_s(1.0, 0.1, 0.5, restart_s=0.2, down_s=0.3), 5), segment_s(1.0, 0.1, 0.0)
    (1.86385, 1.1)
    """
    with np.errstate(over="ignore"):
        span = np.add(work_s, checkpoint_s)
        growth = np.exp(np.multiply(failures_per_s, np.add(restart_s, flush_s)))
        return plain(
            growth * (1.0 + np.multiply(failures_per_s, down_s)) * span * _expm1_over(np.multiply(failures_per_s, span))
        )


def goodput(
    work_s: Num, checkpoint_s: Num, failures_per_s: Num, *, restart_s: Num = 0.0, down_s: Num = 0.0, flush_s: Num = 0.0
) -> Num:
    """Share of wall time [0 to 1] that is useful work which lasts; arguments as in `segment`.

    >>> round(goodput(330.4, 5.0, 1 / (3.0931 * 3600), restart_s=180, down_s=120), 4)
    0.9446
    """
    expected = segment_s(work_s, checkpoint_s, failures_per_s, restart_s=restart_s, down_s=down_s, flush_s=flush_s)
    return plain(np.divide(work_s, expected))


def best_interval_s(checkpoint_s: Num, failures_per_s: Num, flush_s: Num = 0.0) -> Num:
    """Seconds of steps between two checkpoints that lose least; restart and downtime do not move it.

        tau = M (1 + W(-e^(-C/M - 1))), M = 1/lambda, and at least the flush

    Exact minimum of `segment_s` over `work_s` by Lambert's W; infinite at a rate of zero, zero for a free checkpoint.

    >>> round(best_interval_s(5 * 60, 1 / (24 * 3600)) / 60, 2), best_interval_s(60, 0.0)
    (116.69, inf)
    """
    from scipy.special import lambertw  # a fifth of a second that most callers need not wait for

    rate = np.asarray(failures_per_s, dtype=float)
    rate = np.where(rate > _NEVER, rate, 0.0)
    mtbf = np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 0)
    share = np.multiply(rate, checkpoint_s)
    exact = 1.0 + np.real(lambertw(-np.exp(-share - 1.0)))
    small = np.sqrt(2.0 * share) - 2.0 * share / 3.0
    with np.errstate(invalid="ignore"):
        interval = mtbf * np.where(share < _TINY, small, exact)
    interval = np.where(rate > 0, interval, np.where(np.asarray(checkpoint_s) > 0, np.inf, 0.0))
    return plain(np.maximum(interval, flush_s))


def _expm1_over(exponent: Num) -> NDArray[np.float64]:
    """(e^y - 1)/y, 1 at y = 0."""
    y = np.asarray(exponent, dtype=float)
    return np.asarray(np.divide(np.expm1(y), y, out=np.ones_like(y), where=y != 0), dtype=np.float64)


def _beyond_linear(exponent: Num, flush: Num) -> NDArray[np.float64]:
    """(e^f (e^y - 1) - y)/y, without the cancellation of small y and f."""
    y = np.asarray(exponent, dtype=float)
    quadratic = y / 2.0 + y * y / 6.0 + y**3 / 24.0
    beyond = np.where(np.abs(y) < 1e-4, quadratic, _expm1_over(y) - 1.0)
    return np.asarray(beyond + np.expm1(flush) * (1.0 + beyond), dtype=np.float64)
