"""The verdict: by cost where every candidate has one, else by speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from simcluster.study.cost import by_cost
from simcluster.study.judging import ALIKE, CLEAR, Verdict
from simcluster.study.speed import by_speed

if TYPE_CHECKING:
    from simcluster.study.comparison import Candidate

__all__ = ["ALIKE", "CLEAR", "Verdict", "verdict"]


def verdict(candidates: Sequence[Candidate]) -> Verdict:
    """Which candidate to take, or that none is clearly better; one that does not fit in memory cannot win."""
    priced = [one for one in candidates if one.evaluation.cost is not None]
    if len(priced) == len(candidates):
        return by_cost(candidates)
    found = by_speed(candidates)
    if not priced:
        return found
    silent = ", ".join(one.name for one in candidates if one not in priced)
    note = f"the cost of {silent} is counted too: say own, on-demand, 1y, 3y or spot (acquire)"
    return replace(found, flips_if=(*found.flips_if, note))
