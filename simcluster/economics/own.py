"""What an owned cluster costs: capital as a level monthly payment, and what running it takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcluster.economics.annuity import capital_charge, monthly_rate
from simcluster.economics.checks import problems_of, refuse
from simcluster.economics.hours import MONTH_S, PerGpuHour, per_gpu_hour
from simcluster.shapes import Num


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnInputs:
    """An owned cluster; numbers or arrays that broadcast, each >= 0.

    nodes_usd, network_usd, storage_usd   price of all machines (spares too), of the fabric, of the storage
    building_usd                          if one is built
    misc                                  share on top of all capital: freight, racks, installation
    residual                              share of the capital that the resale brings at the horizon, 0 to 1
    wacc                                  cost of money per year
    horizon_s                             how long it is kept, > 0
    average_w, nameplate_w                IT power: mean over all hours (energy), rated (what colocation bills)
    pue                                   facility over IT power, >= 1
    electricity_usd_per_j, colocation_usd_per_w_s   0.09 USD/kWh is 2.5e-8; 130 USD/kW-month is 0.13/MONTH_S
    staff_usd_per_year, other_usd_per_year   people; software, bandwidth, insurance, property tax
    support                               share of the hardware price (nodes, network, storage) per year
    gpus, hours                           GPUs without spares, > 0; share of the hours that they work, > 0 to 1
    lead_time_s                           from order to first job
    """

    nodes_usd: Num
    gpus: Num
    hours: Num
    horizon_s: Num
    residual: Num
    wacc: Num
    average_w: Num
    nameplate_w: Num
    pue: Num
    electricity_usd_per_j: Num
    network_usd: Num = 0.0
    storage_usd: Num = 0.0
    building_usd: Num = 0.0
    misc: Num = 0.0
    colocation_usd_per_w_s: Num = 0.0
    staff_usd_per_year: Num = 0.0
    other_usd_per_year: Num = 0.0
    support: Num = 0.0
    lead_time_s: Num = 0.0

    @property
    def hardware_usd(self) -> Num:
        """Nodes, network and storage, without what comes on top."""
        return self.nodes_usd + self.network_usd + self.storage_usd

    @property
    def capital_usd(self) -> Num:
        """All that is paid before the first job."""
        return (self.hardware_usd + self.building_usd) * (1.0 + self.misc)

    @property
    def months(self) -> Num:
        """Horizon in months of 730 h."""
        return self.horizon_s / MONTH_S


@dataclass(frozen=True, slots=True)
class OwnCost:
    """Cost of an owned cluster, USD; by month unless the name says otherwise.

    capital_usd, capital_usd_per_gpu   paid at the start
    charge_usd                         level payment for the capital less its resale (annuity)
    opex_usd                           electricity + colocation + staff + support + other
    month_usd                          charge + opex
    straight_line_month_usd            opex + loss of value in equal parts + interest on the mean book value
    total_usd                          month_usd over the whole horizon
    per_gpu_hour                       month_usd by provisioned, used and useful GPU-hour
    """

    capital_usd: Num
    capital_usd_per_gpu: Num
    charge_usd: Num
    electricity_usd: Num
    colocation_usd: Num
    staff_usd: Num
    support_usd: Num
    other_usd: Num
    opex_usd: Num
    month_usd: Num
    straight_line_month_usd: Num
    total_usd: Num
    per_gpu_hour: PerGpuHour

    def items(self) -> list[tuple[str, Num]]:
        """(name, USD per month) of all that makes up month_usd."""
        names = ("capital", "electricity", "colocation", "staff", "support", "other")
        values = (
            self.charge_usd,
            self.electricity_usd,
            self.colocation_usd,
            self.staff_usd,
            self.support_usd,
            self.other_usd,
        )
        return list(zip(names, values))


def own_cost(own: OwnInputs, goodput: Num = 1.0) -> OwnCost:
    """Monthly cost of ownership.

    Energy is that of the mean power in every hour; colocation is billed on rated power, as data centres do. `goodput`
    is the share of used hours that is progress, > 0 to 1. Raises InputError with every value out of range.

    >>> kwh, month = 3.6e6, MONTH_S
    >>> own = OwnInputs(nodes_usd=14_850_000, network_usd=1_152_000, storage_usd=400_000, misc=0.04, gpus=256,
    ...     hours=0.85, horizon_s=48 * month, residual=0.2, wacc=0.10, average_w=376e3, nameplate_w=495.9e3, pue=1.3,
    ...     electricity_usd_per_j=0.09 / kwh, colocation_usd_per_w_s=0.13 / month, staff_usd_per_year=440_000,
    ...     support=0.04)
    >>> cost = own_cost(own, goodput=0.94)
    >>> round(cost.month_usd, 2), round(cost.per_gpu_hour.useful_usd, 5)
    (558417.47, 3.73981)
    """
    _check(own, goodput)
    capital, months, rate = own.capital_usd, own.months, monthly_rate(own.wacc)
    charge = capital_charge(capital, own.residual * capital, rate, months)
    electricity = own.average_w * own.pue * own.electricity_usd_per_j * MONTH_S
    colocation = own.nameplate_w * own.colocation_usd_per_w_s * MONTH_S
    staff, other = own.staff_usd_per_year / 12.0, own.other_usd_per_year / 12.0
    support = own.support * own.hardware_usd / 12.0
    opex = electricity + colocation + staff + support + other
    written_off = capital * (1.0 - own.residual) / months + capital * (1.0 + own.residual) / 2.0 * rate
    return OwnCost(
        capital_usd=capital,
        capital_usd_per_gpu=capital / own.gpus,
        charge_usd=charge,
        electricity_usd=electricity,
        colocation_usd=colocation,
        staff_usd=staff,
        support_usd=support,
        other_usd=other,
        opex_usd=opex,
        month_usd=charge + opex,
        straight_line_month_usd=written_off + opex,
        total_usd=(charge + opex) * months,
        per_gpu_hour=per_gpu_hour(charge + opex, own.gpus, own.hours, goodput),
    )


_AMOUNTS = (
    "nodes_usd",
    "network_usd",
    "storage_usd",
    "building_usd",
    "misc",
    "wacc",
    "average_w",
    "nameplate_w",
    "electricity_usd_per_j",
    "colocation_usd_per_w_s",
    "staff_usd_per_year",
    "other_usd_per_year",
    "support",
    "lead_time_s",
)


def _check(own: OwnInputs, goodput: Num) -> None:
    ranges = [(name, getattr(own, name), 0.0, np.inf) for name in _AMOUNTS]
    ranges += [("residual", own.residual, 0.0, 1.0), ("pue", own.pue, 1.0, np.inf)]
    ranges += [("hours", own.hours, 0.0, 1.0), ("goodput", goodput, 0.0, 1.0)]
    positive = [("gpus", own.gpus), ("horizon_s", own.horizon_s), ("hours", own.hours), ("goodput", goodput)]
    refuse(problems_of(ranges, positive))
