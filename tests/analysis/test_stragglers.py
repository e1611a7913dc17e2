"""Stragglers against expected maxima, worked examples of pipelines, and each other."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.analysis.node_speeds import NodeSpeeds, relative
from simcluster.analysis.straggler_costs import node_costs
from simcluster.analysis.stragglers import group_paces, node_places, simulate_stragglers
from simcluster.engine.maxplus import makespan, solve_rows
from simcluster.engine.paced import paced_step, step_times
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder

NORMAL = {2: 0.56419, 4: 1.02938, 8: 1.42360, 16: 1.76599, 64: 2.34373, 256: 2.82686, 512: 3.04390, 1024: 3.24824}
NORMAL |= {4096: 3.62608, 16384: 3.97135}
HARMONIC = {2: 1.5, 4: 2.0833, 8: 2.7179, 16: 3.3807, 64: 4.7439, 256: 6.1243, 512: 6.8165, 1024: 7.5092}
HARMONIC |= {4096: 8.8951, 16384: 10.2813}


@pytest.mark.parametrize("nodes", sorted(NORMAL))
def test_mean_of_the_slowest_of_drawn_nodes(pipeline, grid, nodes):
    """A step of one stage is as long as its slowest node: the expected maximum of normal values."""
    samples = max(64, min(2048, 2**19 // nodes))
    found = simulate_stragglers(pipeline(1, 1), grid(nodes), NodeSpeeds(nodes, node_sigma=0.01), samples)
    assert found.healthy_s == 3.0
    error = 0.01 * 0.9 / np.sqrt(samples)
    assert found.slow_down == pytest.approx(1.0 + 0.01 * NORMAL[nodes], abs=4 * error)


@pytest.mark.parametrize("nodes", sorted(HARMONIC))
def test_mean_of_the_slowest_of_given_nodes(pipeline, grid, nodes):
    """Exponential and uniform excess, and two values: H_N, N/(N+1), 1-(1-q)^N."""
    random, samples = np.random.default_rng(nodes), max(64, min(1024, 2**19 // nodes))
    step, places = pipeline(1, 1), grid(nodes)
    worst = {"exponential": 0.0, "uniform": 0.0, "two": 0.0}
    draws = {
        "exponential": random.standard_exponential((samples, nodes)),
        "uniform": random.random((samples, nodes)),
        "two": 1.0 * (random.random((samples, nodes)) < 0.005),
    }
    for name, excess in draws.items():
        worst[name] = float(step_times(step, group_paces(1.0 + excess, places)).mean()) / 3.0 - 1.0
    error = 4.5 / np.sqrt(samples)
    assert worst["exponential"] == pytest.approx(HARMONIC[nodes], abs=1.29 * error)
    assert worst["uniform"] == pytest.approx(nodes / (nodes + 1), abs=error / nodes + 1e-4)
    assert worst["two"] == pytest.approx(1 - 0.995**nodes, abs=0.5 * error)


def test_waiting_at_every_op_costs_more_than_once_a_step():
    """32 ops of mean 1 and sd 0.05 on 64 nodes: 35.750 in step, 32.663 on their own."""
    build, last = GraphBuilder(), SOURCE
    for row in range(32):
        last = build.add(row, after=[(last, NO_LAG)])
    graph = build.finish()
    drawn = 1.0 + 0.05 * np.random.default_rng(0).standard_normal((32, 400, 64))
    in_step = makespan(graph, drawn.max(axis=2)).mean()
    alone = solve_rows(graph, drawn.reshape(32, -1), tasks=[31]).reshape(400, 64).max(axis=1).mean()
    assert in_step == pytest.approx(35.750, abs=0.05)
    assert alone == pytest.approx(32.663, abs=0.05)


def test_a_slow_stage_of_a_pipeline(pipeline):
    """Last stage 1.25: 39 of 33; the first one leaves its drain to the others: 36.75."""
    step = pipeline(4, 8)
    paces = np.ones((2, 1, 4))
    paces[0, 0, 3] = paces[1, 0, 0] = 1.25
    assert step_times(step, paces).tolist() == [39.0, 36.75]


def test_slow_nodes_in_one_replica_or_spread(pipeline):
    """64 nodes, 8 replicas of 8 stages, 32 micro-batches, four at 0.9 speed: 1.0997 if they are stages 4 to 7."""
    step, delta = pipeline(8, 32), 1 / 0.9 - 1
    together = np.ones((1, 8, 8))
    together[0, 0, 4:] += delta
    assert float(step_times(step, together)[0]) / 117 == pytest.approx(1.0997, abs=5e-5)
    one = np.ones((1, 8, 8))
    one[0, 0, 7] += delta
    assert float(step_times(step, one)[0]) / 117 == pytest.approx(1 + delta * 32 / 39, rel=1e-12)


def test_four_slow_nodes_anywhere(pipeline, grid):
    """The same cluster, the four drawn: 1.0928 on average by the upper bound; every step lies between its bounds."""
    speeds = NodeSpeeds(64, slow_nodes=((4, 1 / 0.9),))
    found = simulate_stragglers(pipeline(8, 32), grid(8, 8), speeds, 4096)
    each = 3 * group_paces(speeds.draw(4096, 0), grid(8, 8))
    ahead = np.cumsum(each, axis=2) - each
    upper = (each.sum(axis=2) + 31 * each.max(axis=2)).max(axis=1)
    lower = (ahead + 32 * each).max(axis=(1, 2))
    assert (found.step_s <= upper * (1 + 1e-12)).all()
    assert (found.step_s >= lower * (1 - 1e-12)).all()
    assert upper.mean() / 117 == pytest.approx(1.0928, abs=3e-4)
    assert 1.085 < found.slow_down < 1.0928


@given(st.integers(0, 1000), st.floats(0.001, 0.05))
@settings(max_examples=25, deadline=None)
def test_no_spread_costs_nothing_and_more_costs_more(pipeline, grid, seed, sigma):
    step, places = pipeline(2, 4), grid(8, 2)
    none = simulate_stragglers(step, places, NodeSpeeds(16), 64, seed)
    assert (none.step_s == none.healthy_s).all()
    mean = [simulate_stragglers(step, places, NodeSpeeds(16, s), 64, seed).slow_down for s in (sigma, 2 * sigma)]
    assert 1.0 <= mean[0] <= mean[1]
    fewer = simulate_stragglers(step, places[:4], NodeSpeeds(16, sigma), 64, seed)
    assert fewer.slow_down <= mean[0]


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_replicas_may_change_places(pipeline, random):
    step, paces = pipeline(4, 8), np.random.default_rng(random.randrange(99)).uniform(1, 1.2, (5, 6, 4))
    order = random.sample(range(6), 6)
    assert (step_times(step, paces) == step_times(step, paces[:, order])).all()


@given(st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_equal_nodes_may_change_places(pipeline, grid, random):
    """Numbers of nodes mean nothing: relabelled, with their speeds, they give the same steps."""
    step, places, factors = pipeline(2, 4), grid(4, 2), np.random.default_rng(random.randrange(99)).uniform(1, 1.3, 8)
    order = np.array(random.sample(range(8), 8))
    moved = np.empty(8)
    moved[order] = factors
    same = step_times(step, group_paces(factors[None], places))[0]
    assert same == step_times(step, group_paces(moved[None], order[places]))[0]
    costs = [
        {round(one.factor, 12): (one.alone_s, one.gives_back_s) for one in node_costs(step, where, slow)}
        for where, slow in ((order[places], moved), (places, factors))
    ]
    assert costs[0] == costs[1]


def test_blocks_and_workers_change_nothing(pipeline, grid):
    step, places = pipeline(4, 8), grid(16, 4)
    speeds = NodeSpeeds(64, 0.01, 0.02, ((2, 1.3),))
    whole = simulate_stragglers(step, places, speeds, 300, 7).step_s
    for block in (64, 1000):
        assert (simulate_stragglers(step, places, speeds, 300, 7, block=block).step_s == whole).all()
    for workers in (2, 3):
        assert (simulate_stragglers(step, places, speeds, 300, 7, workers=workers).step_s == whole).all()
    assert (simulate_stragglers(step, places, speeds, 100, 7).step_s == whole[:100]).all()


def test_measured_nodes_keep_their_speed(pipeline, grid):
    speeds = NodeSpeeds(4, measured=relative([1.0, 1.0, 1.0, 1.5]))
    found = simulate_stragglers(pipeline(1, 1), grid(4), speeds, 10)
    assert found.step_s.tolist() == [4.5] * 10
    assert found.percentile(90) == 4.5


def figures(run, nodes=8, **parallelism):
    evaluation = run(
        {
            "cluster": {"nodes": nodes, "fabric": "ib-hdr-200"},
            "training": {"global_batch": 128, "parallelism": {"tp": 8, "pp": 1, "dp": None, **parallelism}},
        }
    )
    return evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times


def test_groups_lie_on_nodes(run):
    plan, _, _ = figures(run, nodes=4, tp=8, pp=2)
    assert node_places(plan, 8)[..., 0].tolist() == [[0, 2], [1, 3]]
    assert node_places(plan, 4).tolist() == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    factors = np.array([1.0, 1.2, 1.0, 1.0, 1.1, 1.0, 1.0, 1.0])
    assert group_paces(factors, node_places(plan, 4)).tolist() == [[1.2, 1.1], [1.0, 1.0]]
    two, _, _ = figures(run, nodes=1, tp=2, pp=1)
    assert node_places(two, 8)[..., 0].tolist() == [[0]] * 4


def test_one_slow_node_of_many_costs_its_share_of_computing(run):
    """A node 2 % slower among 64, nothing overlapped: 2 % of the computing, whatever the others do."""
    evaluation = run(
        {
            "cluster": {"nodes": 64, "fabric": "ib-hdr-200"},
            "training": {
                "global_batch": 1024,
                "micro_batch": 4,
                "parallelism": {"tp": 2, "pp": 1, "dp": None},
                "sharding": {"strategy": "none"},
                "software": {"overrides": {"overlap_grad_reduce": False, "overlap_param_gather": False}},
            },
        }
    )
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    found = slow_down(plan, machine, times, NodeSpeeds(64, slow_nodes=((1, 1.02),)))
    computing = float(times.compute[0, 1]) + float(times.optimizer[0])  # column 1 has no tensor parallel exchange
    assert 0.5 < computing / float(times.total[0]) < 1.0
    assert found - 1.0 == pytest.approx(0.02 * computing / float(times.total[0]), rel=0.005)
    assert slow_down(plan, machine, times, NodeSpeeds(64)) == pytest.approx(1.0, abs=1e-12)


def slow_down(plan, machine, times, speeds):
    step, places = paced_step(plan, machine, times), node_places(plan, 8)
    return simulate_stragglers(step, places, speeds, 2048).slow_down


def test_one_node_is_on_average_typical(run):
    plan, machine, times = figures(run, nodes=1)
    assert slow_down(plan, machine, times, NodeSpeeds(1, 0.02)) == pytest.approx(1.0, abs=0.001)


def test_unused_nodes_may_be_the_slow_ones(run):
    plan, machine, times = figures(run)
    whole, half = (slow_down(plan, machine, times, NodeSpeeds(count, slow_nodes=((1, 1.5),))) for count in (8, 16))
    assert 1.0 < half < whole
