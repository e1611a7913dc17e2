"""Own against rent: net present value, break-even month and rent, what an early sale costs, what a late start costs.

Rent may fall: rent(t) = rent_0 * (1 - erosion)^(t/12), t in months. Resale falls from the full price to the residual at
the horizon: K * residual^(t/n); or, where a first sale is given, from its share on.
(Second-hand prices are noisy; the curve is an assumption, its ends are parameters.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcluster.economics.annuity import capital_charge, discount, monthly_rate, present_worth_factor
from simcluster.economics.hours import MONTH_HOURS, MONTH_S
from simcluster.economics.own import OwnInputs, own_cost
from simcluster.economics.rent import RentInputs, rent_cost
from simcluster.memory.arrays import plain
from simcluster.shapes import Num

NEVER = float("inf")
_AT_ONCE = (0.0, 1.0)  # no first sale
_SOON = 1e-9  # months, for a division
_EQUAL = 1e-12  # of the capital: below it a gain is a rounding error


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """Money of an owned cluster against rent for the same work; numbers or arrays that broadcast.

    capital_usd, opex_usd_per_month   of the owned cluster
    rent_usd_per_month                today's
    residual                          share of capital at the horizon, 0 to 1
    wacc                              cost of money per year, > -1
    horizon_s                         > 0
    erosion                           fall of rents per year, < 1; negative if they rise
    first_sale_s, first_share         hardware up to this age [s] brings this share of capital; 0 and 1: as of its age
    """

    capital_usd: Num
    opex_usd_per_month: Num
    rent_usd_per_month: Num
    residual: Num
    wacc: Num
    horizon_s: Num
    erosion: Num = 0.0
    first_sale_s: Num = 0.0
    first_share: Num = 1.0

    @property
    def months(self) -> Num:
        """Horizon in months of 730 h."""
        return self.horizon_s / MONTH_S

    @property
    def rate(self) -> Num:
        """Cost of money per month."""
        return monthly_rate(self.wacc)


def resale_usd(flows: Flows, months: Num) -> Num:
    """What the hardware brings after `months` >= 0.

    >>> flows = Flows(capital_usd=100.0, opex_usd_per_month=0, rent_usd_per_month=0, residual=0.25, wacc=0,
    ...               horizon_s=48 * MONTH_S)
    >>> resale_usd(flows, 24)
    50.0
    """
    first = np.minimum(flows.first_sale_s / MONTH_S, flows.months)
    share = np.where(first < flows.months, flows.first_share, flows.residual)
    age = np.maximum(np.subtract(months, first), 0.0) / np.maximum(flows.months - first, _SOON)
    return plain(flows.capital_usd * share * np.power(np.divide(flows.residual, share), age))


def rent_worth_factor(flows: Flows, months: Num) -> Num:
    """Worth today of rent that starts at 1 USD per month and erodes, over `months`.

    >>> flows = Flows(capital_usd=0, opex_usd_per_month=0, rent_usd_per_month=1, residual=0, wacc=0, erosion=0.36,
    ...               horizon_s=48 * MONTH_S)
    >>> round(rent_worth_factor(flows, 12), 4), round(sum(0.64 ** (t / 12) for t in range(1, 13)), 4)
    (9.501, 9.501)
    """
    falling = np.expm1(np.log1p(flows.rate) - np.log1p(-np.asarray(flows.erosion, dtype=float)) / 12.0)
    return present_worth_factor(plain(falling), months)


def npv_own_usd(flows: Flows) -> Num:
    """Worth today of owning instead of renting over the horizon: positive if owning is cheaper.

    >>> flows = Flows(capital_usd=1000.0, opex_usd_per_month=10.0, rent_usd_per_month=40.0, residual=0.1, wacc=0.0,
    ...               horizon_s=48 * MONTH_S)
    >>> npv_own_usd(flows)
    540.0
    """
    return _gain(flows, flows.months, resale=True)


def break_even_month(flows: Flows, *, resale: bool = True) -> Num:
    """First whole month after which owning has cost no more than renting; infinite if not within the horizon.

    `resale`: the hardware is sold then. It is a place where the sign turns, not the best month to stop.

    >>> flows = Flows(capital_usd=1000.0, opex_usd_per_month=10.0, rent_usd_per_month=40.0, residual=0.1, wacc=0.0,
    ...               horizon_s=48 * MONTH_S)
    >>> break_even_month(flows, resale=False)
    34.0
    """
    spread = _with_axis(flows)
    last = np.floor(np.asarray(spread.months) + 1e-9)
    months = np.arange(1.0, max(1.0, float(np.max(last))) + 1.0)
    gain = np.asarray(_gain(spread, months, resale=resale))
    won = (gain >= -_EQUAL * spread.capital_usd) & (months <= last)
    first = np.argmax(won, axis=-1)
    return plain(np.where(won.any(axis=-1), months[first], NEVER))


def break_even_rent_usd_per_month(flows: Flows) -> Num:
    """Today's monthly rent at which both cost the same over the horizon; the flows' own rent is not read.

    >>> flows = Flows(capital_usd=4800.0, opex_usd_per_month=10.0, rent_usd_per_month=0.0, residual=0.0, wacc=0.0,
    ...               horizon_s=48 * MONTH_S)
    >>> break_even_rent_usd_per_month(flows)
    110.0
    """
    charge = capital_charge(flows.capital_usd, flows.residual * flows.capital_usd, flows.rate, flows.months)
    level = charge + flows.opex_usd_per_month
    return plain(level * present_worth_factor(flows.rate, flows.months) / rent_worth_factor(flows, flows.months))


def levelised_usd_per_gpu_hour(flows: Flows, gpus: Num, sold_after_s: Num) -> Num:
    """Cost of a provisioned GPU-hour of a cluster that is sold after `sold_after_s` > 0.

    >>> flows = Flows(capital_usd=17_058_080.0, opex_usd_per_month=187_921.16, rent_usd_per_month=0.0, residual=0.2,
    ...               wacc=0.1, horizon_s=48 * MONTH_S)
    >>> round(levelised_usd_per_gpu_hour(flows, 256, 6 * MONTH_S), 3)
    4.451
    """
    months = sold_after_s / MONTH_S
    charge = capital_charge(flows.capital_usd, resale_usd(flows, months), flows.rate, months)
    return plain((charge + flows.opex_usd_per_month) / (gpus * MONTH_HOURS))


def bridge_rent_usd(rent_usd_per_month: Num, lead_time_s: Num, wacc: Num) -> Num:
    """Worth today of the rent until an ordered cluster is live; work that cannot wait pays it on top of owning.

    >>> round(bridge_rent_usd(100.0, 3 * MONTH_S, 0.0), 9)
    300.0
    """
    return plain(rent_usd_per_month * present_worth_factor(monthly_rate(wacc), lead_time_s / MONTH_S))


@dataclass(frozen=True, slots=True)
class OwnOrRent:
    """Owning against renting.

    npv_own_usd                      gain of owning over the horizon, today's money
    month, month_without_resale      break-even month; infinite if never
    rent_used_usd, rent_paid_usd     break-even rent per GPU-hour, if used hours are paid and if all are
    bridge_rent_usd                  rent until the owned cluster is live (both choices work meanwhile)
    """

    npv_own_usd: Num
    month: Num
    month_without_resale: Num
    rent_used_usd: Num
    rent_paid_usd: Num
    bridge_rent_usd: Num


def flows_of(
    own: OwnInputs, rent: RentInputs | None = None, erosion: Num = 0.0, first_sale: tuple[Num, Num] = _AT_ONCE
) -> Flows:
    """Flows of an owned cluster over its horizon, against a rent if there is one.

    first_sale   age [s] from which hardware is sold and its share of capital then, see `Flows`
    """
    cost = own_cost(own)
    return Flows(
        capital_usd=cost.capital_usd,
        opex_usd_per_month=cost.opex_usd,
        rent_usd_per_month=rent_cost(rent).month_usd if rent is not None else 0.0,
        residual=own.residual,
        wacc=own.wacc,
        horizon_s=own.horizon_s,
        erosion=erosion,
        first_sale_s=first_sale[0],
        first_share=first_sale[1],
    )


def own_or_rent(
    own: OwnInputs, rent: RentInputs, erosion: Num = 0.0, first_sale: tuple[Num, Num] = _AT_ONCE
) -> OwnOrRent:
    """Compares both for the same GPUs, hours and horizon; raises InputError with what is out of range."""
    flows = flows_of(own, rent, erosion, first_sale)
    paid = break_even_rent_usd_per_month(flows) / (own.gpus * MONTH_HOURS)
    return OwnOrRent(
        npv_own_usd=npv_own_usd(flows),
        month=break_even_month(flows),
        month_without_resale=break_even_month(flows, resale=False),
        rent_used_usd=paid / own.hours,
        rent_paid_usd=paid,
        bridge_rent_usd=bridge_rent_usd(flows.rent_usd_per_month, own.lead_time_s, own.wacc),
    )


def _gain(flows: Flows, months: Num, *, resale: bool) -> Num:
    """Worth today of owning for `months` instead of renting."""
    rent = flows.rent_usd_per_month * rent_worth_factor(flows, months)
    owned = flows.capital_usd + flows.opex_usd_per_month * present_worth_factor(flows.rate, months)
    sold = resale_usd(flows, months) * discount(flows.rate, months) if resale else 0.0
    return plain(rent - owned + sold)


def _with_axis(flows: Flows) -> Flows:
    """The same with a last axis for months."""
    parts = np.broadcast_arrays(
        flows.capital_usd,
        flows.opex_usd_per_month,
        flows.rent_usd_per_month,
        flows.residual,
        flows.wacc,
        flows.horizon_s,
        flows.erosion,
        flows.first_sale_s,
        flows.first_share,
    )
    capital, opex, rent, residual, wacc, horizon, erosion, first, share = (
        part[..., None].astype(float) for part in parts
    )
    return Flows(
        capital_usd=capital,
        opex_usd_per_month=opex,
        rent_usd_per_month=rent,
        residual=residual,
        wacc=wacc,
        horizon_s=horizon,
        erosion=erosion,
        first_sale_s=first,
        first_share=share,
    )
