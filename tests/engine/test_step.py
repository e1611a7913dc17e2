"""Whole steps: closed forms of what chunks, messages, exchanges and optimizer come to."""

import numpy as np
import pytest

from simcluster.engine.step import STEP_COLUMNS, solve_step

SERIAL = {"overlap_grad_reduce": False, "overlap_param_gather": False}


def plan(run, tp=1, pp=1, nodes=1, batch=32, strategy="none", overrides=None, **more):
    """Figures of the base model, eight GPUs a node."""
    return run(
        {
            "cluster": {"nodes": nodes, "fabric": "none" if nodes == 1 else "ib-hdr-200"},
            "training": {
                "global_batch": batch,
                "parallelism": {"tp": tp, "pp": pp, "dp": None, **more},
                "sharding": {"strategy": strategy},
                "software": {"overrides": {**(overrides or {})}},
            },
        }
    )


def total(evaluation, name):
    return float(evaluation.times.total[STEP_COLUMNS.index(name)])


def one_gpu(run):
    node = {"base": "dgx-a100-80gb", "gpus": 1}
    training = {"global_batch": 4, "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None}}
    return run({"cluster": {"node": node, "nodes": 1, "fabric": "none"}, "training": training})


def test_one_gpu_computes_and_updates_and_nothing_else(run):
    evaluation = one_gpu(run)
    times = evaluation.times
    assert total(evaluation, "actual") == pytest.approx(times.compute[0, 0] + times.optimizer[0], rel=1e-12)
    assert np.ptp(times.total) == 0
    lost = dict(evaluation.waterfall.items())
    for cause in ("data_parallel", "tensor_parallel", "pipeline_messages", "pipeline_bubble", "pipeline_imbalance"):
        assert lost[cause] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("pp", [2, 4, 8])
@pytest.mark.parametrize("virtual", [1, 2])
def test_equal_stages_take_the_closed_form(run, pp, virtual):
    """(m + (p - 1) / v) (tf + tB), then the optimizer."""
    evaluation = plan(run, pp=pp, virtual_stages=virtual)
    times, m = evaluation.times, evaluation.resolved.layout.micro_batches
    chunks = times.compute[:, 0].mean() / m
    expected = (m + (pp - 1) / virtual) * chunks + times.optimizer.max()
    assert total(evaluation, "balanced") == pytest.approx(expected, rel=1e-9)


def test_unequal_stages_lie_between_the_bounds(run):
    evaluation = plan(run, pp=4, stages=[2, 6, 3, 5])
    times, m = evaluation.times, evaluation.resolved.layout.micro_batches
    both = times.compute[:, 0] / m
    low = max(both[:stage].sum() + m * both[stage] for stage in range(4))
    high = both.sum() + (m - 1) * both.max()
    simulated = total(evaluation, "no_messages") - times.optimizer.max()
    assert low * (1 - 1e-9) <= simulated <= high * (1 + 1e-9)


@pytest.mark.parametrize("pp", [1, 2, 4])
@pytest.mark.parametrize("strategy", ["none", "zero-1"])
def test_idealisations_never_cost_but_for_equal_stages(run, pp, strategy):
    times = plan(run, pp=pp, nodes=2, strategy=strategy).times
    before_last = times.total[: STEP_COLUMNS.index("balanced")]
    assert (np.diff(before_last) <= 0).all()


@pytest.mark.parametrize("strategy", ["none", "zero-1"])
def test_exchanges_in_a_row_are_paid_in_full(run, strategy):
    """Without overlap: all reductions, the norm over all ranks, all gathers."""
    evaluation = plan(run, nodes=2, strategy=strategy, overrides=SERIAL)
    machine, times = evaluation.resolved.machine, evaluation.times
    from simcluster.shapes import GroupShape

    norm = float(machine.transfer("all_reduce", 4.0, GroupShape(16, 2, 1)).seconds)
    paid = total(evaluation, "actual") - total(evaluation, "no_data_parallel")
    assert paid == pytest.approx(float(times.reduce_s[0] + times.gather_s[0]) + norm, rel=1e-6)
    assert (times.gather_s[0] > 0) == (strategy == "zero-1")


def test_overlap_hides_at_most_what_there_is(run):
    serial = plan(run, nodes=2, strategy="zero-1", overrides=SERIAL)
    hidden = plan(run, nodes=2, strategy="zero-1")
    whole = total(serial, "actual") - total(serial, "no_data_parallel")
    exposed = total(hidden, "actual") - total(hidden, "no_data_parallel")
    assert 0 < exposed < whole
    assert total(serial, "no_data_parallel") == pytest.approx(total(hidden, "no_data_parallel"), rel=1e-12)


def test_reductions_move_every_parameter_once(run):
    """Bytes of all buckets: each rank's parameters times the width of a gradient."""
    from simcluster.program.plan import block_names, buckets

    for pp in (1, 2):
        resolved = plan(run, pp=pp, nodes=2, strategy="zero-1").resolved
        chunks = [chunk for stage in resolved.plan.contents for chunk in stage]
        held = sum(bucket.parameters for chunk in chunks for bucket in buckets(resolved.plan, chunk, backward=True))
        names = [name for chunk in chunks for name in block_names(resolved.plan, chunk)]
        assert held == sum(resolved.plan.block_parameters[name] for name in names)
        layers, hidden, ffn, vocab = 16, 2048, 8192, 32000
        weights = layers * (4 * hidden**2 + 2 * hidden * ffn + 2 * hidden) + 2 * vocab * hidden + hidden
        assert held == pytest.approx(weights, rel=0.005)  # the vocabulary is padded


def test_gradient_accumulation_does_not_add_exchanges(run):
    once, often = (plan(run, nodes=2, batch=batch).times for batch in (16, 128))
    assert once.reduce_s.tolist() == often.reduce_s.tolist()
    assert often.compute[0, 0] == pytest.approx(8 * once.compute[0, 0], rel=1e-9)


def test_all_stages_start_after_time_zero_and_end_by_the_total(run):
    times = plan(run, pp=4, nodes=2, strategy="zero-1").times
    assert (times.ends >= 0).all()
    assert np.array_equal(times.ends.max(axis=0), times.total)


def test_the_same_plan_gives_the_same_bits(run):
    resolved = plan(run, tp=2, pp=2, nodes=2, strategy="zero-1").resolved
    one, other = solve_step(resolved.plan, resolved.machine), solve_step(resolved.plan, resolved.machine)
    assert np.array_equal(one.ends, other.ends)


def test_busy_time_is_that_of_the_average_stage(run):
    """Kernels of one stream are busy no longer than the stage computes."""
    from simcluster.program.pricing import CLASSES

    evaluation = plan(run, pp=2)
    times = evaluation.times
    kernels = times.busy[[CLASSES.index(name) for name in ("gemm", "attention", "memory")]].sum()
    assert kernels == pytest.approx(times.compute[:, 0].mean(), rel=0.02)
    assert kernels <= times.compute[:, 0].mean() * (1 + 1e-9)
