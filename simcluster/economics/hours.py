"""Months, and the three GPU-hours that a price can be quoted for.

Here a month is 730 hours and a year 8760, as bills count them; every function of this room uses these two.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.shapes import Num

HOUR_S = 3600.0
MONTH_HOURS = 730.0
MONTH_S = MONTH_HOURS * HOUR_S
YEAR_S = 12.0 * MONTH_S


@dataclass(frozen=True, slots=True)
class PerGpuHour:
    """USD per GPU-hour.

    provisioned_usd   per hour that a GPU is there
    used_usd          per hour that it works for a job
    useful_usd        per hour of progress: used hours without what failures and checkpoints take
    """

    provisioned_usd: Num
    used_usd: Num
    useful_usd: Num


def per_gpu_hour(usd_per_month: Num, gpus: Num, hours: Num, goodput: Num = 1.0) -> PerGpuHour:
    """Monthly cost over the GPU-hours of a month.

    Parameters: `usd_per_month` [USD] >= 0; `gpus` > 0 without spares; `hours` share of the hours in use, 0 to 1;
    `goodput` share of the used hours that is progress, 0 to 1. Both shares are above 0.

    >>> p = per_gpu_hour(558_417.47, 256, 0.85, 0.94)
    >>> round(p.provisioned_usd, 5), round(p.useful_usd, 5)
    (2.98811, 3.73981)
    """
    provisioned = usd_per_month / (gpus * MONTH_HOURS)
    used = provisioned / hours
    return PerGpuHour(provisioned, used, used / goodput)
