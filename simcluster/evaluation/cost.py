"""What the machines cost, and so a useful hour, a token and a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.economics.hours import HOUR_S, PerGpuHour
from simcluster.economics.per_unit import usd_per_million_tokens
from simcluster.evaluation.owning import BreakEven, Owning
from simcluster.evaluation.power import PowerResult
from simcluster.evaluation.renting import Renting
from simcluster.evaluation.running import unpaid_share
from simcluster.operations.running import RunResult
from simcluster.resolve.terms import Means, OwnTerms, RentTerms
from simcluster.shapes import TERM_MONTHS

__all__ = ["BreakEven", "CostResult", "cost_of"]


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
    error_terms              what the cost of a token rests on, beside steps and failures
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

    @property
    def pays_idle_hours(self) -> bool:
        """Whether the machines cost as much when they stand still."""
        return TERM_MONTHS.get(self.acquire, 1) > 0


def cost_of(means: Means, run: RunResult, power: PowerResult, gpus: int, tokens_per_s: float) -> CostResult | None:
    """Cost on the stated terms; None where the scenario does not say how the machines are got.

    gpus   that work; spares are paid too
    """
    unpaid = unpaid_share(means.run, run)
    goodput = run.goodput / (1.0 - unpaid)
    way: Owning | Renting
    if isinstance(means.acquire, OwnTerms):
        way = Owning.of(means, means.acquire, power, gpus, goodput)
    elif isinstance(means.acquire, RentTerms):
        way = Renting.of(means, means.acquire, gpus, goodput)
    else:
        return None
    hour = way.cost.per_gpu_hour
    paid_s = run.wall_s * (1.0 - unpaid) if run.wall_s is not None else None
    return CostResult(
        acquire=way.name,
        per_gpu_hour=hour,
        usd_per_million_tokens=float(usd_per_million_tokens(float(hour.useful_usd), gpus, tokens_per_s)),
        total_usd=float(hour.used_usd) * gpus * paid_s / HOUR_S if paid_s is not None else None,
        alone_usd=way.alone_usd(paid_s) if paid_s is not None else None,
        monthly_usd={name: float(usd) for name, usd in way.cost.items()},
        capital_usd=way.capital_usd,
        commitment_usd=way.commitment_usd,
        starts_after_s=way.starts_after_s,
        hours=means.hours,
        error_terms=way.error_terms(),
        break_even=way.break_even(),
    )
