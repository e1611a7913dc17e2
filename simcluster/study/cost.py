"""The verdict by cost: which candidate trains a token for less, when it is done, what would change that."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simcluster.evaluation import CostResult, Evaluation
from simcluster.resolve.terms import RentTerms
from simcluster.study.judging import ALIKE, CLEAR, Verdict, gain_band, lever, measure
from simcluster.study.speed import nothing_fits
from simcluster.units import (
    HOUR_S,
    format_bytes,
    format_count,
    format_percent,
    format_power,
    format_seconds,
    format_usd,
)

if TYPE_CHECKING:
    from simcluster.study.comparison import Candidate

_SOONER = 0.1  # part of the time to the end from which being done sooner is worth a word
_LESS = 0.005  # relative cost below which two costs of a lone run are the same


def by_cost(candidates: Sequence[Candidate]) -> Verdict:
    """Judges by the cost of a token, with failures and idle hours; a candidate that does not fit cannot win."""
    fitting = [one for one in candidates if one.evaluation.memory.fits]
    if not fitting:
        return nothing_fits(candidates)
    ranked = sorted(fitting, key=_token_usd)
    best = ranked[0]
    if len(ranked) == 1:
        others = ", ".join(one.name for one in candidates if one is not best)
        sentence = f"Take {best.name}: {_bill(best)}; {others} {_verb(len(candidates) - 1)} not fit in memory."
        flips = tuple(_cheaper_but_too_large(best, candidates))
        return Verdict(best.name, sentence, "; ".join(_terms(best)), flips, (), lever(best.evaluation))
    found = _between(best, _rival(best, ranked[1:]), ranked)
    return replace(found, flips_if=(*found.flips_if, *_cheaper_but_too_large(best, candidates)))


def _rival(best: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Whom to name: one that costs the same, else whom the best is least sure to beat, else the next cheapest."""
    if _token_usd(others[0]) / _token_usd(best) - 1 < ALIKE:
        return others[0]

    def sure(one: Candidate) -> float:
        ratio = _token_usd(one) / _token_usd(best)
        return gain_band(ratio, best.evaluation.token_error_terms, one.evaluation.token_error_terms)[2]

    unsure = [one for one in others if sure(one) < CLEAR]
    return min(unsure, key=sure) if unsure else others[0]


def _cheaper_but_too_large(best: Candidate, candidates: Sequence[Candidate]) -> Iterator[str]:
    """What the cheapest candidate that does not fit in memory would cost, if that is less."""
    too_large = [one for one in candidates if not one.evaluation.memory.fits and _token_usd(one) < _token_usd(best)]
    if too_large:
        least = min(too_large, key=_token_usd)
        report = least.evaluation.memory
        over = format_bytes(float(report.peak_bytes) - float(report.capacity_bytes), binary=True)
        less = format_percent(1 - _token_usd(least) / _token_usd(best))
        yield f"{least.name}, {over} over the memory, is made to fit: a token would cost up to {less} less"


def _verb(count: int) -> str:
    return "does" if count == 1 else "do"


def _between(best: Candidate, rival: Candidate, ranked: Sequence[Candidate]) -> Verdict:
    ratio = _token_usd(rival) / _token_usd(best)
    own, others = best.evaluation.token_error_terms, rival.evaluation.token_error_terms
    low, high, sure = gain_band(ratio, own, others)
    saved = [format_percent(1 - 1 / (1 + gain)) for gain in (ratio - 1, low, high)]
    less = f"{saved[0]} less than {rival.name} (80% interval {saved[1]} to {saved[2]})"
    why = "; ".join([*_why(best, rival), *_terms(best), *_sooner(best, ranked)])
    settle = measure(own, others)
    flips, better = tuple(_flips(best, rival, ranked, ratio)), _better_lever(best)
    if ratio - 1 < ALIKE:
        sentence = f"{best.name} and {rival.name} cost the same within {format_percent(ratio - 1)}: {_bill(best)}."
        return Verdict(None, f"{sentence} {_condition(best)}".rstrip(), why, flips, settle, better)
    if sure < CLEAR:
        sentence = (
            f"No clear winner: {best.name} is the cheaper one with a chance of {format_percent(sure)}, "
            f"{_bill(best)}, {less}; {rival.name} takes {_bill(rival)}."
        )
        return Verdict(None, f"{sentence} {_condition(best)}".rstrip(), why, flips, settle, better)
    sentence = f"Take {best.name}: {_bill(best)}, {less}."
    return Verdict(best.name, f"{sentence} {_condition(best)}".rstrip(), why, flips, settle, better)


