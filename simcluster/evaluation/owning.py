"""Money of machines that are bought: terms in billed months, a lone run, when buying pays, what the cost rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.economics.break_even import flows_of, levelised_usd_per_gpu_hour, own_or_rent
from simcluster.economics.hours import HOUR_S
from simcluster.economics.hours import MONTH_S as BILLED_MONTH_S
from simcluster.economics.own import OwnCost, OwnInputs, own_cost
from simcluster.evaluation.power import PowerResult
from simcluster.evaluation.renting import BILLED, price_terms, rent_inputs
from simcluster.resolve.terms import Means, OwnTerms
from simcluster.units import YEAR_S


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Owning against renting the same GPUs on demand.

    rival_usd_per_gpu_hour   what that costs
    month, month_without_resale   from when owning has cost less; None: never within the horizon
    rent_usd_per_gpu_hour    the rent, paid for used hours, at which both cost the same; `…_paid` for all hours
    npv_own_usd              gain of owning over the horizon in today's money
    bridge_rent_usd          what renting costs until the bought machines work, in today's money
    """

    rival_usd_per_gpu_hour: float
    month: float | None
    month_without_resale: float | None
    rent_usd_per_gpu_hour: float
    rent_usd_per_gpu_hour_paid: float
    npv_own_usd: float
    bridge_rent_usd: float


@dataclass(frozen=True, slots=True)
class Owning:
    """Machines that are bought.

    at     inputs for terms, so that the cost of other prices can be asked for
    """

    means: Means
    terms: OwnTerms
    cost: OwnCost
    at: Callable[[OwnTerms], OwnInputs]
    gpus: int
    name: str = "own"
    commitment_usd: float = 0.0

    @classmethod
    def of(cls, means: Means, terms: OwnTerms, power: PowerResult, gpus: int, goodput: float) -> Owning:
        """Cost of a month on these terms."""

        def at(other: OwnTerms) -> OwnInputs:
            return own_inputs(means, other, power, gpus)

        return cls(means, terms, own_cost(at(terms), goodput), at, gpus)

    @property
    def capital_usd(self) -> float:
        """Paid before the first step."""
        return float(self.cost.capital_usd)

    @property
    def starts_after_s(self) -> float:
        """From the order to the first step."""
        return self.terms.lead_time_s

    def alone_usd(self, wall_s: float) -> float:
        """Cost of a run after which the machines are sold; one that outlives them buys others."""
        kept_s = self.means.horizon_s * BILLED
        lives, rest_s = divmod(wall_s, kept_s)
        whole = float(self.cost.month_usd) * lives * kept_s / BILLED_MONTH_S
        if not rest_s:
            return whole
        flows = flows_of(self.at(self.terms), first_sale=self._first_sale)
        return whole + float(levelised_usd_per_gpu_hour(flows, self.gpus, rest_s)) * self.gpus * rest_s / HOUR_S

    @property
    def _first_sale(self) -> tuple[float, float]:
        """Age from which machines are sold, and their share of capital then."""
        return 12.0 * BILLED_MONTH_S, max(self.terms.early_residual, self.terms.residual)

    def error_terms(self) -> tuple[ErrorTerm, ...]:
        """Doubt of what nobody stated, by how much it moves the cost of a month."""

        def month_usd(name: str, factor: float) -> float:
            other = replace(self.terms, **{name: getattr(self.terms, name) * factor})
            return float(own_cost(self.at(other)).month_usd)

        return price_terms(self.terms.doubts, month_usd)

    def break_even(self) -> BreakEven | None:
        """Against the market; None where nobody says what that costs."""
        if self.means.market is None:
            return None
        rent = rent_inputs(self.means, self.means.market, self.gpus)
        found = own_or_rent(self.at(self.terms), rent, first_sale=self._first_sale)
        months = [None if math.isinf(float(one)) else float(one) for one in (found.month, found.month_without_resale)]
        return BreakEven(
            rival_usd_per_gpu_hour=float(rent.usd_per_gpu_hour),
            month=months[0],
            month_without_resale=months[1],
            rent_usd_per_gpu_hour=float(found.rent_used_usd),
            rent_usd_per_gpu_hour_paid=float(found.rent_paid_usd),
            npv_own_usd=float(found.npv_own_usd),
            bridge_rent_usd=float(found.bridge_rent_usd),
        )


def own_inputs(means: Means, terms: OwnTerms, power: PowerResult, gpus: int) -> OwnInputs:
    """Terms of owning in billed months."""
    return OwnInputs(
        nodes_usd=terms.nodes_usd,
        network_usd=terms.network_usd,
        storage_usd=terms.storage_usd,
        misc=terms.misc,
        residual=terms.residual,
        wacc=terms.wacc,
        horizon_s=means.horizon_s * BILLED,
        average_w=power.it_average_over_all_hours_w,
        nameplate_w=power.it_nameplate_w,
        pue=means.power.pue,
        electricity_usd_per_j=terms.electricity_usd_per_j,
        colocation_usd_per_w_s=terms.colocation_usd_per_w_s / BILLED,
        staff_usd_per_year=terms.staff_usd_per_s * YEAR_S,
        other_usd_per_year=terms.insurance * (terms.nodes_usd + terms.network_usd + terms.storage_usd),
        support=terms.support,
        gpus=gpus,
        hours=means.hours,
        lead_time_s=terms.lead_time_s * BILLED,
    )
