"""Frames say what the evaluation says, in SI units."""

from __future__ import annotations

import pytest

from simcluster.analysis.waterfall import CAUSES
from simcluster.reports import frames


def test_waterfall_sums_to_the_step(run):
    frame = frames.waterfall(run())
    assert tuple(frame.index) == CAUSES[:0:-1]  # nothing is offloaded
    assert frame["time_s"].sum() == pytest.approx(run().step.time_s, rel=1e-9)
    assert frame["share"].sum() == pytest.approx(1.0, rel=1e-9)


def test_memory_rows_sum_to_the_peak_of_each_stage(run):
    evaluation = run({"training": {"parallelism": {"tp": 2, "pp": 4}}})
    frame = frames.memory(evaluation)
    assert list(frame.index) == [0, 1, 2, 3]
    for stage in evaluation.memory.stages:
        assert frame.loc[stage.stage].sum() == pytest.approx(float(stage.peak_bytes), rel=1e-9)
    largest = list(frame.max())
    assert largest == sorted(largest, reverse=True)
    assert min(largest) > 0


def test_assumptions_name_what_nobody_stated(run):
    evaluation = run()
    frame = frames.assumptions(evaluation)
    assert list(frame.index) == [one.path for one in evaluation.assumptions]
    assert "training.parallelism.tp" not in frame.index
    assert frame["why"].str.len().min() > 0


def test_timeline_ends_with_the_step(run):
    frame = frames.timeline(run())
    assert frame["end_s"].max() == pytest.approx(run().step.time_s, rel=1e-9)
    assert set(frame["stage"]) == {0, 1}
    assert (frame["end_s"] > frame["start_s"]).all()


def test_candidates_have_a_row_each(three):
    frame = frames.candidates(three)
    assert list(frame.index) == ["base", "slow", "big"]
    for one in three.candidates:
        assert frame.loc[one.name, "step.time_s"] == one.evaluation.step.time_s
        assert frame.loc[one.name, "delta.step_time_s.relative"] == one.delta["step_time_s"].relative
    assert not [key for key in frame.columns if key.startswith("scenario.")]


def test_causes_of_candidates_sum_to_their_steps(three):
    sums = frames.causes(three).sum(axis=1)
    for one in three.candidates:
        assert sums[one.name] == pytest.approx(one.evaluation.step.time_s, rel=1e-9)


def test_figures_and_parts_carry_units(run):
    evaluation = run()
    frame = frames.figures(evaluation)
    assert frame.loc["step.time_s"].tolist() == [evaluation.step.time_s, "s"]
    part = frames.part(evaluation, "step")
    assert part.loc["step.mfu", "value"] == evaluation.step.mfu
    assert set(part.index) < set(frame.index)


def test_an_unknown_part_lists_the_known(run):
    with pytest.raises(KeyError, match=r"there are .*memory"):
        frames.part(run(), "weather")