def _condition(best: Candidate) -> str:
    """What the cost of a machine that is paid when it stands still supposes."""
    cost = _cost(best)
    if not cost.pays_idle_hours:
        return ""
    years = format_seconds(best.evaluation.means.horizon_s)
    holds = f"This supposes work for the machines in {format_percent(cost.hours)} of the hours of {years}"
    return f"{holds}; this run alone would cost {format_usd(cost.alone_usd)}." if cost.alone_usd else f"{holds}."


def _cost(one: Candidate) -> CostResult:
    assert one.evaluation.cost is not None  # `verdict` asks only where all have one
    return one.evaluation.cost


def _token_usd(one: Candidate) -> float:
    return _cost(one).usd_per_million_tokens


def _bill(one: Candidate) -> str:
    """Tokens, days and dollars; without a number of tokens, dollars a token."""
    cost, run, tokens = _cost(one), one.evaluation.run, one.evaluation.resolved.scenario.training.tokens
    each = f"{format_usd(cost.usd_per_million_tokens)} a million tokens"
    if run.wall_s is None or cost.total_usd is None or tokens is None:
        return each
    return f"{format_count(tokens)} tokens in {format_seconds(run.wall_s)} for {format_usd(cost.total_usd)} ({each})"


def _why(best: Candidate, rival: Candidate) -> Iterator[str]:
    """Price of an hour against work in an hour."""
    costs = [_cost(one).per_gpu_hour.useful_usd for one in (best, rival)]
    rates = [one.evaluation.step.tokens_per_s_per_gpu for one in (best, rival)]
    price = f"a useful GPU-hour costs {format_usd(float(costs[0]))} against {format_usd(float(costs[1]))}"
    gain = rates[0] / rates[1] - 1
    if abs(gain) < ALIKE:
        yield f"{price}, and a GPU does the same work in it"
        return
    word = "more" if gain > 0 else "less"
    joint = "and" if (costs[0] < costs[1]) == (gain > 0) else "but"
    yield f"{price}, {joint} a GPU does {format_percent(abs(gain))} {word} in it"


def _terms(one: Candidate) -> Iterator[str]:
    """What taking it means: capital or commitment, when it starts, what it draws."""
    cost, power = _cost(one), one.evaluation.power
    if cost.capital_usd:
        wait = format_seconds(cost.starts_after_s)
        yield f"it takes {format_usd(cost.capital_usd)} of capital and starts {wait} after the order{_bridged(one)}"
    if cost.commitment_usd:
        yield f"it binds for {format_usd(cost.commitment_usd)} ({cost.acquire})"
    yield f"it draws {format_power(power.facility_average_w)} at the meter, {power.energy_per_token_j:.3g} J a token"


def _bridged(one: Candidate) -> str:
    """What work costs that does not wait for the machines; a run that is done by then needs none of them."""
    cost, wall_s = _cost(one), one.evaluation.run.wall_s
    if cost.break_even is None or not cost.break_even.bridge_rent_usd:
        return ""
    if wall_s is not None and wall_s < cost.starts_after_s:
        return ""
    return f" (renting the same GPUs until then takes {format_usd(cost.break_even.bridge_rent_usd)} more)"


