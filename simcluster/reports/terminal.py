"""Evaluations and comparisons for a terminal, in words and aligned columns; plain text, ASCII if it must be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simcluster.analysis.waterfall import MEANING
from simcluster.evaluation import Evaluation
from simcluster.reports.layout import Page, aligned
from simcluster.study import Candidate, Comparison
from simcluster.units import format_bytes, format_count, format_percent, format_seconds

_BAR = 24
_NOTHING = 1e-9  # share of a step below which a difference of sums is rounding


def simulate_page(evaluation: Evaluation, page: Page) -> str:
    """A step: headline, waterfall, memory, what it rests on."""
    return "\n\n".join(
        [
            headline(evaluation, page),
            waterfall_table(evaluation, page),
            memory_table(evaluation),
            coverage(evaluation, page),
        ]
    )


def headline(evaluation: Evaluation, page: Page) -> str:
    """One sentence about the job, one about speed, one about memory."""
    resolved, step = evaluation.resolved, evaluation.step
    layout, cluster = resolved.layout, resolved.cluster
    job = (
        f"{evaluation.name}: {resolved.arch.name} on {cluster.gpus} GPUs ({cluster.nodes} x {cluster.node.id}, "
        f"{cluster.fabric.id}), tp {layout.tp} pp {layout.pp} dp {layout.dp}, "
        f"{layout.micro_batches} micro-batches of {layout.micro_batch}"
    )
    speed = (
        f"A step takes {format_seconds(step.time_s)} "
        f"(80% interval {format_seconds(step.time_s_p10)} {page.dash} {format_seconds(step.time_s_p90)}, "
        f"grade {evaluation.confidence.grade}): "
        f"{format_count(step.tokens_per_s)} tokens/s, {_whole(step.tokens_per_s_per_gpu)} a GPU, "
        f"{_whole(step.model_tflops_per_gpu)} TFLOP/s a GPU, MFU {format_percent(step.mfu)}."
    )
    return "\n".join([job, speed, memory_sentence(evaluation)])


def memory_sentence(evaluation: Evaluation) -> str:
    """Whether it fits, and by how much."""
    report = evaluation.memory
    peak, capacity = float(report.peak_bytes), float(report.capacity_bytes)
    worst = max(report.stages, key=lambda stage: float(stage.peak_bytes)).stage
    sizes = f"{format_bytes(peak, binary=True)} of {format_bytes(capacity, binary=True)} on stage {worst}"
    if report.fits:
        return f"It fits in memory: {sizes}."
    if peak <= capacity:
        return f"It fits too tightly to count on: {sizes}."
    return f"It does not fit in memory: {sizes}, {format_bytes(peak - capacity, binary=True)} too much."


def waterfall_table(evaluation: Evaluation, page: Page) -> str:
    """Where the step goes, ideal time first."""
    total = evaluation.step.time_s
    rows = [("component", "time", "share", "", "what it is")]
    for cause, seconds in evaluation.waterfall.items():
        bar = page.bar * round(_BAR * seconds / total)
        seconds = _clear(seconds, total)
        rows.append((cause, format_seconds(seconds), format_percent(seconds / total), bar, MEANING[cause]))
    rows.append(("step", format_seconds(total), "100%", "", ""))
    return aligned(rows, right=(1, 2))


def memory_table(evaluation: Evaluation) -> str:
    """Peak of the fullest stage by component."""
    report = evaluation.memory
    stage = max(report.stages, key=lambda one: float(one.peak_bytes))
    parts = sorted(((float(size), name) for name, size in stage.components.items() if size), reverse=True)
    rows = [(f"memory, stage {stage.stage}", "GiB")]
    rows += [(name, f"{size / 2**30:.2f}") for size, name in parts]
    rows += [(f"total ({kind})", f"{float(size) / 2**30:.2f}") for kind, size in report.kinds.items()]
    return aligned(rows, right=(1,))


def coverage(evaluation: Evaluation, page: Page) -> str:
    """How much was stated, how much assumed, what is not modelled."""
    resolved = evaluation.resolved
    assumed = len(resolved.assumptions)
    stated = sum(
        1 for _, origin in resolved.values.values() if origin not in ("default",) and not origin.startswith("assumed")
    )
    lines = [f"{stated} inputs stated, {assumed} assumed (show --resolved lists them)"]
    notable = [one for one in resolved.assumptions if _is_notable(one.path)]
    lines += [f"  {page.star} {one.path} = {one.value}: {one.why}" for one in notable]
    if resolved.unmodelled:
        lines.append(f"stated without effect so far: {', '.join(resolved.unmodelled)}")
    return "\n".join(lines)


def _is_notable(path: str) -> bool:
    """What a software family decides is listed on demand; which family it is, at once."""
    return not path.startswith("training.software.") or path == "training.software.family"


def compare_page(comparison: Comparison, page: Page) -> str:
    """Verdict first, then the candidates side by side."""
    parts = [verdict_words(comparison), figures_table(comparison, page), causes_table(comparison, page)]
    parts += [f"note: {note}" for note in comparison.notes]
    parts.append(_legend(comparison, page))
    return "\n\n".join(parts)


def verdict_words(comparison: Comparison) -> str:
    """The decision in the first lines."""
    verdict = comparison.verdict
    lines = [verdict.sentence, f"Why: {verdict.why}."]
    lines += [f"It flips if {item}." for item in verdict.flips_if]
    lines += [f"To be sure, measure: {item}." for item in verdict.settle_with]
    lines.append(f"A better lever: {verdict.better_lever}.")
    return "\n".join(lines)


def figures_table(comparison: Comparison, page: Page) -> str:
    """Headline figures of every candidate; the first is the baseline."""
    header = ("", *(one.name for one in comparison.candidates))
    rows = [
        header,
        _row("GPUs", comparison, lambda one: str(one.evaluation.resolved.cluster.gpus)),
        _row("fabric", comparison, lambda one: _fabric(one)),
        _row("layout", comparison, lambda one: _layout(one)),
        _row("step time", comparison, lambda one: format_seconds(one.evaluation.step.time_s)),
        _row("80% interval", comparison, lambda one: _interval(one, page)),
        _row("against the first", comparison, lambda one: _against(one, page)),
        _row("tokens/s", comparison, lambda one: format_count(one.evaluation.step.tokens_per_s)),
        _row("tokens/s/GPU", comparison, lambda one: _whole(one.evaluation.step.tokens_per_s_per_gpu)),
        _row("MFU", comparison, lambda one: format_percent(one.evaluation.step.mfu)),
        _row("peak memory", comparison, lambda one: format_bytes(float(one.evaluation.memory.peak_bytes), binary=True)),
        _row("fits", comparison, lambda one: "yes" if one.evaluation.memory.fits else "NO"),
        _row("grade", comparison, lambda one: one.evaluation.confidence.grade),
    ]
    return aligned(rows, right=tuple(range(1, len(header))))


def causes_table(comparison: Comparison, page: Page) -> str:
    """The waterfalls side by side."""
    names = [cause for cause, _ in comparison.baseline.evaluation.waterfall.items()]
    columns = [dict(one.evaluation.waterfall.items()) for one in comparison.candidates]
    rows = [("where a step goes", *(one.name for one in comparison.candidates))]
    for cause in names:
        first = columns[0][cause]
        total = comparison.baseline.evaluation.step.time_s
        cells = [format_seconds(_clear(first, total))]
        cells += [
            f"{_mark(column[cause] - first, comparison, page)} {format_seconds(_clear(column[cause], total))}"
            for column in columns[1:]
        ]
        rows.append((cause, *cells))
    return aligned(rows, right=tuple(range(1, len(rows[0]))))


def _mark(change_s: float, comparison: Comparison, page: Page) -> str:
    """A sign for longer, shorter or the same (within a ten-thousandth of a step)."""
    if abs(change_s) < 1e-4 * comparison.baseline.evaluation.step.time_s:
        return page.same
    return "+" if change_s > 0 else "-"


def _clear(seconds: float, total_s: float) -> float:
    """Seconds without what only rounding leaves of nothing."""
    return seconds if seconds > _NOTHING * total_s else 0.0


def _whole(value: float) -> str:
    """A figure to the unit, or with three digits where that says too little.

    >>> _whole(1234.5), _whole(3.14159)
    ('1,234', '3.14')
    """
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _row(label: str, comparison: Comparison, cell: Callable[[Candidate], str]) -> tuple[str, ...]:
    return (label, *(cell(one) for one in comparison.candidates))


def _fabric(one: Candidate) -> str:
    network = one.evaluation.resolved.machine.network
    return f"{network.fabric} x{network.nics_per_node}" if network.protocol != "none" else "none"


def _layout(one: Candidate) -> str:
    layout = one.evaluation.resolved.layout
    virtual = f" v{layout.virtual_stages}" if layout.virtual_stages > 1 else ""
    return f"tp{layout.tp} pp{layout.pp}{virtual} dp{layout.dp} mb{layout.micro_batch}"


def _interval(one: Candidate, page: Page) -> str:
    step = one.evaluation.step
    return f"{format_seconds(step.time_s_p10)} {page.dash} {format_seconds(step.time_s_p90)}"


def _against(one: Candidate, page: Page) -> str:
    delta = one.delta["step_time_s"]
    if delta.value == 0:
        return page.same
    sign = "+" if delta.value > 0 else ""
    return f"{sign}{format_percent(delta.relative)}"


def _legend(comparison: Comparison, page: Page) -> str:
    assumed: Sequence[int] = [len(one.evaluation.resolved.assumptions) for one in comparison.candidates]
    counts = ", ".join(f"{one.name} {count}" for one, count in zip(comparison.candidates, assumed))
    return (
        f"+ longer, - shorter, {page.same} the same as the first. Grades: A measured on this hardware, B interpolated, "
        f"C extrapolated, D datasheet or prior.\nAssumed inputs: {counts} (show --resolved FILE lists them)."
    )
