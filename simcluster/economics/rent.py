"""What a rented cluster costs: what is paid for depends on the term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcluster.economics.checks import problems_of, refuse
from simcluster.economics.hours import MONTH_HOURS, MONTH_S, PerGpuHour, per_gpu_hour
from simcluster.errors import Problem
from simcluster.memory.arrays import plain
from simcluster.shapes import TERM_MONTHS, Num

Term = Literal["on-demand", "1y", "3y", "spot"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RentInputs:
    """A rented cluster; numbers or arrays that broadcast, each >= 0.

    usd_per_gpu_hour       price while it runs (on demand, spot) or of every hour (reserved)
    gpus                   > 0
    hours                  share of the hours in use, > 0 to 1
    horizon_s              how long it is needed, > 0
    term                   on-demand, 1y, 3y or spot
    egress_usd_per_month, storage_usd_per_month   on top
    support                share of the rent
    """

    usd_per_gpu_hour: Num
    gpus: Num
    hours: Num
    horizon_s: Num
    term: Term = "on-demand"
    egress_usd_per_month: Num = 0.0
    storage_usd_per_month: Num = 0.0
    support: Num = 0.0


@dataclass(frozen=True, slots=True)
class RentCost:
    """Cost of a rented cluster, USD; by month (mean of the horizon) unless the name says otherwise.

    rental_usd        for the GPUs
    support_usd, egress_usd, storage_usd
    month_usd         their sum
    commitment_usd    owed from the start whatever is used: the whole term, 0 on demand and on the spot market
    paid_months       months of rent, at least the term
    total_usd         over the whole horizon
    per_gpu_hour      month_usd by provisioned, used and useful GPU-hour
    """

    rental_usd: Num
    support_usd: Num
    egress_usd: Num
    storage_usd: Num
    month_usd: Num
    commitment_usd: Num
    paid_months: Num
    total_usd: Num
    per_gpu_hour: PerGpuHour

    def items(self) -> list[tuple[str, Num]]:
        """(name, USD per month) of all that makes up month_usd."""
        names = ("rental", "support", "egress", "storage")
        return list(zip(names, (self.rental_usd, self.support_usd, self.egress_usd, self.storage_usd)))


def rent_cost(rent: RentInputs, goodput: Num = 1.0) -> RentCost:
    """Monthly cost of a rent.

    On demand and spot pay used hours. Reserved pays every hour, and the whole term even if the horizon is shorter; a
    longer horizon is renewed at the same price for as long as it lasts. `goodput`: share of the hours that are paid for
    work which is progress, > 0 to 1: failures, pre-emptions and checkpoints take the rest.
    Raises InputError with every value out of range.

    >>> rent = RentInputs(usd_per_gpu_hour=2.9, gpus=256, hours=0.85, horizon_s=48 * MONTH_S, term="3y")
    >>> cost = rent_cost(rent)
    >>> round(cost.month_usd), round(cost.commitment_usd), round(cost.per_gpu_hour.used_usd, 4)
    (541952, 19510272, 3.4118)
    """
    _check(rent, goodput)
    horizon, committed = rent.horizon_s / MONTH_S, TERM_MONTHS[rent.term]
    every_hour = rent.usd_per_gpu_hour * rent.gpus * MONTH_HOURS
    paid = plain(np.maximum(horizon, committed))
    share = paid / horizon if committed else rent.hours
    rental = every_hour * share
    support = rental * rent.support
    month = rental + support + rent.egress_usd_per_month + rent.storage_usd_per_month
    return RentCost(
        rental_usd=rental,
        support_usd=support,
        egress_usd=rent.egress_usd_per_month,
        storage_usd=rent.storage_usd_per_month,
        month_usd=month,
        commitment_usd=every_hour * (1.0 + rent.support) * committed,
        paid_months=paid,
        total_usd=month * horizon,
        per_gpu_hour=per_gpu_hour(month, rent.gpus, rent.hours, goodput),
    )


def _check(rent: RentInputs, goodput: Num) -> None:
    names = ("usd_per_gpu_hour", "egress_usd_per_month", "storage_usd_per_month", "support")
    ranges = [(name, getattr(rent, name), 0.0, np.inf) for name in names]
    shares = [("hours", rent.hours), ("goodput", goodput)]
    ranges += [(name, value, 0.0, 1.0) for name, value in shares]
    found = problems_of(ranges, [*shares, ("gpus", rent.gpus), ("horizon_s", rent.horizon_s)])
    if rent.term not in TERM_MONTHS:
        found.append(Problem(f"term: {rent.term!r} is not known", f"use one of {', '.join(TERM_MONTHS)}"))
    refuse(found)