def _sooner(best: Candidate, ranked: Sequence[Candidate]) -> Iterator[str]:
    """Who is done sooner, counted from the order."""
    ends = {one.name: _end_s(one.evaluation) for one in ranked}
    own = ends[best.name]
    quick = min(ranked, key=lambda one: ends[one.name] or 0.0)
    first = ends[quick.name]
    if own is not None and first is not None and first < own * (1 - _SOONER):
        yield f"{quick.name} is done {format_seconds(first)} after the order, {best.name} after {format_seconds(own)}"


def _end_s(evaluation: Evaluation) -> float | None:
    wall, cost = evaluation.run.wall_s, evaluation.cost
    return None if wall is None else wall + (cost.starts_after_s if cost else 0.0)


def _flips(best: Candidate, rival: Candidate, ranked: Sequence[Candidate], ratio: float) -> Iterator[str]:
    """What would reverse the verdict."""
    yield from _if_alone(best, ranked)
    yield from _if_idle(best, ranked)
    if ratio - 1 < ALIKE:
        return
    terms = rival.evaluation.means.acquire
    if isinstance(terms, RentTerms):
        now, limit = terms.usd_per_gpu_s * HOUR_S, _equal_rent(rival, ratio)
        if limit > 0:
            yield f"{rival.name} is had for less than {limit:.2f} USD a GPU-hour (here {now:.2f})"
    else:
        yield f"{rival.name} costs {format_percent(1 - 1 / ratio)} less than here, all in all"


def _equal_rent(rival: Candidate, ratio: float) -> float:
    """Rent of a GPU-hour at which the rival costs the same: storage and egress stay as they are."""
    monthly, terms = _cost(rival).monthly_usd, rival.evaluation.means.acquire
    assert isinstance(terms, RentTerms)
    machines = monthly["rental"] + monthly["support"]
    rest = sum(monthly.values()) - machines
    return terms.usd_per_gpu_s * HOUR_S * ((machines + rest) / ratio - rest) / machines if machines else 0.0


def _if_alone(best: Candidate, ranked: Sequence[Candidate]) -> Iterator[str]:
    """Machines that have no other work: a reserved term and a purchase cost more than this run's share."""
    cost, wall_s = _cost(best), best.evaluation.run.wall_s
    mine = cost.alone_usd
    if mine is None or wall_s is None:
        return
    others = [(one.name, _cost(one).alone_usd or math.inf) for one in ranked if one is not best]
    if cost.break_even is not None:
        rent = cost.break_even.rival_usd_per_gpu_hour
        hours = best.evaluation.resolved.cluster.gpus * wall_s / HOUR_S
        others.append((f"renting the same GPUs on demand at {format_usd(rent)} an hour", rent * hours))
    name, theirs = min(others, key=lambda one: one[1])
    if theirs < mine * (1 - _LESS):
        yield (
            f"nothing else uses the machines after this run: then {best.name} costs {format_usd(mine)} "
            f"and {name} {format_usd(theirs)}"
        )


def _if_idle(best: Candidate, ranked: Sequence[Candidate]) -> Iterator[str]:
    """Machines that are paid when they stand still, against some that are not."""
    cost = _cost(best)
    by_use = [one for one in ranked if not _cost(one).pays_idle_hours]
    if not cost.pays_idle_hours or not by_use:
        return
    rival = min(by_use, key=_token_usd)
    least = cost.hours * _token_usd(best) / _token_usd(rival)
    here = f"the machines work less than {format_percent(least)} of the hours (here {format_percent(cost.hours)})"
    yield f"{here}: then {rival.name} costs less"


def _better_lever(best: Candidate) -> str:
    """Idle hours if they cost more than the largest loss of a step, else that loss."""
    cost, evaluation = _cost(best), best.evaluation
    losses = evaluation.waterfall.seconds[:-1]
    if cost.pays_idle_hours and 1 - cost.hours > max(losses) / evaluation.step.time_s:
        return (
            f"the machines stand still {format_percent(1 - cost.hours)} of the hours, and are paid: more jobs on them"
        )
    return lever(evaluation)
