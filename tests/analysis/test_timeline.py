"""Spans of a step against the solved program that they are read from, and against closed forms."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcluster.analysis.timeline import Span, busy_s, timeline
from simcluster.evaluation import Evaluation, evaluate
from simcluster.scenario import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROUNDING = 1e-9


def spans_of(evaluation: Evaluation) -> tuple[Span, ...]:
    return timeline(evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times)


def lanes(spans):
    """Spans by what can do one thing at a time; messages of the two directions pass each other."""
    found = defaultdict(list)
    for span in spans:
        found[span.stage, span.stream, span.kind if span.stream == "messages" else ""].append(span)
    return found


def check(evaluation: Evaluation) -> tuple[Span, ...]:
    spans = spans_of(evaluation)
    total = float(evaluation.times.ends[:, 0].max())
    assert max(span.end_s for span in spans) == pytest.approx(total, rel=ROUNDING)
    assert min(span.start_s for span in spans) >= -ROUNDING * total
    for lane in lanes(spans).values():
        for before, after in pairwise(lane):
            assert after.start_s >= before.end_s - ROUNDING * total
    layout = evaluation.resolved.layout
    done = [(one.part, one.micro_batch, one.kind) for one in spans if one.stream == "compute" and one.micro_batch >= 0]
    parts = layout.pp * layout.virtual_stages
    passes = 3 if evaluation.times.program.shape.split else 2
    assert len(done) == len(set(done)) == passes * layout.micro_batches * parts
    return spans


@pytest.mark.parametrize("name", ["llama-65b-512xa100", "gpt3-175b-64xa100", "llama-3-405b-16384xh100"])
def test_compute_and_wires_are_as_long_as_the_engine_says(name, catalogue):
    evaluation = evaluate(load(EXAMPLES / f"{name}.yaml"), catalogue)
    spans, times = check(evaluation), evaluation.times
    stages = evaluation.resolved.plan.mesh.pp
    np.testing.assert_allclose(busy_s(spans, stages), times.compute[:, 0] + times.optimizer, rtol=1e-9)
    exchanges = tuple(span for span in spans if span.kind in ("reduce", "gather"))
    np.testing.assert_allclose(busy_s(exchanges, stages, "data_parallel"), times.reduce_s + times.gather_s, rtol=1e-9)


@pytest.mark.parametrize("name", ["llama-3-8b-8xh100", "llama-2-13b-64xb200", "mixtral-8x7b-64xh100"])
def test_shards_and_experts(name, catalogue):
    check(evaluate(load(EXAMPLES / f"{name}.yaml"), catalogue))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pp=st.sampled_from([1, 2, 4]),
    virtual=st.sampled_from([1, 2]),
    batch=st.sampled_from([16, 32]),
    schedule=st.sampled_from(["1f1b", "gpipe", "zb-h1", "zb-h2"]),
    strategy=st.sampled_from(["none", "zero-1", "fsdp"]),
)
def test_nothing_overlaps_and_the_last_span_ends_the_step(run, pp, virtual, batch, schedule, strategy):
    virtual = 1 if pp == 1 or schedule != "1f1b" else virtual
    change = {
        "global_batch": batch,
        "parallelism": {"tp": 2, "pp": pp, "schedule": schedule, "virtual_stages": virtual},
        "sharding": {"strategy": strategy if pp == 1 and "zb" not in schedule else "zero-1"},
    }
    check(run({"training": change}))


def test_a_result_is_used_after_it_has_arrived(run):
    """And on the second stage, which is idle until then, as soon as it has."""
    spans = spans_of(run({"training": {"parallelism": {"tp": 2, "pp": 4}}}))
    starts = {(one.part, one.micro_batch, one.kind): one.start_s for one in spans if one.stream == "compute"}
    messages = [one for one in spans if one.stream == "messages" and one.kind in ("forward", "backward")]
    assert messages
    for one in messages:
        step = 1 if one.kind == "forward" else -1
        assert starts[one.part + step, one.micro_batch, one.kind] >= one.end_s - 1e-9
    first = {one.part: one for one in messages if one.micro_batch == 0 and one.kind == "forward"}
    assert starts[2, 0, "forward"] == pytest.approx(first[1].end_s, rel=1e-9)


def test_a_bucket_starts_once_its_gradients_are_there(run):
    """Without overlap: after the stage's last backward; with it: before that one has ended."""
    change = {"sharding": {"strategy": "none"}, "parallelism": {"tp": 1, "pp": 1}}
    for overlapped in (False, True):
        software = {"overrides": {"overlap_grad_reduce": overlapped}}
        spans = spans_of(run({"training": {**change, "software": software}}))
        last = max(one.end_s for one in spans if one.kind == "backward" and one.stream == "compute")
        first = min(one.start_s for one in spans if one.kind == "reduce")
        assert (first < last - 1e-6) is overlapped


def test_a_stage_fills_after_the_stages_before_it(run):
    """Fill of 1F1B: the first forward of stage s cannot start before s forwards have ended."""
    spans = spans_of(run({"training": {"parallelism": {"tp": 2, "pp": 4}}}))
    first = [one for one in spans if one.kind == "forward" and one.micro_batch == 0 and one.stream == "compute"]
    waited = 0.0
    for one in sorted(first, key=lambda span: span.stage):
        assert one.start_s >= waited - 1e-12
        waited += one.duration_s
