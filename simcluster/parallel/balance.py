"""Splits layers over stages so that the longest stage is as short as it can be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_ROUNDING = 1e-12  # relative difference of sums that are taken as equal


def balanced_split(
    costs: Sequence[float], parts: int, embedding: float = 0.0, head: float = 0.0, paces: Sequence[float] = ()
) -> tuple[int, ...]:
    """Layers of each virtual stage in model order, with the least possible longest stage.

    Parameters: `costs` of the layers in order, `embedding` and `head` those of the ends, in one unit, >= 0; `parts`
    from 1 to the number of layers and ends; `paces` (parts,) by which the costs on each part grow, > 0 (default: all
    1). The embedding is on the first part and the head on the last, which may have no layers beside it; no other part
    is empty. Raises ValueError for other parts, and for costs and paces out of their range or not finite.

    Of the splits with the least longest stage one is taken whose stages are most alike (least sum of squares). Both by
    dynamic programming over the place where each part ends.

    >>> balanced_split([1.0] * 32, 8, head=2.4)
    (4, 4, 4, 4, 4, 5, 5, 2)
    >>> balanced_split([1.0, 1.0, 4.0, 1.0], 2)
    (2, 2)
    >>> balanced_split([1.0] * 8, 2, paces=[1.0, 1.5])
    (5, 3)
    """
    items, factors = [embedding, *costs, head], tuple(paces) or (1.0,) * parts
    if not 1 <= parts <= len(items) or not all(0 <= cost < math.inf for cost in items):
        raise ValueError("a split needs 1 to layers + 2 parts, and costs that are finite and not negative")
    if len(factors) != parts or not all(0 < pace < math.inf for pace in factors):
        raise ValueError(f"{parts} parts need as many paces, finite and above zero")
    before = np.concatenate([[0.0], np.cumsum(items)])
    held = before[None, :] - before[:, None]  # from a place (rows) to another
    held[np.tril_indices(len(before))] = np.inf  # no part is empty
    sizes = _most_alike(held, factors, _least_longest(held, factors) * (1.0 + _ROUNDING))
    sizes[0] -= 1
    sizes[-1] -= 1
    return tuple(sizes)


def longest(costs: Sequence[float], sizes: Sequence[int], paces: Sequence[float] = ()) -> float:
    """Cost of the longest of consecutive parts of given sizes, each at its pace.

    >>> longest([1.0, 2.0, 3.0], [2, 1]), longest([1.0, 2.0, 3.0], [2, 1], [1.5, 1.0])
    (3.0, 4.5)
    """
    first, most = 0, 0.0
    for size, pace in zip(sizes, paces or (1.0,) * len(sizes)):
        most = max(most, sum(costs[first : first + size]) * pace)
        first += size
    return most


def _least_longest(held: Floats, paces: Sequence[float]) -> float:
    """The longest part of the best split."""
    best = held[0] * paces[0]  # by the place where the first parts end
    for pace in paces[1:]:
        best = np.maximum(best[:, None], held * pace).min(axis=0)
    return float(best[-1])


def _most_alike(held: Floats, paces: Sequence[float], most: float) -> list[int]:
    """Sizes of the split with the least sum of squares, no part above `most`."""
    squares = [np.where(held * pace <= most, (held * pace) ** 2, np.inf) for pace in paces]
    sums = [squares[0][0]]
    for square in squares[1:]:
        sums.append((sums[-1][:, None] + square).min(axis=0))
    ends = [len(held) - 1]
    for part in reversed(range(1, len(paces))):
        found = sums[part - 1] + squares[part][:, ends[-1]]
        ends.append(int(np.argmax(found <= found.min() * (1.0 + _ROUNDING))))  # the first of equals
    ends.append(0)
    return [after - before for after, before in pairwise(ends)][::-1]
