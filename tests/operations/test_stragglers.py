"""Expected slowest of many nodes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations import stragglers
from simcluster.operations.stragglers import normal_maximum, slowest_factor, step_slow_down

TABLE = {
    2: 0.56419, 4: 1.02938, 8: 1.42360, 16: 1.76599, 64: 2.34373,
    256: 2.82686, 512: 3.04390, 1024: 3.24824, 4096: 3.62608, 16384: 3.97135,
}  # fmt: skip


def test_table_of_normal_maxima():
    assert normal_maximum(np.array(list(TABLE))) == pytest.approx(list(TABLE.values()), abs=6e-6)
    assert normal_maximum(2) == pytest.approx(1 / np.sqrt(np.pi), rel=1e-12)
    assert normal_maximum(3) == pytest.approx(1.5 / np.sqrt(np.pi), rel=1e-12)
    assert normal_maximum(1) == 0


@given(st.integers(2, 10**6))
def test_maxima_grow_and_stay_below_their_bound(count):
    assert normal_maximum(count - 1) < normal_maximum(count) < np.sqrt(2 * np.log(count))


def test_rare_slow_nodes():
    assert stragglers.two_point_maximum(512, 0.005, 0.1) == pytest.approx(0.092319, abs=5e-7)
    assert stragglers.two_point_maximum(512, 0.0, 0.1) == 0


def test_one_slow_node_of_64():
    """2 % slower makes all wait 2 % if compute is all, 1.4 % at a share of 70 %: 100,000 steps take 2000 more."""
    assert 100_000 * (step_slow_down(64, 1.0, slow_nodes=[(1, 1.02)]) - 1) == pytest.approx(2000)
    assert step_slow_down(64, 0.7, slow_nodes=[(1, 1.02)]) == pytest.approx(1.014)
    assert stragglers.droppable_excess(64) == pytest.approx(0.0159, abs=5e-5)


def test_spread_of_healthy_nodes():
    assert slowest_factor(64, 0.01) == pytest.approx(1.0234373, abs=1e-6)
    assert slowest_factor(1, 0.01) == slowest_factor(64) == slowest_factor(64, 0.0, [(0, 2.0)]) == 1


@pytest.mark.parametrize(("known", "factor"), [(1, 1.02), (3, 1.0), (2, 1.05)])
def test_known_slow_nodes_among_a_spread_agree_with_draws(known, factor):
    draws = np.random.default_rng(2).standard_normal((60_000, 64 - known)).max(axis=1)
    expected = np.maximum(1 + 0.01 * draws, factor).mean()
    assert slowest_factor(64, 0.01, [(known, factor)]) == pytest.approx(expected, abs=5e-5)


@given(st.integers(2, 4096), st.floats(0, 0.2), st.floats(1, 2), st.floats(0, 1))
def test_slowness_never_multiplies(nodes, sigma, factor, share):
    both = slowest_factor(nodes, sigma, [(1, factor)])
    alone = slowest_factor(nodes - 1, sigma)
    assert max(alone, factor) <= both * (1 + 1e-7)
    assert both <= (slowest_factor(nodes, sigma, [(1, 1.0)]) + factor - 1) * (1 + 1e-7)
    assert 1 <= step_slow_down(nodes, share, sigma, [(1, factor)]) <= both


def test_all_nodes_known():
    assert slowest_factor(4, 0.01, [(2, 1.1), (2, 1.3)]) == 1.3
