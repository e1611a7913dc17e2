"""What any evaluation must satisfy, whatever the layout."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.evaluation import Evaluation
from simcluster.program.plan import block_names, block_ops
from simcluster.shapes import Transfer

SAME = settings.get_profile("reproducible")


def check(evaluation: Evaluation) -> None:
    """What any single evaluation must satisfy."""
    step, times, lost = evaluation.step, evaluation.times, dict(evaluation.waterfall.items())
    assert sum(lost.values()) == pytest.approx(step.time_s, rel=1e-9)
    assert min(lost.values()) >= 0
    assert 0 < step.mfu <= step.hfu <= 1
    if evaluation.resolved.layout.precision != "tf32":  # whose head is priced in bf16, see below
        assert lost["ideal"] == pytest.approx(step.mfu * step.time_s, rel=1e-9)
    assert step.time_s_p10 < step.time_s < step.time_s_p90
    assert np.isfinite(times.ends).all()
    assert (times.ends >= 0).all()
    assert (np.diff(times.total[:4]) <= 1e-12 * times.total[0]).all()
    layout = evaluation.resolved.layout
    if layout.pp == 1:
        assert lost["pipeline_messages"] == lost["pipeline_imbalance"] == 0
        assert lost["pipeline_bubble"] <= 1e-9 * step.time_s
    if layout.tp == 1:
        assert lost["tensor_parallel"] <= 1e-9 * step.time_s
    if layout.ep == layout.cp == layout.etp == 1:
        assert lost["expert_context_parallel"] == 0
    check_stages(evaluation)
    check_axes(evaluation)


def check_stages(evaluation: Evaluation) -> None:
    """A stage is never done before its own work is, and memory is a positive number."""
    times, plan = evaluation.times, evaluation.resolved.plan
    kinds = times.compute.shape[1]
    assert kinds == 4
    assert (np.diff(times.compute, axis=1) <= 1e-12).all()
    assert times.total[0] >= (times.compute[:, 0] + times.optimizer.min()).max() * (1 - 1e-9)
    for stage in evaluation.memory.stages:
        assert all(np.isfinite(size) and size >= 0 for size in stage.components.values())
        assert stage.peak_bytes > 0
    assert len(evaluation.memory.stages) == plan.mesh.pp


def transfers(plan):
    """Transfers inside the blocks of a plan, one of each kind of block and pass."""
    names = {name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)}
    ops = [op for name in sorted(names) for each in (False, True) for op in block_ops(plan, name, each)]
    return [op for op in ops if isinstance(op.operator, Transfer)]


def check_axes(evaluation: Evaluation) -> None:
    """An axis of one rank carries nothing; every transfer names an axis that has ranks, and has a size."""
    resolved = evaluation.resolved
    moved = [op.operator for op in transfers(resolved.plan)]
    assert all(float(move.bytes) > 0 and resolved.machine.groups[move.group].ranks > 1 for move in moved)
    for axis in ("tp", "cp", "ep", "etp"):
        if getattr(resolved.layout, axis) == 1:
            assert not [move for move in moved if move.group == axis]
    data = resolved.plan.data
    if data.group.ranks == data.expert_group.ranks == 1:
        assert not resolved.plan.data.units or not evaluation.times.program.shape.wires
        assert not evaluation.times.reduce_s.any()
        assert not evaluation.times.gather_s.any()


@settings(SAME, max_examples=300)
@given(st.data())
def test_every_layout(assess, scenarios, data):
    check(assess(data.draw(scenarios)))


@pytest.mark.slow
@settings(SAME, max_examples=2000, derandomize=False)
@given(st.data())
def test_every_layout_at_length(assess, scenarios, data):
    check(assess(data.draw(scenarios)))


@settings(SAME, max_examples=25)
@given(st.data())
def test_the_same_input_gives_the_same_bits(assess, scenarios, data):
    scenario = data.draw(scenarios)
    one, other = assess(scenario), assess(scenario)
    assert np.array_equal(one.times.ends, other.times.ends)
    assert one.step == other.step
    assert one.waterfall == other.waterfall
    assert [stage.components for stage in one.memory.stages] == [stage.components for stage in other.memory.stages]
