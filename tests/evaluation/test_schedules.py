"""What a schedule does to a whole job: bubbles, memory, and the parts of a backward."""

import numpy as np
import pytest

from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT


@pytest.fixture(scope="module")
def jobs(run):
    """The same job under several schedules: 4 stages, 16 micro-batches."""

    def job(schedule, **more):
        plan = {"tp": 2, "pp": 4, "schedule": schedule, **more}
        return run({"training": {"parallelism": plan, "global_batch": 128}})

    return {name: job(name) for name in ("gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe")}


def test_zero_bubble_is_faster_than_1f1b_and_zb_h2_fastest(jobs):
    step = {name: one.step.time_s for name, one in jobs.items()}
    assert step["zb-h2"] < step["zb-h1"] < step["1f1b"]
    assert step["gpipe"] == pytest.approx(step["1f1b"], rel=0.05)


def test_the_bubble_shrinks_by_the_closed_form(jobs):
    """(tf + tb - tw) / (tf + tB) of it is left, by the times of a middle stage."""
    times = jobs["zb-h1"].times
    seconds = {
        kind: [float(one.duration[0]) for key, one in times.chunks.items() if key[0] == kind] for kind in range(4)
    }
    forward, backward, weights, inputs = (np.median(seconds[kind]) for kind in (FORWARD, BACKWARD, WEIGHT, INPUT))
    bubbles = [dict(jobs[name].waterfall.items())["pipeline_bubble"] for name in ("1f1b", "zb-h1")]
    assert bubbles[1] / bubbles[0] == pytest.approx((forward + inputs - weights) / (forward + backward), rel=0.03)


def test_memory_follows_what_is_in_flight(jobs):
    """ZB-H1 holds on every stage what 1F1B holds on the first, ZB-H2 nearly twice that, DualPipe both ends' layers."""
    peak = {name: float(one.memory.peak_bytes) for name, one in jobs.items()}
    assert peak["1f1b"] <= peak["zb-h1"] < peak["zb-h2"] < peak["gpipe"]
    weights = {
        name: max(float(stage.components["weights"]) for stage in one.memory.stages) for name, one in jobs.items()
    }
    assert weights["dualpipe"] == pytest.approx(2 * weights["1f1b"], rel=0.2)


def test_input_and_weight_gradients_are_the_backward(jobs):
    times = jobs["zb-h1"].times
    names = {name for kind, name in times.blocks if kind == BACKWARD}
    for name in names:
        whole, inputs, weights = (times.blocks[kind, name] for kind in (BACKWARD, INPUT, WEIGHT))
        np.testing.assert_allclose(inputs.device + weights.device, whole.device, rtol=1e-9)
        np.testing.assert_allclose(inputs.busy + weights.busy, whole.busy, rtol=1e-9, atol=1e-15)
    assert any(times.blocks[WEIGHT, name].device[0] > 0 for name in names)


def test_stages_may_hold_the_embedding_or_the_head_alone(run):
    """Named layers, embedding and head: the head alone makes a longer step."""
    plain = run({"training": {"parallelism": {"tp": 2, "pp": 4, "stages": [4, 4, 4, 4]}}})
    ends = [5, 5, 6, {"layers": 0, "head": True}]
    alone = run({"training": {"parallelism": {"tp": 2, "pp": 4, "stages": ends}}})
    assert alone.step.time_s > plain.step.time_s
    assert alone.resolved.plan.contents[3][0].layers == 0


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-h2", "dualpipe"])
def test_micro_batches_of_unequal_size(jobs, name):
    """Equal ones change nothing; one twice as long costs about its own time on one stage."""
    evaluation = jobs[name]
    plan, times = evaluation.resolved.plan, evaluation.times
    assert evaluation.step_s_of_sizes([1.0] * plan.micro_batches) == pytest.approx(times.total[0], rel=1e-12)
    longer = evaluation.step_s_of_sizes([2.0, *[1.0] * (plan.micro_batches - 1)])
    assert longer >= times.total[0] + 0.9 * times.compute[:, 0].min() / plan.micro_batches


def test_one_stage_has_nothing_to_split(run):
    layouts = [{"tp": 2, "pp": 1, "schedule": schedule} for schedule in ("1f1b", "zb-h1", "zb-h2", "dualpipe")]
    assert len({run({"training": {"parallelism": layout}}).step.time_s for layout in layouts}) == 1
