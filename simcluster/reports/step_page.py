"""One simulated step as blocks: headline, waterfall, memory, what it rests on."""

from __future__ import annotations

from simcluster.analysis.waterfall import MEANING
from simcluster.evaluation import Evaluation
from simcluster.reports.basis import GRADES_MEAN, coverage, evidence_table, facts_table
from simcluster.reports.blocks import Block, Column, Table, Words
from simcluster.reports.figures import PERCENT, TIMES, digits, in_one_unit
from simcluster.reports.layout import Page
from simcluster.reports.outlook import outlook_table
from simcluster.reports.slow_nodes import slow_nodes_blocks, slow_sentence
from simcluster.units import format_bytes, format_count, format_percent, format_seconds

_BAR = 24
_NOTHING = 1e-9  # share of a step below which a difference of sums is rounding


def simulate_blocks(evaluation: Evaluation, page: Page) -> list[Block]:
    """A step: what it comes to first, what it rests on last."""
    legend = f"Engine: {evaluation.engine}. m measured, d datasheet, e estimate, {page.star} assumed. {GRADES_MEAN}"
    return [
        Words(headline(evaluation, page), "strong"),
        waterfall_table(evaluation, page),
        Words((evaluation.critical.sentence(), evaluation.critical.advice())),
        *(slow_nodes_blocks(evaluation.stragglers) if evaluation.stragglers else []),
        memory_table(evaluation),
        outlook_table(evaluation, page),
        facts_table(evaluation),
        evidence_table(evaluation),
        coverage(evaluation, page),
        Words((legend,)),
    ]


def headline(evaluation: Evaluation, page: Page) -> tuple[str, ...]:
    """One sentence about the job, one about speed, one about slow nodes if there are any, one about memory."""
    resolved, step = evaluation.resolved, evaluation.step
    cluster = resolved.cluster
    job = (
        f"{evaluation.name}: {resolved.arch.name} on {cluster.gpus} GPUs ({cluster.nodes} x {cluster.node.id}, "
        f"{cluster.fabric.id}), {layout_words(evaluation)}"
    )
    speed = (
        f"A step takes {format_seconds(step.time_s)} "
        f"(80% interval {format_seconds(step.time_s_p10)} {page.dash} {format_seconds(step.time_s_p90)}, "
        f"grade {evaluation.confidence.grade}): "
        f"{format_count(step.tokens_per_s)} tokens/s, {digits(step.tokens_per_s_per_gpu)} a GPU, "
        f"{digits(step.model_tflops_per_gpu)} TFLOP/s a GPU, MFU {format_percent(step.mfu)}."
    )
    slow = [slow_sentence(evaluation.stragglers)] if evaluation.stragglers else []
    return job, speed, *slow, memory_sentence(evaluation)


def layout_words(evaluation: Evaluation) -> str:
    """Degrees of parallelism and batch; degrees of one go without saying, but for tp, pp and dp."""
    layout = evaluation.resolved.layout
    degrees = [f"tp {layout.tp}", f"pp {layout.pp}", f"dp {layout.dp}"]
    degrees += [f"cp {layout.cp}"] if layout.cp > 1 else []
    degrees += [f"ep {layout.ep}"] if layout.ep > 1 else []
    return f"{' '.join(degrees)}, {layout.micro_batches} micro-batches of {layout.micro_batch}"


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


def waterfall_table(evaluation: Evaluation, page: Page) -> Table:
    """Where the step goes, ideal time first."""
    total = evaluation.step.time_s
    causes = [(cause, clear(seconds, total)) for cause, seconds in evaluation.waterfall.items()]
    times = [seconds for _, seconds in causes]
    unit, cells = in_one_unit([*times, total], TIMES)
    _, shares = in_one_unit([seconds / total for seconds in [*times, total]], PERCENT)
    rows = [
        (cause, cell, share, page.bar * round(_BAR * seconds / total), MEANING[cause])
        for (cause, seconds), cell, share in zip(causes, cells, shares)
    ]
    rows.append(("step", cells[-1], shares[-1], "", ""))
    columns = (
        Column("where the step goes"),
        Column(unit, "point"),
        Column("%", "point"),
        Column("", shown="roomy"),
        Column("what it is"),
    )
    return Table(columns, tuple(rows))


def memory_table(evaluation: Evaluation) -> Table:
    """Peak of the fullest stage by component, the largest first."""
    report = evaluation.memory
    stage = max(report.stages, key=lambda one: float(one.peak_bytes))
    parts = sorted(((float(size), name) for name, size in stage.components.items() if size), reverse=True)
    rows = [(name, f"{size / 2**30:.2f}") for size, name in parts]
    rows += [(f"total ({kind})", f"{float(size) / 2**30:.2f}") for kind, size in report.kinds.items()]
    return Table((Column(f"memory, stage {stage.stage}"), Column("GiB", "point")), tuple(rows))


def clear(seconds: float, total_s: float) -> float:
    """Seconds without what only rounding leaves of nothing.

    >>> clear(1e-12, 1.0), clear(0.1, 1.0)
    (0.0, 0.1)
    """
    return seconds if seconds > _NOTHING * total_s else 0.0
