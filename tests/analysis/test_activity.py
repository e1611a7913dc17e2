"""Courses over a step: areas and peaks against the figures of the step."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.activity import (
    activations_held,
    course,
    exchanges_in_flight,
    mean,
    memory_course,
    messages_in_flight,
    power_courses,
)
from simcluster.analysis.timeline import Span, busy_s, timeline
from simcluster.program.plan import message_bytes, stage_parameters

PIPELINE = {"model": {"layers": 8}, "training": {"parallelism": {"tp": 2, "pp": 4}, "global_batch": 32}}


@pytest.fixture(scope="module")
def step(run):
    evaluation = run(PIPELINE)
    plan = evaluation.resolved.plan
    return evaluation, plan, timeline(plan, evaluation.resolved.machine, evaluation.times)


intervals = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(1, 9)).map(lambda x: (min(x[:2]), max(x[:2]), x[2])),
    max_size=12,
)


@given(intervals)
def test_the_area_of_a_course_is_that_of_its_intervals(found):
    assert mean(course(found), 50.0) == pytest.approx(sum((end - start) * size for start, end, size in found) / 50)
    assert course(found)[-1][1] == 0


def test_messages(step):
    evaluation, plan, spans = step
    for stage in range(4):
        own = [one for one in spans if one.stage == stage]
        sent = messages_in_flight(plan, own)
        busy = float(busy_s(tuple(own), 4, "messages")[stage])
        assert busy > 0
        assert mean(sent, evaluation.step.time_s) * evaluation.step.time_s == pytest.approx(
            busy * message_bytes(plan), rel=1e-9
        )


def test_gradients_and_parameters(step):
    """Every parameter of the stage goes out once as a gradient and comes back once; here in one bucket each."""
    _, plan, spans = step
    own = [one for one in spans if one.stage == 1]
    found = [value for _, value in exchanges_in_flight(plan, own)]
    sent = sum(max(0.0, after - before) for before, after in pairwise([0.0, *found]))
    parameters = stage_parameters(plan, plan.contents[1])
    assert sent == pytest.approx(parameters * (plan.data.gradient_bytes + plan.data.parameter_bytes), rel=1e-9)


def test_memory_peaks_where_the_report_says_and_ends_without_activations(step):
    evaluation, plan, spans = step
    for stage, memory in enumerate(evaluation.memory.stages):
        own = [one for one in spans if one.stage == stage]
        parts = dict(memory.components)
        found = memory_course(plan, own, parts)
        assert max(value for _, value in found) == pytest.approx(sum(parts.values()))
        kept = sum(size for name, size in parts.items() if not name.startswith("activations_"))
        assert found[0][1] == pytest.approx(kept) or stage == 0
        assert found[-1][1] == pytest.approx(kept)


def test_activations_of_1f1b(step):
    """Stage s of p keeps p - s micro-batches; the last one alternates between one and none."""
    _, plan, spans = step
    for stage in range(4):
        shares = {round(value * (4 - stage), 9) for _, value in activations_held(plan, [
            one for one in spans if one.stage == stage])}  # fmt: skip
        assert shares == set(range(5 - stage))


def test_power_has_the_mean_of_the_step(step):
    evaluation, _, spans = step
    watts = {"average_w": 310.0, "exposed_w": 170.0, "idle_w": 100.0}
    courses = power_courses(spans, 4, evaluation.step.time_s, **watts)
    assert sum(mean(one, evaluation.step.time_s) for one in courses) / 4 == pytest.approx(310.0, rel=1e-9)
    assert min(value for one in courses for _, value in one) == pytest.approx(100.0)


def test_power_while_only_exchanging():
    spans = [Span(0, "compute", "forward", 0, 0, 0.0, 1.0), Span(0, "data_parallel", "reduce", -1, 0, 0.5, 2.0)]
    (found,) = power_courses(spans, 1, 4.0, average_w=200.0, exposed_w=150.0, idle_w=100.0)
    assert found == ((0.0, 450.0), (1.0, 150.0), (2.0, 100.0))
