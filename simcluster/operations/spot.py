"""Running on capacity that can be taken away: goodput, wall time and price of an hour that counts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.operations.renewal import best_interval_s, segment
from simcluster.shapes import Num

_SHORTEST = 1e-6  # interval over mean time to pre-emption; stands for zero where checkpoints are free


@dataclass(frozen=True, slots=True)
class SpotRun:
    """Goodput of wall time (waits included), useful share of the hours paid for, price of a useful hour in USD."""

    goodput: Num
    paid_goodput: Num
    usd_per_useful_hour: Num
    interval_s: Num


def job_preemptions_per_s(instances: Num, per_instance_s: Num, batch: Num = 1) -> Num:
    """Pre-emptions of the job [1/s]: any instance stops it; a provider that takes `batch` at once does so less often.

    >>> job_preemptions_per_s(64, 1e-6, batch=4)
    1.6e-05
    """
    return plain(np.divide(np.multiply(instances, per_instance_s), batch))


def spot_run(
    usd_per_hour: Num,
    preemptions_per_s: Num,
    checkpoint_s: Num,
    restart_s: Num,
    *,
    wait_s: Num = 0.0,
    pays_wait: bool = False,
) -> SpotRun:
    """Price of a useful hour without usable notice, at the best checkpoint interval: price / goodput.

    preemptions_per_s [1/s, > 0] of the job; wait_s [s] for new capacity after each (mean; any law). Waiting is free
    unless `pays_wait`. Failures add to the rate of pre-emptions.

    >>> round(spot_run(1.25, 1 / 86400, 120, 480).usd_per_useful_hour, 4)
    1.3256
    """
    shortest = np.divide(_SHORTEST, preemptions_per_s)
    interval = np.maximum(best_interval_s(checkpoint_s, preemptions_per_s), shortest)
    parts = segment(interval, checkpoint_s, preemptions_per_s, restart_s=restart_s, down_s=wait_s)
    return _priced(usd_per_hour, interval, parts.total_s, parts.down_s, pays_wait, interval)


def spot_run_with_notice(
    usd_per_hour: Num,
    preemptions_per_s: Num,
    checkpoint_s: Num,
    restart_s: Num,
    *,
    wait_s: Num = 0.0,
    pays_wait: bool = False,
) -> SpotRun:
    """The same where the notice lasts for a checkpoint: no work is lost, and none is written otherwise.

        wall per useful 1/lambda = C + e^(lambda R) (1/lambda + D)

    >>> round(spot_run_with_notice(1.25, 1 / 86400, 120, 480).usd_per_useful_hour, 4)
    1.2587
    """
    useful = np.divide(1.0, preemptions_per_s)
    grown = np.exp(np.multiply(preemptions_per_s, restart_s))
    wall = checkpoint_s + grown * np.add(useful, wait_s)
    return _priced(usd_per_hour, useful, wall, grown * wait_s, pays_wait, np.full(np.shape(useful), np.inf))


def _priced(usd_per_hour: Num, useful: Num, wall: Num, waiting: Num, pays_wait: bool, interval: Num) -> SpotRun:
    paid = wall if pays_wait else wall - waiting
    share = np.divide(useful, paid)
    return SpotRun(plain(np.divide(useful, wall)), plain(share), plain(np.divide(usd_per_hour, share)), plain(interval))
