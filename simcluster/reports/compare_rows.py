"""Rows of a comparison: one figure of every candidate, in one unit, with its change against the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from simcluster.evaluation import CostResult
from simcluster.reports.blocks import Style
from simcluster.reports.figures import (
    BINARY,
    COUNTS,
    JOULES,
    MONEY,
    PERCENT,
    PLAIN,
    TIMES,
    WATTS,
    Scale,
    change,
    digits,
    in_one_unit,
)
from simcluster.reports.layout import Page
from simcluster.study import Candidate, Comparison
from simcluster.units import DAY_S

_CHANGED = 1e-3  # relative change from which colour shows that it is better or worse


@dataclass(frozen=True, slots=True)
class Row:
    """One line: texts and relative changes of every candidate.

    changes   None where there is no figure to compare
    better    1: more is better, -1: less is, 0: neither
    compared  whether a text that differs is marked as changed
    """

    label: str
    texts: Sequence[str]
    changes: Sequence[float | None]
    better: Literal[-1, 0, 1] = 0
    compared: bool = True

    def style(self, index: int) -> Style:
        """Good or bad, if the change of a candidate is either."""
        relative = self.changes[index] if index < len(self.changes) else None
        if not relative or not self.better or abs(relative) < _CHANGED:
            return ""
        return "good" if (relative > 0) == (self.better > 0) else "bad"


def result_rows(comparison: Comparison, page: Page) -> list[Row]:
    """Headline figures in the order in which they are asked for."""
    rows = [
        _words("GPUs", comparison, lambda one: str(one.evaluation.resolved.cluster.gpus)),
        _words("fabric", comparison, _fabric),
        _words("layout", comparison, _layout),
        _figures("step time", comparison, lambda one: one.evaluation.step.time_s, TIMES, -1),
        _interval(comparison, page),
        _difference(comparison, page),
        _figures("tokens/s", comparison, lambda one: one.evaluation.step.tokens_per_s, COUNTS, 1),
        _figures("tokens/s/GPU", comparison, lambda one: one.evaluation.step.tokens_per_s_per_gpu, COUNTS, 1),
        _figures("MFU", comparison, lambda one: one.evaluation.step.mfu, PERCENT, 1),
        _figures("peak memory", comparison, lambda one: float(one.evaluation.memory.peak_bytes), BINARY, 0),
        _words("fits", comparison, lambda one: "yes" if one.evaluation.memory.fits else "NO"),
        _words("grade", comparison, lambda one: one.evaluation.confidence.grade),
        *_run_rows(comparison, page),
        *_power_rows(comparison),
        *_money_rows(comparison, page),
    ]
    return rows


def _run_rows(comparison: Comparison, page: Page) -> Iterator[Row]:
    """Days where tokens are stated, and what part of them is useful."""
    runs = [one.evaluation.run for one in comparison.candidates]
    spans = [(run.wall_s_p10, run.wall_s_p90) for run in runs if run.wall_s is not None]
    if len(spans) == len(runs):
        yield _figures("days of running", comparison, lambda one: (one.evaluation.run.wall_s or 0.0) / DAY_S, PLAIN, -1)
        texts = [f"{digits((low or 0) / DAY_S)} {page.dash} {digits((high or 0) / DAY_S)}" for low, high in spans]
        yield Row("80% interval, days", texts, [None] * len(texts), compared=False)
        waits = [
            one.evaluation.cost.starts_after_s / DAY_S if one.evaluation.cost else 0.0 for one in comparison.candidates
        ]
        if any(waits):
            yield Row("days until it starts", [digits(wait) for wait in waits], [None] * len(waits))
    yield _figures("goodput", comparison, lambda one: one.evaluation.run.goodput, PERCENT, 1)


def _power_rows(comparison: Comparison) -> Iterator[Row]:
    yield _figures("power at the meter", comparison, lambda one: one.evaluation.power.facility_average_w, WATTS, -1)
    yield _figures("energy a token", comparison, lambda one: one.evaluation.power.energy_per_token_j, JOULES, -1)


def _money_rows(comparison: Comparison, page: Page) -> Iterator[Row]:
    """Cost of tokens, run and hours, and what has to be laid out, where every candidate says how it is got."""
    costs = [one.evaluation.cost for one in comparison.candidates]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return

    def row(label: str, value: Callable[[CostResult], float], better: Literal[-1, 0, 1] = -1) -> Row:
        return _figures(label, comparison, lambda one: value(_cost(one)), MONEY, better)

    yield _words("got by", comparison, lambda one: _cost(one).acquire)
    yield row("useful GPU-hour", lambda cost: float(cost.per_gpu_hour.useful_usd))
    yield row("a million tokens", lambda cost: cost.usd_per_million_tokens)
    texts = [
        f"{digits(low)} {page.dash} {digits(high)}"
        for low, high in (one.evaluation.token_cost_band for one in comparison.candidates)
    ]
    yield Row("80% interval, USD", texts, [None] * len(texts), compared=False)
    if all(cost.total_usd is not None for cost in known):
        yield row("cost of the run", lambda cost: cost.total_usd or 0.0)
        yield row("without other work", lambda cost: cost.alone_usd or 0.0)
    yield row("capital", lambda cost: cost.capital_usd, 0)
    yield row("commitment", lambda cost: cost.commitment_usd, 0)


def _cost(one: Candidate) -> CostResult:
    assert one.evaluation.cost is not None  # asked for only where every candidate has one
    return one.evaluation.cost


def _words(label: str, comparison: Comparison, text: Callable[[Candidate], str]) -> Row:
    texts = [text(one) for one in comparison.candidates]
    return Row(label, texts, [None] * len(texts))


def _figures(
    label: str, comparison: Comparison, value: Callable[[Candidate], float], scale: Scale, better: Literal[-1, 0, 1]
) -> Row:
    values = [value(one) for one in comparison.candidates]
    unit, texts = in_one_unit(values, scale)
    return Row(
        f"{label}, {unit}" if unit else label,
        texts,
        [one / values[0] - 1 if values[0] else None for one in values],
        better,
    )


def _interval(comparison: Comparison, page: Page) -> Row:
    """80 % intervals of the step times."""
    steps = [one.evaluation.step for one in comparison.candidates]
    unit, flat = in_one_unit([end for step in steps for end in (step.time_s_p10, step.time_s_p90)], TIMES)
    texts = [f"{low} {page.dash} {high}" for low, high in zip(flat[::2], flat[1::2])]
    return Row(f"80% interval, {unit}", texts, [None] * len(texts), compared=False)


def _difference(comparison: Comparison, page: Page) -> Row:
    """80 % intervals of the differences of step times, under common draws, and how likely they are below zero."""
    base = comparison.baseline.evaluation.step.time_s
    texts = [""]
    for one in comparison.candidates[1:]:
        delta = one.delta["step_time_s"]
        sure = digits(100 * delta.probability_better)
        texts.append(f"{change(delta.low / base)} {page.dash} {change(delta.high / base)}, faster: {sure}%")
    return Row("difference, 80%", texts, [None] * len(texts), compared=False)


def _fabric(one: Candidate) -> str:
    network = one.evaluation.resolved.machine.network
    return f"{network.fabric} x{network.nics_per_node}" if network.protocol != "none" else "none"


def _layout(one: Candidate) -> str:
    layout = one.evaluation.resolved.layout
    virtual = f" v{layout.virtual_stages}" if layout.virtual_stages > 1 else ""
    more = "".join(f" {axis}{size}" for axis, size in (("cp", layout.cp), ("ep", layout.ep)) if size > 1)
    return f"tp{layout.tp} pp{layout.pp}{virtual} dp{layout.dp}{more} mb{layout.micro_batch}"
