"""Splits layers over stages so that the longest stage is as short as it can be."""

from __future__ import annotations

import math
from collections.abc import Sequence


def balanced_split(costs: Sequence[float], parts: int, embedding: float = 0.0, head: float = 0.0) -> tuple[int, ...]:
    """Layers of each virtual stage in model order, with the least possible longest stage.

    Parameters: `costs` of the layers in order, `embedding` and `head` those of the ends, in one unit, >= 0; `parts`
    from 1 to the number of layers and ends. The embedding is on the first part and the head on the last, which may have
    no layers beside it; no other part is empty. Raises ValueError for other parts, and for costs that are negative or
    not finite.

    Binary search over the longest stage; each try fills stage after stage, which finds a contiguous split of costs that
    add up if there is one. Of the splits with that longest stage one is taken whose other stages are much alike.

    >>> balanced_split([1.0] * 32, 8, head=2.4)
    (4, 4, 4, 4, 5, 4, 5, 2)
    >>> balanced_split([1.0, 1.0, 4.0, 1.0], 2)
    (2, 2)
    """
    items = [embedding, *costs, head]
    if not 1 <= parts <= len(items) or not all(0 <= cost < math.inf for cost in items):
        raise ValueError("a split needs 1 to layers + 2 parts, and costs that are finite and not negative")
    found = _filled(items, parts, math.fsum(items) * 2)
    assert found is not None
    low, high = 0.0, longest(items, found)
    while low < (middle := (low + high) / 2) < high:
        smaller = _filled(items, parts, middle)
        if smaller is None:
            low = middle
        else:
            found, high = smaller, longest(items, smaller)
    sizes = list(_evened(items, found, high))
    sizes[0] -= 1
    sizes[-1] -= 1
    return tuple(sizes)


def longest(costs: Sequence[float], sizes: Sequence[int]) -> float:
    """Cost of the longest of consecutive parts of given sizes.

    >>> longest([1.0, 2.0, 3.0], [2, 1])
    3.0
    """
    first, most = 0, 0.0
    for size in sizes:
        most = max(most, sum(costs[first : first + size]))
        first += size
    return most


def _filled(costs: Sequence[float], parts: int, most: float) -> tuple[int, ...] | None:
    """Sizes of parts that cost at most `most` each, the first ones as full as may be; None if there are none."""
    sizes: list[int] = []
    place = 0
    for left in reversed(range(parts)):
        held, size = 0.0, 0
        while place + size < len(costs) - left and held + costs[place + size] <= most:
            held += costs[place + size]
            size += 1
        if not size:
            return None
        sizes.append(size)
        place += size
    return tuple(sizes) if place == len(costs) else None


def _evened(costs: Sequence[float], sizes: tuple[int, ...], most: float) -> tuple[int, ...]:
    """A split like `sizes`, no part above `most`, every part near the mean of what is left."""
    parts, count = len(sizes), len(costs)
    starts = [count]  # starts[n]: where the last n parts begin if they are as full as may be
    for _ in range(parts - 1):
        place, held = starts[-1], 0.0
        while place and held + costs[place - 1] <= most:
            place -= 1
            held += costs[place]
        starts.append(place)
    even: list[int] = []
    place, rest = 0, math.fsum(costs)
    for left in reversed(range(parts)):
        size, held = 0, 0.0
        while place + size < count - left and held + costs[place + size] <= most:
            more = held + costs[place + size]
            if size and place + size >= starts[left] and abs(held * (left + 1) - rest) <= abs(more * (left + 1) - rest):
                break
            held, size = more, size + 1
        even.append(size)
        place, rest = place + size, rest - held
    fits = place == count and min(even) > 0 and longest(costs, even) <= most
    return tuple(even) if fits else sizes
