"""Traces of a step: what is in them is what was simulated."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from simcluster.analysis.activity import mean
from simcluster.analysis.expanded import Expander
from simcluster.analysis.timeline import busy_s, timeline
from simcluster.evaluation import evaluate
from simcluster.formats.trace import trace_bytes, trace_events
from simcluster.reports.trace import MOST_EVENTS, step_trace
from simcluster.scenario import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHAPES = {
    "1f1b": {"parallelism": {"tp": 2, "pp": 4, "schedule": "1f1b"}},
    "gpipe": {"parallelism": {"tp": 2, "pp": 4, "schedule": "gpipe"}},
    "interleaved": {"parallelism": {"tp": 2, "pp": 4, "virtual_stages": 2}},
    "zb-h1": {"parallelism": {"tp": 2, "pp": 4, "schedule": "zb-h1"}},
    "zb-h2": {"parallelism": {"tp": 2, "pp": 4, "schedule": "zb-h2"}},
    "dualpipe": {"parallelism": {"tp": 2, "pp": 4, "schedule": "dualpipe"}},
    "breadth-first": {"parallelism": {"tp": 2, "pp": 4, "virtual_stages": 2, "order": "breadth-first"}},
    "no pipeline": {"parallelism": {"tp": 2, "pp": 1}},
    "shards": {"parallelism": {"tp": 2, "pp": 1}, "sharding": {"strategy": "fsdp"}},
}


@pytest.fixture(params=SHAPES.values(), ids=SHAPES)
def step(request, run):
    evaluation = run({"training": request.param})
    resolved = evaluation.resolved
    return evaluation, timeline(resolved.plan, resolved.machine, evaluation.times), step_trace(evaluation)


def of(trace, *categories):
    return [one for one in trace.slices if one.category in categories]


def test_chunks_are_those_of_the_step(step):
    evaluation, spans, trace = step
    pp = evaluation.resolved.plan.mesh.pp
    drawn = [0.0] * pp
    for one in trace.slices:
        thread = trace.threads[one.thread]
        if thread.name == "compute" and one.category in ("forward", "backward", "weight_gradient", "optimizer"):
            drawn[thread.process] += one.end_s - one.start_s
    assert drawn == pytest.approx(list(busy_s(spans, pp)), rel=1e-12)
    counts = Counter(one.kind for one in spans if one.stream != "messages")
    assert Counter(one.category for one in of(trace, *counts)) == counts
    assert max(one.end_s for one in trace.slices) == pytest.approx(evaluation.times.ends[:, 0].max(), rel=1e-9)


def test_kernels_are_those_of_one_stage(step):
    evaluation, spans, trace = step
    resolved = evaluation.resolved
    expander = Expander(resolved.plan, resolved.machine, evaluation.times)
    shown = {trace.threads[one.thread].process for one in of(trace, "kernel", "exchange", "block", "shard")}
    assert len(shown) == 1
    inside = [inner for one in spans if one.stage in shown for inner in expander.inside(one)]
    found = of(trace, "kernel", "exchange", "block", "shard")
    assert len(found) == len(inside)
    assert sum(one.end_s - one.start_s for one in found) == pytest.approx(sum(one.duration_s for one in inside))
    recomputed = sum(one.arguments.get("recompute", False) for one in found)
    assert recomputed == sum(one.recompute for one in inside)


def test_messages_are_at_both_ends_with_an_arrow(step):
    evaluation, spans, trace = step
    sent = [one for one in spans if one.stream == "messages" and one.micro_batch >= 0]
    assert bool(sent) is (evaluation.resolved.plan.mesh.pp > 1)
    threads = Counter(trace.threads[one.thread].name.split()[0] for one in of(trace, "message"))
    assert threads == ({"send": len(sent), "receive": len(sent)} if sent else {})
    assert len(trace.arrows) == len(sent)
    holders = defaultdict(list)
    for one in trace.slices:
        holders[one.thread].append(one)
    for arrow in trace.arrows:
        (source, _), (_, _), (target, _) = arrow.points
        assert trace.threads[source].process != trace.threads[target].process
        for thread, when in arrow.points:
            assert any(one.start_s - 1e-12 <= when < one.end_s for one in holders[thread])


def test_events_of_a_thread_nest_or_are_apart_and_flows_pair(step):
    _, _, trace = step
    events = trace_events(trace)
    lanes = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            start = int(event["ts"] * 1000)
            lanes[event["pid"], event["tid"]].append((start, start + int(event["dur"] * 1000)))
    for lane in lanes.values():
        around = []
        for start, end in sorted(lane, key=lambda one: (one[0], -one[1])):
            assert end > start
            while around and around[-1] <= start:
                around.pop()
            assert not around or end <= around[-1]
            around.append(end)
    phases = defaultdict(str)
    for event in events:
        if event.get("cat") == "flow":
            phases[event["id"]] += event["ph"]
    assert set(phases.values()) <= {"stf"}


def test_power_has_the_mean_of_the_step(step):
    evaluation, _, trace = step
    found = [one for one in trace.counters if one.name == "power of a GPU"]
    total = evaluation.step.time_s
    average = sum(mean(one.samples, total) for one in found) / len(found)
    assert average == pytest.approx(evaluation.power.gpu_average_w, rel=1e-6)
    assert max(value for one in found for _, value in one.samples) <= evaluation.means.power.gpu_limit_w * 1.05


def test_the_trace_says_what_it_stands_for(run):
    evaluation = run({"training": {"parallelism": {"tp": 2, "pp": 4}}})
    trace = step_trace(evaluation)
    assert [one.name for one in trace.processes] == [f"stage {i} of 4, stands for 4 GPUs" for i in range(4)]
    assert trace.about["left_out"][0] == "12 of 16 GPUs: each stage is shown once, 4 GPUs do the same"
    assert "insides of chunks of all stages but stage" in trace.about["left_out"][1]
    assert len(trace.about["left_out"]) == 2


@pytest.mark.parametrize("most", [14_000, 10_000, 3_000, 1_200, 300])
def test_fewer_events_and_what_is_left_out(run, most):
    evaluation = run({"training": {"parallelism": {"tp": 2, "pp": 4}, "global_batch": 128}})
    whole, part = step_trace(evaluation), step_trace(evaluation, most)
    names = 3 * len(part.processes) + 2 * len(part.threads)
    assert len(trace_events(part)) - names <= 1.02 * most < len(trace_events(whole))
    more = set(part.about["left_out"]) - set(whole.about["left_out"])
    categories = {"": ("forward",), "messages of ": ("message",), "insides of chunks of ": ("block",)}
    opened = {(one.thread, one.start_s): one.arguments["micro_batch"] for one in of(part, "forward", "backward")}
    for what, category in categories.items():
        found = of(part, *category)
        if category == ("block",):
            shown = {opened[one.thread, one.start_s] for one in found if (one.thread, one.start_s) in opened}
        else:
            shown = {one.arguments["micro_batch"] for one in found}
        assert shown == set(range(len(shown)))
        assert (f"{what}micro-batches {len(shown)} to 63" in more) is (len(shown) < 64)
    missing = {one.name for one in whole.counters} - {one.name for one in part.counters}
    assert most < 1_000 or {f"counter: {name}" for name in missing} <= more


def test_the_same_scenario_gives_the_same_bytes(run):
    first, second = (trace_bytes(step_trace(run({"training": SHAPES["1f1b"]})), True) for _ in range(2))
    assert first == second


def test_sixteen_thousand_gpus(catalogue):
    evaluation = evaluate(load(EXAMPLES / "llama-3-405b-16384xh100.yaml"), catalogue)
    trace = step_trace(evaluation)
    assert len(trace_events(trace)) <= 1.01 * MOST_EVENTS
    assert len(trace_bytes(trace, compressed=True)) <= 5e6
    assert trace.processes[3].name == "stage 3 of 16, stands for 1,024 GPUs"


def test_sixteen_thousand_gpus_with_many_micro_batches(catalogue):
    """Chunks of all stages and micro-batches are there, though not all messages and insides."""
    changes = ["training.global_batch=16384"]
    evaluation = evaluate(load(EXAMPLES / "llama-3-405b-16384xh100.yaml", sets=changes), catalogue)
    trace = step_trace(evaluation)
    assert (
        len(of(trace, "forward")) == len(of(trace, "backward")) == 128 * 16 * evaluation.resolved.layout.virtual_stages
    )
    assert len(trace_events(trace)) <= 1.01 * MOST_EVENTS
    assert len(of(trace, "kernel")) > 1000
    assert len(trace_bytes(trace, compressed=True)) <= 5e6


@pytest.mark.parametrize("name", ["mixtral-8x7b-64xh100", "llama-2-13b-64xb200", "gpt3-175b-64xa100"])
def test_experts_and_shards_are_read_back(name, catalogue):
    trace = step_trace(evaluate(load(EXAMPLES / f"{name}.yaml"), catalogue))
    events = json.loads(trace_bytes(trace))["traceEvents"]
    assert sum(one["ph"] == "X" for one in events) == len(trace.slices)
