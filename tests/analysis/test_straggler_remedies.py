"""Remedies against closed forms of equal pipelines."""

import numpy as np
import pytest

from simcluster.analysis.straggler_remedies import layers_by_speed, remedies
from simcluster.engine.step import solve_step


def test_a_replica_is_left_out_if_its_excess_is_above_a_share(pipeline, grid):
    """Eight replicas of 63 micro-batches: dropping one costs 1/7; it pays for a node that is slower than that."""
    step, factors = pipeline(1, 63), np.ones(8)
    for excess in (1 / 7 - 0.01, 1 / 7 + 0.01):
        factors[5] = 1 + excess
        found = remedies(step, grid(8), factors, 63, [5])
        assert found.now_s == pytest.approx(189 * (1 + excess))
        assert found.dropped_s == pytest.approx(3 * 72)
        assert (found.dropped_s < found.now_s) == (excess > 1 / 7)
        assert found.binned_s is None  # one slow node is together already


def test_work_comes_in_whole_micro_batches_and_groups(pipeline, grid):
    """64 more for seven are ten each for one of them; in groups of eight, sixteen."""
    step, factors = pipeline(1, 64), np.ones(8)
    factors[5] = 1.3
    assert remedies(step, grid(8), factors, 64, [5]).dropped_s == pytest.approx(3 * 74)
    grouped = remedies(step, grid(8), factors, 64, [5], unit=8)
    assert grouped.dropped_s == pytest.approx(3 * 80)
    assert {share % 8 for share in grouped.micro_batches} == {0}
    assert sum(grouped.micro_batches) == 8 * 64


def test_all_replicas_of_a_node_are_left_out(pipeline):
    """Four replicas, two to a node; without the slow node two do the work of four."""
    places = np.array([0, 0, 1, 1]).reshape(4, 1, 1)
    found = remedies(pipeline(1, 8), places, np.array([1.5, 1.0]), 8, [0])
    assert found.dropped_s == pytest.approx(24 * 2)
    whole = remedies(pipeline(1, 8), np.zeros((2, 1, 1), dtype=np.int64), np.array([1.5]), 8, [0])
    assert whole.dropped_s is None  # nobody is left


def test_sharing_micro_batches_out_by_pace(pipeline, grid):
    """One replica at 0.9 speed: 130 with equal shares; 120 with 29 for it, at most 33 for the others; ideal 117."""
    step, factors = pipeline(8, 32), np.ones(64)
    factors[:8] = 1 / 0.9
    found = remedies(step, grid(8, 8), factors, 32, range(8))
    assert found.now_s == pytest.approx(130)
    assert found.rebalanced_s == pytest.approx(120)
    assert found.micro_batches[0] <= 29
    assert max(found.micro_batches) == 33
    assert sum(found.micro_batches) == 8 * 32
    assert found.dropped_s == pytest.approx(3 * (37 + 7))  # 256 micro-batches on seven; fill and drain as before
    assert found.binned_s == pytest.approx(130)


def test_putting_slow_nodes_together_helps_once_work_is_shared_out(pipeline, grid):
    step, factors = pipeline(4, 32), np.ones(32)
    factors[3::4] = 1.2
    found = remedies(step, grid(8, 4), factors, 32, range(3, 32, 4))
    assert found.binned_s <= found.now_s * (1 + 1e-9) + 4.0
    assert found.binned_rebalanced_s < found.rebalanced_s


def test_one_replica_has_nothing_to_share_with(pipeline, grid):
    found = remedies(pipeline(4, 8), grid(1, 4), np.array([1.0, 1.2, 1.0, 1.1]), 8, [1, 3])
    assert (found.dropped_s, found.rebalanced_s, found.binned_s, found.binned_rebalanced_s) == (None,) * 4
    alone = remedies(pipeline(1, 1), grid(4), np.array([1.0, 1.2, 1.0, 1.1]), 1, [1, 3])
    assert alone.rebalanced_s is None  # a micro-batch is not divided
    assert alone.binned_s is not None


def test_layers_go_from_the_slow_stage_to_the_others(run):
    """Sixteen layers on two stages, one 30 % slower: near 7 to 9, less the head; alike again, the step is shorter."""
    evaluation = run({"training": {"parallelism": {"tp": 8, "pp": 2}}})
    plan, machine = evaluation.resolved.plan, evaluation.resolved.machine
    assert [sum(one.layers for one in stage) for stage in plan.contents] == [8, 8]
    for slow in (0, 1):
        paces = np.ones((1, 2))
        paces[0, slow] = 1.3
        moved, step_s = layers_by_speed(plan, machine, paces)
        layers = [stage[0].layers for stage in moved.contents]
        assert layers[slow] < 8 < layers[1 - slow]
        assert float(solve_step(moved, machine).total[0]) <= step_s
    assert (
        layers_by_speed(run({"training": {"parallelism": {"pp": 1}}}).resolved.plan, machine, np.ones((1, 1))) is None
    )
