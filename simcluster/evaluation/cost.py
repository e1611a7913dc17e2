"""What the machines cost, and so a useful hour, a token and a run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.economics.annuity import capital_charge, monthly_rate
from simcluster.economics.break_even import own_or_rent
from simcluster.economics.hours import HOUR_S, PerGpuHour
from simcluster.economics.hours import MONTH_S as BILLED_MONTH_S
from simcluster.economics.own import OwnCost, OwnInputs, own_cost
from simcluster.economics.per_unit import usd_per_million_tokens
from simcluster.economics.rent import RentCost, RentInputs, rent_cost
from simcluster.evaluation.power import PowerResult
from simcluster.hardware.cluster import Cluster
from simcluster.operations.running import RunResult
from simcluster.resolve.terms import Means, OwnTerms, RentTerms
from simcluster.units import MONTH_S, YEAR_S

_FIRST_SALE_MONTHS = 12.0  # estimate: used hardware brings no more than a year-old one, however new it is
_BILLED = BILLED_MONTH_S / MONTH_S  # bills count months of 730 h, calendars a little more


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Owning against renting the same GPUs on demand.

    rival_usd_per_gpu_hour   what that costs
    month, month_without_resale   from when owning has cost less; None: never within the horizon
    rent_usd_per_gpu_hour    the rent, paid for used hours, at which both cost the same; `…_paid` for all hours
    npv_own_usd              gain of owning over the horizon in today's money
    """

    rival_usd_per_gpu_hour: float
    month: float | None
    month_without_resale: float | None
    rent_usd_per_gpu_hour: float
    rent_usd_per_gpu_hour_paid: float
    npv_own_usd: float


@dataclass(frozen=True, slots=True)
class CostResult:
    """Money in USD.

    acquire                  own, or the term of the rent
    usd_per_gpu_hour         of a GPU that is there, at work, and at useful work
    usd_per_million_tokens   failures and idle hours included
    total_usd                of the run; None without a number of tokens
    alone_usd                of the run if nothing else uses the machines: bought ones are sold after it, a reserved
                             term is paid to its end; None without a number of tokens
    monthly_usd              by item; they sum to the cost of a month
    capital_usd              paid before the first step; 0 for a rent
    commitment_usd           owed for the whole term of a rent; 0 without one
    starts_after_s           from the order to the first step
    error_terms              what the cost of a token rests on, beside the time of a step
    """

    acquire: str
    per_gpu_hour: PerGpuHour
    usd_per_million_tokens: float
    total_usd: float | None
    alone_usd: float | None
    monthly_usd: Mapping[str, float]
    capital_usd: float
    commitment_usd: float
    starts_after_s: float
    hours: float
    error_terms: tuple[ErrorTerm, ...]
    break_even: BreakEven | None


def cost_of(
    means: Means, run: RunResult, power: PowerResult, cluster: Cluster, tokens_per_s: float
) -> CostResult | None:
    """Cost on the stated terms; None where the scenario does not say how the machines are got."""
    gpus, gpu = cluster.gpus, cluster.node.gpu.id
    spare_share = means.run.spares / cluster.nodes
    if isinstance(means.acquire, OwnTerms):
        own = own_inputs(means, means.acquire, power, gpus)
        owned = own_cost(own, run.goodput)
        return _result("own", owned, means, run, gpus, tokens_per_s, _own_doubt(means.acquire, owned, gpu), own)
    if isinstance(means.acquire, RentTerms):
        rented = rent_cost(rent_inputs(means, means.acquire, gpus, spare_share), run.goodput)
        doubt = (ErrorTerm(f"price:{means.acquire.term}:{gpu}", 1.0, means.acquire.doubt),)
        return _result(means.acquire.term, rented, means, run, gpus, tokens_per_s, doubt, None)
    return None


def own_inputs(means: Means, terms: OwnTerms, power: PowerResult, gpus: int) -> OwnInputs:
    """Terms of owning in billed months."""
    return OwnInputs(
        nodes_usd=terms.nodes_usd,
        network_usd=terms.network_usd,
        storage_usd=terms.storage_usd,
        misc=terms.misc,
        residual=terms.residual,
        wacc=terms.wacc,
        horizon_s=means.horizon_s * _BILLED,
        average_w=power.it_average_over_all_hours_w,
        nameplate_w=power.it_nameplate_w,
        pue=means.power.pue,
        electricity_usd_per_j=terms.electricity_usd_per_j,
        colocation_usd_per_w_s=terms.colocation_usd_per_w_s / _BILLED,
        staff_usd_per_year=terms.staff_usd_per_s * YEAR_S,
        other_usd_per_year=terms.insurance * (terms.nodes_usd + terms.network_usd + terms.storage_usd),
        support=terms.support,
        gpus=gpus,
        hours=means.hours,
        lead_time_s=terms.lead_time_s * _BILLED,
    )


