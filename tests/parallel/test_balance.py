"""The balanced split against all splits."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.balance import balanced_split, longest

COSTS = st.one_of(st.integers(0, 9).map(float), st.floats(0, 10))


def _all_splits(count, parts):
    """Sizes of `parts` consecutive parts, none empty."""
    for cuts in itertools.combinations(range(1, count), parts - 1):
        yield tuple(after - before for before, after in itertools.pairwise((0, *cuts, count)))


@given(st.lists(COSTS, min_size=1, max_size=7), COSTS, COSTS, st.data())
def test_no_split_has_a_shorter_longest_stage(costs, embedding, head, data):
    items = [embedding, *costs, head]
    parts = data.draw(st.integers(1, len(items)))
    best = min(longest(items, sizes) for sizes in _all_splits(len(items), parts))
    found = balanced_split(costs, parts, embedding, head)
    assert len(found) == parts
    assert sum(found) == len(costs)
    whole = [*found]
    whole[0] += 1
    whole[-1] += 1
    assert min(whole) > 0
    assert longest(items, whole) == pytest.approx(best, rel=1e-11, abs=1e-11)


@given(st.lists(COSTS, min_size=1, max_size=6), COSTS, st.data())
def test_no_split_over_parts_of_unlike_pace_is_shorter(costs, head, data):
    items = [0.0, *costs, head]
    parts = data.draw(st.integers(1, len(items)))
    paces = data.draw(st.lists(st.floats(0.5, 2.0), min_size=parts, max_size=parts))
    found = balanced_split(costs, parts, head=head, paces=paces)
    whole = [*found]
    whole[0] += 1
    whole[-1] += 1
    best = min(longest(items, sizes, paces) for sizes in _all_splits(len(items), parts))
    assert longest(items, whole, paces) == pytest.approx(best, rel=1e-11, abs=1e-11)


def test_a_slow_part_of_eight_gets_a_layer_less():
    """80 layers over 8 parts, one at 0.9 speed: 9 layers of it take 10, and another part has 11."""
    found = balanced_split([1.0] * 80, 8, paces=[1.0, 1.0, 1.0, 1 / 0.9, 1.0, 1.0, 1.0, 1.0])
    assert (found[3], max(found), sum(found)) == (9, 11, 80)


@given(st.integers(1, 12), st.integers(1, 6))
def test_equal_layers_are_shared_out_equally(each, parts):
    assert balanced_split([1.0] * (each * parts), parts) == (each,) * parts


@pytest.mark.parametrize("parts", [0, 5])
def test_parts_out_of_range(parts):
    with pytest.raises(ValueError, match="parts"):
        balanced_split([1.0, 1.0], parts)
    with pytest.raises(ValueError, match="finite"):
        balanced_split([1.0, float("nan")], 2)


@pytest.mark.parametrize("paces", [[1.0], [1.0, 0.0], [1.0, float("inf")]])
def test_paces_out_of_range(paces):
    with pytest.raises(ValueError, match="paces"):
        balanced_split([1.0, 1.0], 2, paces=paces)
