"""Money of machines that are rented: terms in billed months, a lone run, what the cost rests on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.economics.hours import HOUR_S
from simcluster.economics.hours import MONTH_S as BILLED_MONTH_S
from simcluster.economics.rent import RentCost, RentInputs, rent_cost
from simcluster.resolve.terms import Doubt, Means, RentTerms
from simcluster.units import MONTH_S

BILLED = BILLED_MONTH_S / MONTH_S  # bills count months of 730 h, calendars a little more
_STEP = 1e-3  # relative, of a price whose share in a cost is asked for


@dataclass(frozen=True, slots=True)
class Renting:
    """Machines that are rented; spare nodes are rented too."""

    means: Means
    terms: RentTerms
    cost: RentCost
    gpus: int
    capital_usd: float = 0.0
    starts_after_s: float = 0.0

    @classmethod
    def of(cls, means: Means, terms: RentTerms, gpus: int, goodput: float) -> Renting:
        """Cost of a month on these terms."""
        return cls(means, terms, rent_cost(rent_inputs(means, terms, gpus), goodput), gpus)

    @property
    def name(self) -> str:
        """The term."""
        return self.terms.term

    @property
    def commitment_usd(self) -> float:
        """Owed for the whole term."""
        return float(self.cost.commitment_usd)

    def alone_usd(self, wall_s: float) -> float:
        """Cost of a run without other work: hours of use, or of a reserved term whatever is left of it."""
        months = wall_s / BILLED_MONTH_S
        machines = float(self.cost.rental_usd + self.cost.support_usd) * months
        rented = max(machines, self.commitment_usd) if self.commitment_usd else machines / self.means.hours
        return rented + float(self.cost.storage_usd + self.cost.egress_usd) * months

    def error_terms(self) -> tuple[ErrorTerm, ...]:
        """Doubt of what nobody stated, by how much it moves the cost of a month."""

        def month_usd(name: str, factor: float) -> float:
            other = replace(self.terms, **{name: getattr(self.terms, name) * factor})
            return float(rent_cost(rent_inputs(self.means, other, self.gpus)).month_usd)

        return price_terms(self.terms.doubts, month_usd)

    def break_even(self) -> None:
        """A rent has none."""


def rent_inputs(means: Means, terms: RentTerms, gpus: int) -> RentInputs:
    """Terms of a rent in billed months."""
    return RentInputs(
        usd_per_gpu_hour=terms.usd_per_gpu_s * HOUR_S * terms.paid_nodes,
        gpus=gpus,
        hours=means.hours,
        horizon_s=means.horizon_s * BILLED,
        term=terms.term,  # type: ignore[arg-type]  # the scenario has checked it
        storage_usd_per_month=terms.storage_usd_per_s * MONTH_S,
        egress_usd_per_month=terms.egress_usd_per_s * MONTH_S,
        support=terms.support,
    )


def price_terms(doubts: Mapping[str, Doubt], month_usd: Callable[[str, float], float]) -> tuple[ErrorTerm, ...]:
    """Error terms of prices: relative change of a month's cost over that of the price, one for each row of prices.

    month_usd   cost of a month with one price times a factor
    """
    shares: dict[tuple[str, float], float] = {}
    for name, doubt in doubts.items():
        now = month_usd(name, 1.0)
        if now > 0 and doubt.sigma > 0:
            share = (month_usd(name, 1.0 + _STEP) / now - 1.0) / _STEP
            key = (f"price:{doubt.row}", doubt.sigma)
            shares[key] = shares.get(key, 0.0) + share
    return tuple(ErrorTerm(evidence, share, sigma) for (evidence, sigma), share in shares.items())
