"""Every schedule from the scenario to the answer."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.step import STEP_COLUMNS, sized_step_s
from simcluster.evaluation import Evaluation
from simcluster.memory.inflight import chunk_sets
from simcluster.parallel.schedules import zb_h1
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, WEIGHT

LAYOUTS = {
    "gpipe": {"schedule": "gpipe"},
    "1f1b": {},
    "interleaved": {"virtual_stages": 2},
    "breadth-first": {"virtual_stages": 2, "order": "breadth-first"},
    "zb-h1": {"schedule": "zb-h1"},
    "zb-h2": {"schedule": "zb-h2"},
    "dualpipe": {"schedule": "dualpipe"},
}


@pytest.fixture(scope="module")
def found(run):
    """Evaluations by name: 16 layers on four stages, two replicas of 32 micro-batches."""
    return {name: run({"training": {"parallelism": {"tp": 2, "pp": 4, **more}}}) for name, more in LAYOUTS.items()}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_waterfall_sums_to_the_step(found, name):
    evaluation = found[name]
    assert evaluation.waterfall.total_s == pytest.approx(evaluation.step.time_s, rel=1e-9)
    assert min(evaluation.waterfall.seconds) >= 0
    assert evaluation.step.time_s == pytest.approx(float(evaluation.times.total[0]), rel=1e-12)


@pytest.mark.parametrize("name", LAYOUTS)
def test_idealisations_never_cost_but_for_equal_stages(found, name):
    assert (np.diff(found[name].times.total[: STEP_COLUMNS.index("balanced")]) <= 1e-12).all()


def test_split_backwards_idle_less(found):
    bubble = {name: dict(one.waterfall.items())["pipeline_bubble"] for name, one in found.items()}
    assert bubble["zb-h2"] < bubble["zb-h1"] < bubble["1f1b"]
    assert bubble["interleaved"] == pytest.approx(bubble["1f1b"] / 2, rel=0.02)
    assert bubble["breadth-first"] == pytest.approx(bubble["interleaved"], rel=1e-6)


def test_zb_h1_takes_its_closed_form(found):
    """With equal stages and free messages, where weight gradients take no longer than the other parts."""
    times, m = found["zb-h1"].times, found["zb-h1"].resolved.layout.micro_batches
    rows = times.durations[:, STEP_COLUMNS.index("balanced")]
    forward, whole, weights = (rows[times.program.chunk_row(kind, 0, 1)] for kind in (FORWARD, BACKWARD, WEIGHT))
    assert weights <= min(forward, whole - weights)
    expected = m * (forward + whole) + zb_h1.bubble_s(4, forward, whole - weights, weights) + times.optimizer.max()
    assert times.total[STEP_COLUMNS.index("balanced")] == pytest.approx(expected, rel=1e-9)


def test_two_directions_hold_the_parameters_twice(found):
    """And sum gradients over twice as many devices: each stage is on two of a pipeline."""
    plain, both = (found[name] for name in ("1f1b", "dualpipe"))
    weights = [sum(stage.components["weights"] for stage in one.memory.stages) for one in (plain, both)]
    assert weights[1] == pytest.approx(2 * weights[0], rel=1e-9)
    assert both.resolved.plan.data.group.ranks == 2 * plain.resolved.plan.data.group.ranks


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-h2"])
def test_activations_are_those_in_flight(found, name):
    """Of stages without embedding and head: in proportion to the sets in flight."""
    stages = found[name].memory.stages
    held = [
        sum(size for part, size in stages[stage].components.items() if part.startswith("activations"))
        for stage in (1, 2)
    ]
    sets = [sum(chunk_sets(name, stage, 4, 32)) for stage in (1, 2)]
    assert held[0] / held[1] == pytest.approx(sets[0] / sets[1], rel=1e-9)


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2", "dualpipe", "breadth-first"])
def test_both_engines(name, found):
    """Exchanges that meet on a link may come later, nothing earlier."""
    planned = found[name]
    simulated = Evaluation(planned.resolved, "des")
    assert planned.step.time_s * (1 - 1e-12) <= simulated.step.time_s <= planned.step.time_s * 1.05
    assert simulated.waterfall.total_s == pytest.approx(simulated.step.time_s, rel=1e-9)


@pytest.mark.parametrize("name", ["1f1b", "zb-h1", "zb-h2", "dualpipe"])
def test_micro_batches_of_unequal_size(found, name):
    """Equal ones change nothing; a longer one costs at least its own time on one stage."""
    times, m = found[name].times, found[name].resolved.layout.micro_batches
    assert sized_step_s(times, [1.0] * m) == pytest.approx(times.total[0], rel=1e-12)
    longer = sized_step_s(times, [2.0, *[1.0] * (m - 1)])
    chunks = times.compute[:, 0].min() / m
    assert longer >= times.total[0] + 0.9 * chunks


def test_one_stage_has_nothing_to_split(run):
    layouts = [{"tp": 2, "pp": 1, "schedule": schedule} for schedule in ("1f1b", "zb-h1", "zb-h2", "dualpipe")]
    steps = {run({"training": {"parallelism": layout}}).step.time_s for layout in layouts}
    assert len(steps) == 1
