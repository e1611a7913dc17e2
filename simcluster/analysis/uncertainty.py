"""How far a step time may be off, and whether one design is really faster than another.

The error of a step is a sum of errors of what it rests on: each piece of evidence (a GEMM table, a fabric's logs, a
sustained rate, the model's own residual) has a relative spread and a share of the step. Candidates that rest on the
same evidence err together, so in a comparison what they share cancels.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.shapes import GRADES

Floats = NDArray[np.float64]

Z80 = 1.2815515655446004  # half-width of an 80 % interval in standard deviations
_DRAWS = 4096
_WEIGHT = 0.2  # a grade counts once this share of the time rests on it or worse


@dataclass(frozen=True, slots=True)
class ErrorTerm:
    """One piece of evidence: its name, its share of the step time (0 to 1), and its relative standard deviation."""

    evidence: str
    share: float
    sigma: float


@dataclass(frozen=True, slots=True)
class Band:
    """80 % interval of a step time in seconds, and the grade of what it rests on."""

    low_s: float
    high_s: float
    grade: str


def spread(terms: Sequence[ErrorTerm]) -> float:
    """Standard deviation of ln(step time): independent terms add in quadrature.

    >>> round(spread([ErrorTerm("a", 0.6, 0.05), ErrorTerm("b", 0.4, 0.1)]), 4)
    0.05
    """
    return float(np.sqrt(sum((term.share * term.sigma) ** 2 for term in terms)))


def band(step_s: float, terms: Sequence[ErrorTerm], grade: str) -> Band:
    """80 % interval, log-normal.

    >>> b = band(1.0, [ErrorTerm("model", 1.0, 0.1)], "B")
    >>> round(b.low_s, 3), round(b.high_s, 3)
    (0.88, 1.137)
    """
    width = Z80 * spread(terms)
    return Band(step_s * float(np.exp(-width)), step_s * float(np.exp(width)), grade)


def overall_grade(seconds: Floats, grades: Floats) -> str:
    """Worst grade on which a fifth of the time or more rests (that grade or a worse one).

    Parameters: `seconds` (classes,) time by class, `grades` (classes,) mean grade index of each.

    >>> grades = np.array([1.0, 3.0])
    >>> overall_grade(np.array([9.0, 1.0]), grades), overall_grade(np.array([7.0, 3.0]), grades)
    ('B', 'D')
    """
    total = seconds.sum()
    if total <= 0:
        return GRADES[-1]
    index = np.rint(grades)
    for grade in range(len(GRADES) - 1, 0, -1):
        if seconds[index >= grade].sum() >= _WEIGHT * total:
            return GRADES[grade]
    return GRADES[0]


@dataclass(frozen=True, slots=True)
class Difference:
    """A candidate against the baseline: b - a in seconds with its 80 % interval, and how likely b is the faster."""

    value: float
    relative: float
    low: float
    high: float
    probability_better: float


def difference(
    baseline_s: float, baseline: Sequence[ErrorTerm], other_s: float, other: Sequence[ErrorTerm], seed: int = 0
) -> Difference:
    """Difference of two step times under common draws of the evidence that they share.

    The interval is that of their ratio, at the baseline's predicted time: an error that both share moves neither end.

    >>> shared = [ErrorTerm("model", 1.0, 0.1)]
    >>> difference(1.0, shared, 1.02, shared).probability_better
    0.0
    """
    drawn: dict[str, Floats] = {}
    first = baseline_s * np.exp(_log_error(baseline, drawn, seed))
    second = other_s * np.exp(_log_error(other, drawn, seed))
    gap = second / first - 1.0
    low, high = baseline_s * np.quantile(gap, [0.1, 0.9])
    better = float(np.mean(gap < 0) + 0.5 * np.mean(gap == 0))
    value = other_s - baseline_s
    return Difference(value, value / baseline_s, float(low), float(high), better)


def _log_error(terms: Sequence[ErrorTerm], drawn: dict[str, Floats], seed: int) -> Floats:
    """Draws of the relative error; each piece of evidence has its own stream, whoever uses it."""
    total = np.zeros(_DRAWS)
    for term in terms:
        if term.evidence not in drawn:
            key = np.random.SeedSequence([seed, zlib.crc32(term.evidence.encode())])
            drawn[term.evidence] = np.random.default_rng(key).standard_normal(_DRAWS)
        total += term.share * term.sigma * drawn[term.evidence]
    return total


def error_terms(shares: Mapping[str, float], sigmas: Mapping[str, float]) -> tuple[ErrorTerm, ...]:
    """Terms from shares and sigmas by evidence; what has no share is left out."""
    return tuple(ErrorTerm(name, share, sigmas[name]) for name, share in shares.items() if share > 0)
