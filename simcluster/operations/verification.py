"""Checks for silent data corruption: how often they pay, what they and the errors they find cost.

An error stays unseen until the next check, then the run goes back to the last checkpoint known to be good.
"""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num


def check_loss(check_s: Num, interval_s: Num, errors_per_s: Num, restart_s: Num = 0.0) -> Num:
    """Share of time lost to checks and to errors: c/P + lambda (P/2 + R), first order, well below 1.

    check_s [s] of a check, interval_s [s, > 0] between two, errors_per_s [1/s] of the job, restart_s [s].

    >>> round(check_loss(120.0, 24942.0, 1 / (30 * 86400.0)), 5)
    0.00962
    """
    rework = np.multiply(errors_per_s, np.divide(interval_s, 2.0) + restart_s)
    return plain(np.divide(check_s, interval_s) + rework)


def best_check_interval_s(check_s: Num, errors_per_s: Num) -> Num:
    """Seconds between checks that lose least, sqrt(2 c/lambda); infinite where no error occurs.

    >>> round(best_check_interval_s(120.0, 1 / (30 * 86400.0)) / 3600, 2), best_check_interval_s(120.0, 0.0)
    (6.93, inf)
    """
    rate = np.asarray(errors_per_s, dtype=float)
    between = np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 1e-300)
    return plain(np.sqrt(np.multiply(2.0, check_s) * between))


def checkpoints_to_keep(check_interval_s: Num, checkpoint_interval_s: Num) -> Num:
    """Checkpoints to keep so that one older than the last check is among them: ceil(P/tau) + 1.

    >>> checkpoints_to_keep(24942.0, 3600.0)
    8.0
    """
    return plain(np.ceil(np.divide(check_interval_s, checkpoint_interval_s)) + 1.0)
