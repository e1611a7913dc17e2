"""The verdict: which candidate, by how much, why, what would change it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from simcluster.analysis.uncertainty import Z80
from simcluster.analysis.waterfall import CAUSES, MEANING
from simcluster.shapes import NetworkRates
from simcluster.units import format_bytes, format_percent, format_rate, format_seconds

if TYPE_CHECKING:
    from simcluster.study.comparison import Candidate

CLEAR = 0.9  # probability at which a difference is called one
_NOTABLE = 0.5  # part of the largest cause from which one that speaks against the verdict is named
ALIKE = 0.01  # relative difference below which designs are called alike
_LEVERS = {
    "kernel_inefficiency": "larger micro-batches or wider layers per GPU (less tensor parallelism), better kernels",
    "memory_bound": "fused kernels, CUDA graphs, a larger micro-batch",
    "recompute": "less recompute where memory allows",
    "tensor_parallel": "less tensor parallelism, or overlapping its exchanges",
    "pipeline_bubble": "more micro-batches, virtual stages, or fewer stages",
    "pipeline_imbalance": "a stage layout that counts embedding and head",
    "pipeline_messages": "overlapping the messages between stages",
    "expert_context_parallel": "experts and context inside a node, or overlapping their exchanges",
    "data_parallel": "overlapping the gradient exchange, a faster fabric, or a larger batch",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision in words.

    choice        name of the candidate, None when none is clearly better
    sentence      which, by how much, how sure
    why           what makes the difference
    flips_if      what would reverse it
    settle_with   what to measure to be sure
    better_lever  what would gain more than choosing between the candidates
    """

    choice: str | None
    sentence: str
    why: str
    flips_if: tuple[str, ...]
    settle_with: tuple[str, ...]
    better_lever: str


def verdict(candidates: Sequence[Candidate]) -> Verdict:
    """Judges by time per token of the whole cluster; a candidate that does not fit in memory cannot win."""
    fitting = [one for one in candidates if one.evaluation.memory.fits]
    if not fitting:
        return _nothing_fits(candidates)
    best = max(fitting, key=lambda one: one.evaluation.step.tokens_per_s)
    rivals = [one for one in candidates if one is not best]
    rival = max(rivals, key=lambda one: (one in fitting, one.evaluation.step.tokens_per_s))
    found = _between(best, rival, len(candidates))
    return replace(found, flips_if=(*found.flips_if, *_faster_but_too_large(best, rivals)))


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


def _nothing_fits(candidates: Sequence[Candidate]) -> Verdict:
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
    low, high, sure = _gain_band(best, rival)
    why = _why(best, rival)
    lever = _lever(best)
    if not rival.evaluation.memory.fits:
        sentence = f"Take {best.name}: {rival.name} does not fit in memory."
        return Verdict(best.name, sentence, why, (), (), lever)
    settle = (_measure(best, rival),)
    if gain < ALIKE:
        gap = format_seconds(abs(rival.evaluation.step.time_s - best.evaluation.step.time_s))
        step = format_seconds(best.evaluation.step.time_s)
        sentence = (
            f"{best.name} and {rival.name} are alike: the step differs by {gap} of {step} ({format_percent(gain)})."
        )
        return Verdict(None, sentence, why, (), settle, lever)
    amount = f"{format_percent(gain)} more tokens per second than {rival.name}"
    interval = f"80% interval {format_percent(low)} to {format_percent(high)}"
    if sure < CLEAR:
        sentence = f"No clear difference: {best.name} would do {amount} ({interval})."
        return Verdict(None, sentence, why, (), settle, lever)
    more = "" if count == 2 else f", the next of {count}"
    sentence = f"Take {best.name}: {amount}{more} ({interval})."
    flips = (f"an hour of {rival.name} costs at least {format_percent(1 - other / own)} less than one of {best.name}",)
    return Verdict(best.name, sentence, why, flips, settle, lever)


def _gain_band(best: Candidate, rival: Candidate) -> tuple[float, float, float]:
    """80 % interval of the gain in tokens per second, and how likely it is above zero.

    The ratio of two log-normal times is log-normal; evidence that both rest on enters with the difference of its parts.
    """
    gain = math.log(best.evaluation.step.tokens_per_s / rival.evaluation.step.tokens_per_s)
    spread = math.hypot(*_unshared(rival, best).values())
    low, high = (math.expm1(gain + side * Z80 * spread) for side in (-1, 1))
    sure = 0.5 * (1 + math.erf(gain / spread / math.sqrt(2))) if spread else float(gain > 0)
    return low, high, sure


def _unshared(one: Candidate, other: Candidate) -> dict[str, float]:
    """Spread of ln(time of one / time of the other) by evidence, with the sign of whom it moves."""
    parts: dict[str, float] = {}
    for sign, candidate in ((1, one), (-1, other)):
        for term in candidate.evaluation.error_terms:
            parts[term.evidence] = parts.get(term.evidence, 0.0) + sign * term.share * term.sigma
    return parts


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


def _measure(best: Candidate, rival: Candidate) -> str:
    """The measurement that narrows the comparison most: the evidence with the largest unshared error."""
    shares = _unshared(best, rival)
    evidence = max(shares, key=lambda name: abs(shares[name]))
    kind, _, where = evidence.partition(":")
    return {
        "gemm": f"GEMM microbenchmarks on {where}",
        "attention": f"attention microbenchmarks on {where}",
        "memory": f"a stream benchmark on {where}",
        "collectives": f"nccl-tests on {where}",
    }.get(kind, "step times of a short run of each")


def _lever(best: Candidate) -> str:
    """The largest loss of the best candidate and what lowers it."""
    seconds = dict(zip(CAUSES[:-1], best.evaluation.waterfall.seconds))
    cause = max(seconds, key=lambda name: seconds[name])
    share = format_percent(seconds[cause] / best.evaluation.step.time_s)
    return f"{MEANING[cause]} take {share} of the step: {_LEVERS[cause]}"
