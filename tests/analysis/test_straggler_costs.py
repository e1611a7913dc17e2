"""Costs of slow nodes against hand-computed pipelines of forward 1 and backward 2."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.node_speeds import NodeSpeeds
from simcluster.analysis.straggler_costs import (
    gains,
    node_costs,
    one_anywhere,
    replaced_one_by_one,
    stage_costs,
)
from simcluster.analysis.stragglers import group_paces, simulate_stragglers
from simcluster.engine.paced import step_times


def test_one_slow_node_costs_the_same_alone_and_replaced(pipeline, grid):
    """The last of four stages at 1.25, eight micro-batches: 39 of 33."""
    factors = np.ones(16)
    factors[3] = 1.25
    (one,) = node_costs(pipeline(4, 8), grid(4, 4), factors)
    assert (one.node, one.factor) == (3, 1.25)
    assert (one.alone_s, one.gives_back_s) == (pytest.approx(6.0), pytest.approx(6.0))


def test_of_two_as_slow_each_costs_alone_and_replacing_one_gives_nothing_back(pipeline, grid):
    step, places, factors = pipeline(4, 8), grid(4, 4), np.ones(16)
    factors[[3, 7]] = 1.25
    found = node_costs(step, places, factors)
    assert [one.node for one in found] == [3, 7]
    assert [one.alone_s for one in found] == [pytest.approx(6.0)] * 2
    assert [one.gives_back_s for one in found] == [0.0, 0.0]
    assert replaced_one_by_one(step, places, factors, [3, 7]) == (pytest.approx(39.0), pytest.approx(33.0))
    factors[7] = 1.1
    first, second = node_costs(step, places, factors)
    assert (first.node, first.alone_s, first.gives_back_s) == (3, pytest.approx(6.0), pytest.approx(6.0 * 0.6))
    assert (second.node, second.alone_s, second.gives_back_s) == (7, pytest.approx(6.0 * 0.4), 0.0)


def test_noise_is_no_slow_node_and_the_dearest_is_first(pipeline, grid):
    """The first stage leaves its drain to the others: at 1.25 it costs 3.75, less than the last at 1.2."""
    factors = np.ones(16)
    factors[[0, 3, 7]] = 1.25, 1.2, 1.0001
    assert [one.node for one in node_costs(pipeline(4, 8), grid(4, 4), factors)] == [3, 0]


def test_replacing_ends_with_the_last_gain(pipeline, grid):
    step, places, factors = pipeline(1, 2), grid(4), np.array([1.3, 1.2, 1.1, 1.0])
    assert replaced_one_by_one(step, places, factors, [0, 1, 2]) == pytest.approx((7.2, 6.6, 6.0))
    hidden = np.array([1.3, 1.00001, 1.0, 1.0])
    assert replaced_one_by_one(step, places, hidden, [0, 1]) == (pytest.approx(6.00006),)
    assert replaced_one_by_one(step, places, np.ones(4), [1]) == (6.0,)  # no gain at all, told once


@given(st.lists(st.floats(0.9, 1.4), min_size=8, max_size=8))
def test_replacing_never_lengthens_a_step(pipeline, grid, factors):
    step, places, drawn = pipeline(2, 4), grid(4, 2), np.array(factors)
    found = node_costs(step, places, drawn)
    now = float(step_times(step, group_paces(drawn[None], places))[0])
    steps = [now, *replaced_one_by_one(step, places, drawn, [one.node for one in found])] if found else [now]
    assert all(later <= earlier * (1 + 1e-12) for earlier, later in pairwise(steps))


def test_stages_where_one_slow_node_costs_what_it_costs(pipeline, grid):
    """1.25 on the first, a middle and the last stage of four: 36.75 and 39 are known, every node of a stage alike."""
    found = stage_costs(pipeline(4, 8), grid(3, 4), (1.25,))
    assert [(one.stages, one.nodes) for one in found] == [((stage,), 3) for stage in range(4)]
    assert found[0].step_s == pytest.approx(36.75)
    assert found[3].step_s == pytest.approx(39.0)
    assert stage_costs(pipeline(4, 8), grid(3, 4), ()) == ()


def test_a_node_of_two_stages_and_one_of_two_replicas(pipeline):
    """Four stages of two replicas on four nodes, two stages to a node; and of one stage, both replicas to a node."""
    stages = np.array([[0, 0, 1, 1], [2, 2, 3, 3]])[..., None]
    assert [one.stages for one in stage_costs(pipeline(4, 8), stages, (1.1,))] == [(0, 1), (2, 3)]
    replicas = np.array([[0, 1, 2, 3], [0, 1, 2, 3]])[..., None]
    assert [one.nodes for one in stage_costs(pipeline(4, 8), replicas, (1.1,))] == [1, 1, 1, 1]


def test_one_slow_node_anywhere_is_the_mean_of_many_draws(pipeline, grid):
    """Half of twelve nodes are not used by the job."""
    step, places = pipeline(2, 4), grid(3, 2)
    exact = one_anywhere(step, places, 12, 1.2)
    assert len(exact.step_s) == 12
    drawn = simulate_stragglers(step, places, NodeSpeeds(12, slow_nodes=((1, 1.2),)), 4096)
    error = float(exact.step_s.std()) / np.sqrt(4096)
    assert float(drawn.step_s.mean()) == pytest.approx(float(exact.step_s.mean()), abs=4 * error)
    assert exact.percentile(50) == exact.healthy_s
    assert set(drawn.step_s.tolist()) <= set(exact.step_s.tolist())


def test_a_gain_is_one_that_is_shown():
    assert gains(0.9998, 1.0)
    assert not gains(0.99995, 1.0)
