"""Pictures: what is drawn is what was computed; nothing is shown, no state is left behind."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from simcluster.reports import plots
from simcluster.reports.jupyter import png

PIPELINE = {"training": {"parallelism": {"tp": 2, "pp": 4}, "global_batch": 16}}


def bars(figure: Figure, axes: int = 0):
    return [patch for patch in figure.axes[axes].patches if patch.get_width() > 0]


def is_drawn(figure: Figure) -> bool:
    return png(figure).startswith(b"\x89PNG")


def test_waterfall_bars_follow_each_other_and_the_last_is_the_step(run):
    evaluation = run()
    figure = plots.waterfall(evaluation)
    *causes, step = bars(figure)
    for before, after in pairwise(causes):
        assert after.get_x() == pytest.approx(before.get_x() + before.get_width())
    assert causes[-1].get_x() + causes[-1].get_width() == pytest.approx(step.get_width(), rel=1e-6)
    unit = {"ms": 1e3, "s": 1.0}[figure.axes[0].get_xlabel().removeprefix("time, ")]
    assert step.get_width() == pytest.approx(evaluation.step.time_s * unit)
    assert is_drawn(figure)


def test_timeline_has_a_box_for_each_micro_batch(run):
    evaluation = run(PIPELINE)
    figure = plots.step_timeline(evaluation)
    axes = figure.axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == [f"stage {i}" for i in range(4)]
    boxes = sum(len(lane.get_paths()) for lane in axes.collections)
    assert boxes >= 4 * 2 * evaluation.resolved.layout.micro_batches
    numbers = {text.get_text() for text in axes.texts}
    assert numbers == {str(i) for i in range(evaluation.resolved.layout.micro_batches)}
    assert is_drawn(figure)


def test_part_of_a_timeline(run):
    evaluation = run(PIPELINE)
    whole, part = (plots.step_timeline(evaluation, 0.0, end) for end in (None, 0.2 * evaluation.step.time_s))
    counts = [sum(len(lane.get_paths()) for lane in one.axes[0].collections) for one in (whole, part)]
    assert 0 < counts[1] < counts[0] / 2


def test_comparison_bars_and_intervals(three):
    figure = plots.comparison(three)
    widths = [patch.get_width() for patch in bars(figure)]
    times = [one.evaluation.step.time_s for one in three.candidates]
    assert [width / widths[0] for width in widths] == pytest.approx([time / times[0] for time in times])
    points = [line.get_xdata() for line in figure.axes[1].lines if line.get_marker() == "o"]
    relative = [100 * one.delta["step_time_s"].relative for one in three.candidates]
    assert [float(point[0]) for point in points] == pytest.approx(relative)
    assert is_drawn(figure)


def test_stacks_end_at_the_totals(three, run):
    drawn = ends(plots.comparison_waterfalls(three))
    times = [one.evaluation.step.time_s for one in three.candidates]
    assert [end / drawn[0] for end in drawn] == pytest.approx([time / times[0] for time in times], rel=1e-6)
    evaluation = run(PIPELINE)
    peaks = [float(stage.peak_bytes) / 2**30 for stage in evaluation.memory.stages]
    assert ends(plots.memory(evaluation)) == pytest.approx(peaks, rel=1e-6)


def ends(figure: Figure) -> list[float]:
    """Where the stacked bar of each row ends."""
    found: dict[int, float] = {}
    for patch in bars(figure):
        row = round(patch.get_y() + patch.get_height() / 2)
        found[row] = max(found.get(row, 0.0), patch.get_x() + patch.get_width())
    return [found[row] for row in sorted(found)]


def test_no_display_and_no_pyplot_is_needed():
    code = "import sys; from simcluster.reports import plots; print('matplotlib.pyplot' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_commands_start_without_pandas_and_matplotlib():
    code = """
import sys
from simcluster.cli import main
try: main(["simulate", "--help"])
except SystemExit: pass
print(sorted({"pandas", "matplotlib"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
