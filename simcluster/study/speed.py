"""The verdict by speed: which candidate trains more tokens per second, by how much, why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simcluster.analysis.waterfall import CAUSES, MEANING
from simcluster.shapes import NetworkRates
from simcluster.study.judging import ALIKE, CLEAR, Verdict, gain_band, lever, measure
from simcluster.units import format_bytes, format_percent, format_rate, format_seconds

if TYPE_CHECKING:
    from simcluster.study.comparison import Candidate

_NOTABLE = 0.5  # part of the largest cause from which one that speaks against the verdict is named


def by_speed(candidates: Sequence[Candidate]) -> Verdict:
    """Judges by time per token of the whole cluster; a candidate that does not fit in memory cannot win."""
    fitting = [one for one in candidates if one.evaluation.memory.fits]
    if not fitting:
        return nothing_fits(candidates)
    best = max(fitting, key=lambda one: one.evaluation.step.tokens_per_s)
    rivals = [one for one in candidates if one is not best]
    rival = _rival(best, [one for one in rivals if one in fitting] or rivals)
    found = _between(best, rival, len(candidates))
    return replace(found, flips_if=(*found.flips_if, *_faster_but_too_large(best, rivals)))


def _rival(best: Candidate, others: Sequence[Candidate]) -> Candidate:
    """Whom to name: one that is as fast, else whom the best is least sure to beat, else the next fastest."""

    def sure(one: Candidate) -> float:
        ratio = best.evaluation.step.tokens_per_s / one.evaluation.step.tokens_per_s
        return gain_band(ratio, best.evaluation.error_terms, one.evaluation.error_terms)[2]

    fitting = [one for one in others if one.evaluation.memory.fits]
    next_one = max(fitting or others, key=lambda one: one.evaluation.step.tokens_per_s)
    if best.evaluation.step.tokens_per_s / next_one.evaluation.step.tokens_per_s - 1 < ALIKE and fitting:
        return next_one
    unsure = [one for one in fitting if sure(one) < CLEAR]
    return min(unsure, key=sure) if unsure else max(others, key=lambda one: one.evaluation.step.tokens_per_s)


def _faster_but_too_large(best: Candidate, rivals: Sequence[Candidate]) -> Iterator[str]:
    """What the fastest candidate that does not fit would gain, if it is faster than the best that does."""
    faster = [
        one
        for one in rivals
        if not one.evaluation.memory.fits and one.evaluation.step.tokens_per_s > best.evaluation.step.tokens_per_s
    ]
    if faster:
        top = max(faster, key=lambda one: one.evaluation.step.tokens_per_s)
        gain = format_percent(top.evaluation.step.tokens_per_s / best.evaluation.step.tokens_per_s - 1)
        report = top.evaluation.memory
        over = format_bytes(float(report.peak_bytes) - float(report.capacity_bytes), binary=True)
        yield f"{top.name}, {over} over the memory, is made to fit: it would do {gain} more tokens per second"


def nothing_fits(candidates: Sequence[Candidate]) -> Verdict:
    """No choice; which candidate is the least too large."""
    nearest = min(
        candidates,
        key=lambda one: float(one.evaluation.memory.peak_bytes) / float(one.evaluation.memory.capacity_bytes),
    )
    report = nearest.evaluation.memory
    over = format_bytes(float(report.peak_bytes) - float(report.capacity_bytes), binary=True)
    sentence = f"None of them fits in memory; {nearest.name} comes nearest and is {over} over."
    return Verdict(
        None, sentence, "peak memory is above what the GPU has", (), (), "more tp, pp or sharding, or recompute"
    )


def _between(best: Candidate, rival: Candidate, count: int) -> Verdict:
    own, other = best.evaluation.step.tokens_per_s, rival.evaluation.step.tokens_per_s
    gain = own / other - 1
    low, high, sure = gain_band(own / other, best.evaluation.error_terms, rival.evaluation.error_terms)
    why = _why(best, rival)
    better = lever(best.evaluation)
    if not rival.evaluation.memory.fits:
        sentence = f"Take {best.name}: {rival.name} does not fit in memory."
        return Verdict(best.name, sentence, why, (), (), better)
    settle = measure(best.evaluation.error_terms, rival.evaluation.error_terms)
    if gain < ALIKE:
        gap = format_seconds(abs(rival.evaluation.step.time_s - best.evaluation.step.time_s))
        step = format_seconds(best.evaluation.step.time_s)
        sentence = (
            f"{best.name} and {rival.name} are alike: the step differs by {gap} of {step} ({format_percent(gain)})."
        )
        return Verdict(None, sentence, why, (), settle, better)
    amount = f"{format_percent(gain)} more tokens per second than {rival.name}"
    interval = f"80% interval {format_percent(low)} to {format_percent(high)}"
    if sure < CLEAR:
        sentence = f"No clear difference: {best.name} would do {amount} ({interval})."
        return Verdict(None, sentence, why, (), settle, better)
    more = "" if count == 2 else f", the next of {count}"
    sentence = f"Take {best.name}: {amount}{more} ({interval})."
    flips = (f"an hour of {rival.name} costs at least {format_percent(1 - other / own)} less than one of {best.name}",)
    return Verdict(best.name, sentence, why, flips, settle, better)


def _why(best: Candidate, rival: Candidate) -> str:
    """The wires if they differ, the two causes that speak most for the best, and what speaks most against it."""
    pairs = zip(CAUSES, best.evaluation.waterfall.seconds, rival.evaluation.waterfall.seconds)
    gaps = sorted(((theirs - ours, cause) for cause, ours, theirs in pairs), reverse=True)
    least = 1e-4 * rival.evaluation.step.time_s
    shown = [
        f"{MEANING[cause]} take {format_seconds(gap)} more of a step in {rival.name}"
        for gap, cause in gaps[:2]
        if gap > least
    ]
    against, cause = gaps[-1]
    if -against > max(least, _NOTABLE * gaps[0][0]):
        shown.append(f"although {MEANING[cause]} take {format_seconds(-against)} less there")
    own, theirs = (one.evaluation.resolved.machine.network for one in (best, rival))
    words = wires(own, theirs)
    if words and _line_rate(own) < _line_rate(theirs):
        return "; ".join([*shown, *(f"although {word}" for word in words)])
    return "; ".join([*words, *shown]) or "nothing that was simulated differs"


def _line_rate(network: NetworkRates) -> float:
    """Line rate of a GPU's share of the cards, bytes/s."""
    return network.nic_bytes_per_s * network.nics_per_node / network.gpus_per_node


def wires(one: NetworkRates, other: NetworkRates) -> list[str]:
    """How two networks differ in the line rate of a GPU, in words; empty if they are the same.

    >>> dgx = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-hdr-200", "ib", 25e9, 8)
    >>> wires(dgx, dgx)
    []
    """
    if one == other or "none" in (one.protocol, other.protocol):
        return []
    rates = [_line_rate(network) for network in (one, other)]
    labels = [
        f"{network.fabric} with {network.nics_per_node} cards for {network.gpus_per_node} GPUs"
        for network in (one, other)
    ]
    if rates[0] == rates[1]:
        if one.fabric == other.fabric:
            return []
        each = format_rate(rates[0], bits=True)
        return [f"the wires are alike ({each} a GPU), {one.fabric} and {other.fabric} differ in protocol only"]
    fast, slow = (0, 1) if rates[0] > rates[1] else (1, 0)
    times = f"{rates[fast] / rates[slow]:.3g} times the line rate of {labels[slow]}"
    return [
        f"{labels[fast]} carries {times} "
        f"({format_rate(rates[fast], bits=True)} against {format_rate(rates[slow], bits=True)} a GPU)"
    ]
