"""The weeks of a run, its power and its money as tables."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.evaluation import CostResult, Evaluation
from simcluster.reports.blocks import Column, Table
from simcluster.reports.figures import digits
from simcluster.reports.layout import Page
from simcluster.units import DAY_S, format_percent, format_power, format_seconds, format_usd

_PARTS = {
    "checkpoint": "writing checkpoints",
    "lost_work": "work done again",
    "restart": "restarting",
    "downtime": "waiting for machines",
    "degraded": "slow nodes",
}
_Rows = Iterator[tuple[str, str, str]]


def outlook_table(evaluation: Evaluation, page: Page) -> Table:
    """Run, power and money: figure, value, what is behind it."""
    columns = (Column("beyond the step"), Column("is", "right"), Column("with"))
    rows = (*_run(evaluation, page), *_power(evaluation), *_money(evaluation, page))
    return Table(columns, rows)


def _run(evaluation: Evaluation, page: Page) -> _Rows:
    run, means = evaluation.run, evaluation.means
    lost = [f"{words} {format_percent(run.shares[part])}" for part, words in _PARTS.items() if run.shares[part] > 0]
    if run.wall_s is not None and run.wall_s_p10 is not None and run.wall_s_p90 is not None:
        span = f"80% interval {format_seconds(run.wall_s_p10)} {page.dash} {format_seconds(run.wall_s_p90)}"
        yield "run", format_seconds(run.wall_s), span
    yield "goodput", format_percent(run.goodput), ", ".join(lost)
    if run.mtbf_s is not None:
        count = f"{digits(run.expected_interruptions)} in the run; " if run.expected_interruptions else ""
        spares = f"{means.run.spares} spare node{'' if means.run.spares == 1 else 's'}"
        yield "time between interruptions", format_seconds(run.mtbf_s), f"{count}{spares}"
    if run.interval_s is not None:
        yield "time between checkpoints", format_seconds(run.interval_s), f"{run.interval_steps} steps"


def _power(evaluation: Evaluation) -> _Rows:
    power, pue = evaluation.power, evaluation.means.power.pue
    machines = f"{format_power(power.it_average_w)} of machines x {pue:.3g}; a GPU {format_power(power.gpu_average_w)}"
    yield "power at the meter", format_power(power.facility_average_w), machines
    energy = f"{power.run_kwh / 1e3:,.0f} MWh in the run" if power.run_kwh is not None else ""
    yield "energy a token", f"{power.energy_per_token_j:.3g} J", energy


def _money(evaluation: Evaluation, page: Page) -> _Rows:
    cost = evaluation.cost
    if cost is None:
        return
    hour = cost.per_gpu_hour
    there = f"{format_usd(float(hour.provisioned_usd))} of a GPU that is there, at work {format_percent(cost.hours)}"
    yield "a useful GPU-hour", format_usd(float(hour.useful_usd)), there
    low, high = evaluation.token_cost_band
    span = f"80% interval {format_usd(low)} {page.dash} {format_usd(high)}"
    yield "a million tokens", format_usd(cost.usd_per_million_tokens), span
    if cost.total_usd is not None and cost.alone_usd is not None:
        yield "cost of the run", format_usd(cost.total_usd), f"{format_usd(cost.alone_usd)} without other work"
    yield from _laid_out(cost)


def _laid_out(cost: CostResult) -> _Rows:
    """What has to be paid, and when owning pays."""
    items = ", ".join(f"{name} {format_usd(usd)}" for name, usd in cost.monthly_usd.items() if usd)
    yield "a month", format_usd(sum(cost.monthly_usd.values())), items
    if cost.commitment_usd:
        yield "commitment", format_usd(cost.commitment_usd), f"the whole term ({cost.acquire})"
    if cost.capital_usd:
        wait = f"starts {cost.starts_after_s / DAY_S:.0f} days after the order"
        yield "capital", format_usd(cost.capital_usd), wait
    found = cost.break_even
    if found is not None:
        month = "never" if found.month is None else f"from month {found.month:.0f}"
        kept = "never" if found.month_without_resale is None else f"month {found.month_without_resale:.0f}"
        rival = f"against {format_usd(found.rival_usd_per_gpu_hour)} on demand; without a resale {kept}"
        yield "owning pays", month, rival
        yield "break-even rent", format_usd(found.rent_usd_per_gpu_hour), "of a GPU-hour at work"
