"""Nodes in repair, spares and waits, against tables and a simulated loss system."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations import spares

DAY = 86400.0
RATE = 3.7887e-3 / DAY


@pytest.mark.parametrize(
    ("nodes", "days", "mean"),
    [(2048, 1, 7.76), (2048, 3, 23.28), (2048, 7, 54.31), (32, 1, 0.121), (32, 3, 0.364), (32, 7, 0.849)],
)
def test_nodes_in_repair(nodes, days, mean):
    assert spares.mean_down(nodes, RATE, days * DAY) == pytest.approx(mean, abs=6e-3)


@given(st.floats(0.001, 300), st.floats(0.001, 0.9))
def test_the_count_is_the_smallest_that_covers(mean, short):
    """By the sum of Erlang's formula, which the search does not use."""
    found = int(spares.spares_needed(mean, short))
    assert spares.short_probability(mean, found) <= short * (1 + 1e-9)
    assert found == 0 or spares.short_probability(mean, found - 1) > short * (1 - 1e-9)


def test_spares_broadcast_and_refuse_a_share_out_of_range():
    assert spares.spares_needed(np.array([0.0, 0.364, 23.28])) == pytest.approx([0, 2, 29])
    with pytest.raises(ValueError, match="between 0 and 1"):
        spares.spares_needed(1.0, 1.0)


@given(st.floats(0.01, 50), st.integers(0, 60))
def test_erlangs_recursion(load, count):
    """B(0) = 1, B(s) = a B(s-1)/(s + a B(s-1))."""
    expected = 1.0
    for servers in range(1, count + 1):
        expected = load * expected / (servers + load * expected)
    assert spares.short_probability(load, count) == pytest.approx(expected, rel=1e-9)


def test_hot_and_cold():
    assert spares.node_wait_s(0.364, 0, 3 * DAY, 0.0) == pytest.approx(3 * DAY)
    assert spares.node_wait_s(0.364, 20, 3 * DAY, 120.0) == pytest.approx(120.0)
    waits = spares.node_wait_s(0.364, np.arange(6), 3 * DAY)
    assert np.all(np.diff(waits) < 0)


def test_the_wait_agrees_with_a_simulated_repair_shop():
    """A job that stops while it is short of a node; exponential repairs."""
    draws = np.random.default_rng(5)
    load, stock, repair = 1.5, 2, 1.0
    down = failures = 0
    waited = 0.0
    for _ in range(200_000):
        if down > stock:  # the job waits
            stay, down = draws.exponential(repair / down), down - 1
            waited += stay
        elif draws.random() < load / (load + down):
            failures, down = failures + 1, down + 1
        else:
            down -= 1
    assert spares.node_wait_s(load, stock, repair, 0.0) == pytest.approx(waited / failures, rel=0.03)
