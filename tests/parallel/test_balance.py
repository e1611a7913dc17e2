"""Splits against all splits there are."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.balance import balanced_split, longest

COSTS = st.lists(st.floats(0.0, 5.0) | st.integers(0, 4).map(float), min_size=1, max_size=9)


@given(COSTS, st.integers(1, 11), st.floats(0, 6), st.floats(0, 6))
def test_no_split_has_a_shorter_longest_stage(costs, parts, embedding, head):
    items = [embedding, *costs, head]
    parts = min(parts, len(items))
    sizes = balanced_split(costs, parts, embedding, head)
    assert sum(sizes) == len(costs)
    assert len(sizes) == parts
    held = [*sizes]
    held[0] += 1
    held[-1] += 1
    assert min(held) > 0
    cuts = combinations(range(1, len(items)), parts - 1)
    best = min(longest(items, [b - a for a, b in zip((0, *cut), (*cut, len(items)), strict=True)]) for cut in cuts)
    assert longest(items, held) <= best * (1 + 1e-12)


def test_a_heavy_head_stands_with_fewer_layers():
    """A head of 2.4 layers, as that of an 8B model with a vocabulary of 128k."""
    sizes = balanced_split([1.0] * 32, 4, head=2.4)
    assert sizes == (9, 8, 9, 6)
    assert balanced_split([1.0] * 2, 2, head=9.0) == (2, 0)


@pytest.mark.parametrize(
    ("costs", "parts"), [([1.0], 0), ([1.0], 4), ([-1.0, 1.0], 1), ([float("inf")], 1), ([float("nan")], 1)]
)
def test_what_cannot_be_split(costs, parts):
    with pytest.raises(ValueError, match="a split needs"):
        balanced_split(costs, parts)
