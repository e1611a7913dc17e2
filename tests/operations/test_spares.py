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


@given(st.integers(1, 300), st.floats(0, 5))
def test_no_other_number_of_spares_costs_less(nodes, mean):
    """Machines times the time that the work takes, by trying every number."""
    counts = np.arange(nodes + 30)
    waiting = mean * spares.short_probability(mean, counts) / (counts + 1) if mean else 0.0 * counts
    cost = (1 + counts / nodes) * (1 + waiting)
    found = spares.spares_that_pay(nodes, mean)
    assert cost[found] == pytest.approx(cost.min(), rel=1e-9)


def test_small_clusters_wait_for_repairs_and_large_ones_have_spares():
    """A failure of a node in 1000 days, three days of repair: a spare doubles one machine, two are 6 % of 32."""
    assert [spares.spares_that_pay(nodes, nodes * 3 * 6.5e-3) for nodes in (1, 2, 4, 32, 256)] == [0, 0, 0, 2, 11]


@given(st.floats(0.01, 50), st.integers(0, 60))
def test_erlangs_recursion(load, count):
    """B(0) = 1, B(s) = a B(s-1)/(s + a B(s-1))."""
    expected = 1.0
    for servers in range(1, count + 1):
        expected = load * expected / (servers + load * expected)
    assert spares.short_probability(load, count) == pytest.approx(expected, rel=1e-9)


def test_hot_and_cold():
    assert spares.repair_wait_s(0.364, 0, 3 * DAY) == pytest.approx(3 * DAY)
    assert spares.repair_wait_s(0.364, 20, 3 * DAY) == pytest.approx(0.0, abs=1e-9)
    waits = spares.repair_wait_s(0.364, np.arange(6), 3 * DAY)
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
    assert spares.repair_wait_s(load, stock, repair) == pytest.approx(waited / failures, rel=0.03)