def rent_inputs(means: Means, terms: RentTerms, gpus: int, spare_share: float = 0.0) -> RentInputs:
    """Terms of a rent in billed months; spare nodes are rented too, `spare_share` of the working ones."""
    return RentInputs(
        usd_per_gpu_hour=terms.usd_per_gpu_s * HOUR_S * (1.0 + spare_share),
        gpus=gpus,
        hours=means.hours,
        horizon_s=means.horizon_s * _BILLED,
        term=terms.term,  # type: ignore[arg-type]  # the scenario has checked it
    )


def _result(
    acquire: str,
    cost: OwnCost | RentCost,
    means: Means,
    run: RunResult,
    gpus: int,
    tokens_per_s: float,
    doubt: tuple[ErrorTerm, ...],
    own: OwnInputs | None,
) -> CostResult:
    hour = cost.per_gpu_hour
    used = float(hour.used_usd)
    return CostResult(
        acquire=acquire,
        per_gpu_hour=hour,
        usd_per_million_tokens=float(usd_per_million_tokens(float(hour.useful_usd), gpus, tokens_per_s)),
        total_usd=used * gpus * run.wall_s / HOUR_S if run.wall_s is not None else None,
        alone_usd=_alone(cost, own, run, used * gpus, gpus),
        monthly_usd={name: float(usd) for name, usd in cost.items()},
        capital_usd=float(cost.capital_usd) if isinstance(cost, OwnCost) else 0.0,
        commitment_usd=float(cost.commitment_usd) if isinstance(cost, RentCost) else 0.0,
        starts_after_s=means.acquire.lead_time_s if isinstance(means.acquire, OwnTerms) else 0.0,
        hours=means.hours,
        error_terms=doubt,
        break_even=_break_even(means, own, gpus) if own is not None else None,
    )


def _alone(
    cost: OwnCost | RentCost, own: OwnInputs | None, run: RunResult, used_usd_per_hour: float, gpus: int
) -> float | None:
    """Cost of the run without other work."""
    if run.wall_s is None:
        return None
    if own is not None and isinstance(cost, OwnCost):
        months = run.wall_s / BILLED_MONTH_S
        age = max(months, _FIRST_SALE_MONTHS) / float(own.months)
        sold = float(own.hardware_usd) * float(own.residual) ** age  # what came on top of the hardware is lost
        charge = float(capital_charge(cost.capital_usd, sold, monthly_rate(own.wacc), months))
        return (charge + float(cost.opex_usd)) * months
    assert isinstance(cost, RentCost)
    if not cost.commitment_usd:
        return used_usd_per_hour * run.wall_s / HOUR_S
    return max(float(cost.per_gpu_hour.provisioned_usd) * gpus * run.wall_s / HOUR_S, float(cost.commitment_usd))


def _own_doubt(terms: OwnTerms, cost: OwnCost, gpu: str) -> tuple[ErrorTerm, ...]:
    """Doubt of prices, by their share of a month's cost."""
    month, hardware = float(cost.month_usd), terms.nodes_usd + terms.network_usd + terms.storage_usd
    prices = {"nodes": terms.nodes_usd, "network": terms.network_usd}
    # What grows with a price: the charge for the capital, support and insurance.
    grows = (float(cost.charge_usd) + float(cost.support_usd) + float(cost.other_usd)) / month
    return tuple(
        ErrorTerm(f"price:{name}:{gpu}", grows * usd / hardware, terms.doubt.get(name, 0.0))
        for name, usd in prices.items()
        if terms.doubt.get(name)
    )


def _break_even(means: Means, own: OwnInputs, gpus: int) -> BreakEven | None:
    if means.market is None:
        return None
    rent = rent_inputs(means, means.market, gpus)
    found = own_or_rent(own, rent)
    months = [None if math.isinf(float(month)) else float(month) for month in (found.month, found.month_without_resale)]
    return BreakEven(
        rival_usd_per_gpu_hour=float(rent.usd_per_gpu_hour),
        month=months[0],
        month_without_resale=months[1],
        rent_usd_per_gpu_hour=float(found.rent_used_usd),
        rent_usd_per_gpu_hour_paid=float(found.rent_paid_usd),
        npv_own_usd=float(found.npv_own_usd),
    )
