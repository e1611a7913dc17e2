"""Pictures of evaluations and comparisons: each function returns a matplotlib Figure and shows nothing.

Figures are made without pyplot, so they need no display, leave no state behind, and are closed by forgetting them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import colormaps, rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from simcluster.analysis.timeline import Span, timeline
from simcluster.evaluation import Evaluation
from simcluster.reports import frames
from simcluster.reports.figures import TIMES, unit_of
from simcluster.reports.step_page import clear
from simcluster.study import Comparison
from simcluster.units import format_percent, format_seconds

# Colours that readers without red or green tell apart (Okabe and Ito, 2008).
BLACK, ORANGE, SKY, GREEN, BLUE, RED, PINK = "#000000", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#D55E00", "#CC79A7"
GREY = "#999999"
_KINDS = {
    "forward": BLUE,
    "backward": GREEN,
    "weight_gradient": SKY,
    "optimizer": BLACK,
    "reduce": RED,
    "gather": ORANGE,
    "norm": PINK,
    "tied_embedding": PINK,
    "copy_gradients": RED,
    "update": GREY,
    "copy_parameters": ORANGE,
    "read_states": SKY,
    "write_states": BLUE,
}
_LANES = {
    "compute": (0.0, 0.6),
    "beside": (0.3, 0.3),  # over the lower half of the forward that it overlaps
    "data_parallel": (0.62, 0.14),
    "replicas": (0.77, 0.1),
    "messages": (0.88, 0.1),
    "to_host": (0.77, 0.05),
    "to_gpu": (0.82, 0.05),
    "host": (0.3, 0.3),  # mostly while the GPU waits
    "drives": (0.0, 0.25),
}
_COMPUTING = ("compute", "beside")
_LEGEND = 6  # words beside each other
_MOST_LABELS = 600  # micro-batch numbers; more of them cannot be read
_WIDTH = 9.0  # inches


def waterfall(evaluation: Evaluation) -> Figure:
    """Where a step goes: bars from ideal time up to the step time, each beginning where the one before ends."""
    total = evaluation.step.time_s
    rows = [(cause, seconds) for cause, seconds in evaluation.waterfall.items() if clear(seconds, total)]
    scale, unit = _scale([total])
    figure, axes = _figure(0.6 + 0.32 * (len(rows) + 1))
    start = 0.0
    for row, (cause, seconds) in enumerate(rows):
        colour = GREEN if cause == "ideal" else ORANGE
        axes.barh(row, seconds * scale, left=start * scale, color=colour)
        _label(axes, (start + seconds) * scale, row, format_percent(seconds / total))
        start += seconds
    axes.barh(len(rows), total * scale, color=BLUE)
    _label(axes, total * scale, len(rows), format_seconds(total))
    _rows(axes, [*(cause for cause, _ in rows), "step"])
    axes.set_xlim(right=1.14 * total * scale)
    axes.set_xlabel(f"time, {unit}")
    axes.set_title(f"{evaluation.name}: MFU {format_percent(evaluation.step.mfu)}")
    return figure


def step_timeline(evaluation: Evaluation, start_s: float = 0.0, end_s: float | None = None) -> Figure:
    """The pipeline as papers draw it: a row for each stage, a box with its number for each micro-batch.

    The tall boxes are compute; below them gradients and parameters on the wire, then messages to the next stage.

    start_s, end_s   part of the step that is shown, in seconds from its start; None is its end
    """
    resolved = evaluation.resolved
    spans = timeline(resolved.plan, resolved.machine, evaluation.times)
    end = max(span.end_s for span in spans) if end_s is None else end_s
    shown = [span for span in spans if span.end_s > start_s and span.start_s < end]
    stages = resolved.plan.mesh.pp
    scale, unit = _scale([end])
    figure, axes = _figure(1.2 + 0.55 * stages)
    lanes: dict[tuple[int, str, str], list[Span]] = {}
    for span in shown:
        lanes.setdefault((span.stage, span.stream, span.kind), []).append(span)
    for lane in lanes.values():
        _boxes(axes, lane, scale)
    _numbers(
        axes, [span for span in shown if span.stream in _COMPUTING and span.micro_batch >= 0], scale, end - start_s
    )
    _rows(axes, [f"stage {stage}" for stage in range(stages)], offset=0.45)
    axes.set_xlim(start_s * scale, end * scale)
    axes.set_xlabel(f"time, {unit}")
    axes.set_title(f"{evaluation.name}: one step, {resolved.layout.micro_batches} micro-batches")
    own = {span.kind for span in shown if span.stream != "messages" or span.micro_batch < 0}
    kinds = [kind for kind in _KINDS if kind in own]
    handles = [Patch(color=_KINDS[kind], label=kind.replace("_", " ")) for kind in kinds]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), _LEGEND), frameon=False)
    return figure


def save(figure: Figure, file: Path) -> None:
    """Writes a figure in the form of the suffix; equal figures give equal bytes. Raises OSError."""
    undated: dict[str, Any] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}
    with rc_context({"svg.hashsalt": "simcluster", "svg.fonttype": "none"}):
        figure.savefig(file, dpi=150, metadata=undated.get(file.suffix[1:]))


def comparison(comparison: Comparison) -> Figure:
    """Step times with their 80 % intervals, the baseline on top, and beside them the change with its own interval."""
    candidates = comparison.candidates
    scale, unit = _scale([one.evaluation.step.time_s_p90 for one in candidates])
    figure = _blank(1.0 + 0.45 * len(candidates))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    base = comparison.baseline.evaluation.step.time_s
    for row, one in enumerate(candidates):
        step, delta = one.evaluation.step, one.delta["step_time_s"]
        low, high = step.time_s - step.time_s_p10, step.time_s_p90 - step.time_s
        colour = SKY if one.evaluation.memory.fits else "lightgrey"
        left.barh(row, step.time_s * scale, xerr=[[low * scale], [high * scale]], color=colour, capsize=3)
        right.plot([100 * delta.low / base, 100 * delta.high / base], [row, row], color=BLACK, linewidth=1.5)
        right.plot(100 * delta.relative, row, "o", color=BLUE if delta.value <= 0 else RED)
    _rows(left, [one.name if one.evaluation.memory.fits else f"{one.name} (does not fit)" for one in candidates])
    right.axvline(0.0, color="grey", linewidth=0.8)
    left.set_xlabel(f"step time, {unit}, 80% interval")
    right.set_xlabel("change against the first, %")
    return figure


def comparison_waterfalls(comparison: Comparison) -> Figure:
    """Where a step of each candidate goes: one stacked bar each, ideal time first."""
    frame = frames.causes(comparison)
    longest = float(frame.sum(axis=1).max())
    scale, unit = _scale([longest])
    figure, axes = _figure(1.6 + 0.45 * len(frame))
    shown = [cause for cause in frame.columns if clear(float(frame[cause].max()), longest)]
    _stack(axes, [str(name) for name in frame.index], {cause: list(frame[cause] * scale) for cause in shown})
    axes.set_xlabel(f"step time, {unit}")
    _legend(figure, axes)
    return figure


def memory(evaluation: Evaluation) -> Figure:
    """Memory of a GPU at the peak by stage and component, against what the GPU has."""
    frame = frames.memory(evaluation)
    capacity = float(evaluation.memory.capacity_bytes)
    size, unit = 2.0**-30, "GiB"
    figure, axes = _figure(1.6 + 0.4 * len(frame))
    names = [f"stage {stage}" for stage in frame.index]
    _stack(axes, names, {str(name): list(frame[name] * size) for name in frame.columns})
    axes.axvline(capacity * size, color=RED, linestyle="--", label="capacity")
    axes.set_xlabel(f"memory, {unit}")
    axes.set_title(f"{evaluation.name}: {'fits' if evaluation.memory.fits else 'does not fit'}")
    _legend(figure, axes)
    return figure


def _blank(height: float) -> Figure:
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _figure(height: float) -> tuple[Figure, Axes]:
    figure = _blank(height)
    return figure, figure.add_subplot()


def _scale(seconds: Sequence[float]) -> tuple[float, str]:
    """Factor and unit in which times are easy to read."""
    size, unit = unit_of(seconds, TIMES)
    return 1.0 / size, unit


def _rows(axes: Axes, labels: Sequence[str], offset: float = 0.0) -> None:
    """Names of rows, the first on top."""
    axes.set_yticks([row + offset for row in range(len(labels))], labels)
    axes.set_ylim(len(labels) - 0.5 + offset, -0.6 + offset)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _label(axes: Axes, x: float, row: float, text: str) -> None:
    axes.annotate(text, (x, row), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8)


def _boxes(axes: Axes, spans: Sequence[Span], scale: float) -> None:
    """Spans of one stage, stream and kind, as boxes in the lane of the stream."""
    low, height = _LANES[spans[0].stream]
    colour = _KINDS[spans[0].kind]
    axes.broken_barh(
        [(span.start_s * scale, span.duration_s * scale) for span in spans],
        (spans[0].stage + low, height),
        facecolors=colour,
        edgecolors="white" if spans[0].stream in _COMPUTING else colour,
        linewidth=0.3,
        zorder=1.1 if spans[0].stream == "beside" else 1.0,
    )


def _numbers(axes: Axes, spans: Sequence[Span], scale: float, shown_s: float) -> None:
    """Numbers of micro-batches, where they can be read."""
    if len(spans) > _MOST_LABELS:
        return
    for span in spans:
        text, (low, height) = str(span.micro_batch), _LANES[span.stream]
        if span.duration_s > 0.008 * len(text) * shown_s:
            middle = (span.start_s + span.end_s) / 2 * scale
            axes.text(
                middle,
                span.stage + low + 0.02 + height / 2,
                text,
                ha="center",
                va="center",
                color="white",
                fontsize=7,
                clip_on=True,
            )


def _stack(axes: Axes, names: Sequence[str], parts: dict[str, list[float]]) -> None:
    """Stacked horizontal bars: a bar for each name, a colour for each part."""
    colours: Any = colormaps["tab20"].colors  # type: ignore[attr-defined]
    left = [0.0] * len(names)
    for index, (part, sizes) in enumerate(parts.items()):
        axes.barh(range(len(names)), sizes, left=left, color=colours[index % len(colours)], label=part)
        left = [start + size for start, size in zip(left, sizes)]
    _rows(axes, names)


def _legend(figure: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    words = [label.replace("_", " ") for label in labels]
    figure.legend(handles, words, loc="outside lower center", ncols=4, frameon=False, fontsize=8)
