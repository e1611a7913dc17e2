"""A comparison as blocks: verdict, results, inputs that differ, where the steps go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from simcluster.reports.basis import GRADES_MEAN, coverage_line, hardware_facts, is_assumed
from simcluster.reports.blocks import Block, Cell, Column, Points, Style, Table, Words, cell_text
from simcluster.reports.compare_rows import Row, result_rows
from simcluster.reports.figures import TIMES, change, in_one_unit
from simcluster.reports.layout import Page
from simcluster.reports.resolved import value_text
from simcluster.reports.step_page import clear
from simcluster.study import Candidate, Comparison

_SAME = 1e-4  # relative difference, or share of the baseline's step, below which two figures are called the same
_UNSTATED = ""
_LEANS_ON = (
    "training.parallelism",
    "training.sequence_length",
    "training.global_batch",
    "training.expert_imbalance",
    "use.hours",
    "use.horizon",
    "acquire.rent.usd_per_gpu_hour",
    "acquire.own.price_usd_per_node",
    "acquire.own.residual",
)
_SOFTWARE, _OVERRIDES = "training.software.", "training.software.overrides."


def compare_blocks(comparison: Comparison, page: Page) -> list[Block]:
    """Verdict first, then what differs: results, inputs, causes."""
    blocks: list[Block] = [
        verdict_words(comparison),
        results_table(comparison, page),
        inputs_block(comparison, page),
        causes_table(comparison, page),
    ]
    blocks += [Words((f"note: {note}",)) for note in comparison.notes]
    return [*blocks, _choices(comparison, page), _coverage(comparison, page), Words((_legend(page),))]


def verdict_words(comparison: Comparison) -> Words:
    """The decision in the first lines."""
    verdict = comparison.verdict
    lines = [verdict.sentence, f"Why: {verdict.why}."]
    lines += [f"It flips if {item}." for item in verdict.flips_if]
    lines += [f"To be sure, get: {item}." for item in verdict.settle_with]
    return Words((*lines, f"A better lever: {verdict.better_lever}."), "strong")


def inputs_block(comparison: Comparison, page: Page) -> Block:
    """Resolved values, by dotted path, in which candidates differ; hardware figures that follow from them."""
    settled = [_settled(one) for one in comparison.candidates]
    paths = list(dict.fromkeys(path for values in settled for path in sorted(values) if path != "name"))
    rows = []
    for path in paths:
        values = [one.get(path, (None, ""))[0] for one in settled]
        if any(value != values[0] for value in values[1:]):
            texts = [_input_text(path, *one.get(path, (None, "")), page) for one in settled]
            rows.append(Row(path, texts, _changes(values)))
    rows += _fact_rows(comparison)
    if not rows:
        return Words(("No input differs.",))
    return side_by_side("inputs that differ", rows, comparison, page, input_mark)


def _settled(one: Candidate) -> dict[str, tuple[Any, str]]:
    """Values by path; an override of the software goes by the name of the setting."""
    values = one.evaluation.resolved.values
    stated = {path: value for path, value in values.items() if path.startswith(_OVERRIDES)}
    rest = {path: value for path, value in values.items() if path not in stated}
    return {**rest, **{_SOFTWARE + path[len(_OVERRIDES) :]: value for path, value in stated.items()}}


def _input_text(path: str, value: Any, origin: str, page: Page) -> str:
    if value is None:
        return _UNSTATED
    text = value_text(value, path)
    return f"{text} {page.star}" if is_assumed(origin) else text


def _changes(values: Sequence[Any]) -> list[float | None]:
    """Relative change of every value against the first, None where that means nothing."""
    first = values[0]
    return [_relative(first, value) for value in values]


def _relative(first: Any, value: Any) -> float | None:
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (first, value))
    return value / first - 1 if numbers and first else None


def _fact_rows(comparison: Comparison) -> list[Row]:
    """Catalogue figures in which the candidates' hardware differs, with their marks."""
    facts = [{fact.label.partition(",")[0]: fact for fact in _facts(one)} for one in comparison.candidates]
    labels = dict.fromkeys(label for one in facts for label in one)
    rows = []
    for label in labels:
        texts = [one[label].marked if label in one else _UNSTATED for one in facts]
        if any(text != texts[0] for text in texts[1:]):
            rows.append(Row(label, texts, [None] * len(texts)))
    return rows


def _facts(one: Candidate) -> list[Any]:
    return list(hardware_facts(one.evaluation))


def input_mark(row: Row, index: int) -> str:
    """`~` changed, `+` only there, `-` only in the first, a blank where it is the same as the first.

    >>> row = Row("cluster.spares", ["1", "", "2", "1"], [])
    >>> [input_mark(row, index) for index in range(1, 4)]
    ['-', '~', ' ']
    """
    first, text = row.texts[0], row.texts[index]
    if text == first:
        return " "
    return "+" if first == _UNSTATED else "-" if text == _UNSTATED else "~"


def results_table(comparison: Comparison, page: Page) -> Table:
    """Headline figures; the first candidate is the baseline."""
    return side_by_side("results", result_rows(comparison, page), comparison, page, result_mark(page))


def result_mark(page: Page) -> Callable[[Row, int], str]:
    """Marks of figures: `+` more, `-` less, `~` other words, `=` the same or hardly different.

    >>> row = Row("step time, s", ["21.1", "21.1", "22"], [0.0, -5e-5, 0.04])
    >>> [result_mark(Page())(row, index) for index in range(3)]
    ['=', '=', '+']
    """

    def mark(row: Row, index: int) -> str:
        relative = row.changes[index]
        if relative is None:
            return " " if not row.compared else page.same if row.texts[index] == row.texts[0] else "~"
        return page.same if abs(relative) < _SAME else "+" if relative > 0 else "-"

    return mark


def causes_table(comparison: Comparison, page: Page) -> Table:
    """The waterfalls side by side; changes in percent of the first candidate's step."""
    total = comparison.baseline.evaluation.step.time_s
    falls = [dict(one.evaluation.waterfall.items()) for one in comparison.candidates]
    causes = max(falls, key=len)
    times = [[clear(fall.get(cause, 0.0), total) for cause in causes] for fall in falls]
    unit, flat = in_one_unit([seconds for fall in times for seconds in fall], TIMES)
    rows = []
    for place, cause in enumerate(causes):
        texts = [flat[place + len(times[0]) * index] for index in range(len(times))]
        gaps = [(fall[place] - times[0][place]) / total for fall in times]
        rows.append(Row(cause, texts, [gap if abs(gap) >= _SAME else 0.0 for gap in gaps], better=-1))
    title = f"where a step goes, {unit}"
    return side_by_side(title, rows, comparison, page, result_mark(page), "change of step")


def side_by_side(
    title: str,
    rows: Sequence[Row],
    comparison: Comparison,
    page: Page,
    mark: Callable[[Row, int], str],
    change_of: str = "change",
) -> Table:
    """Two candidates as old and new with the change, more as columns with marks."""
    names = [one.name for one in comparison.candidates]
    if len(names) == 2:
        return _old_new(title, rows, (names[0], names[1]), page, mark, change_of)
    cells: list[tuple[Cell | str, ...]] = []
    for row in rows:
        others = [
            Cell(f"{mark(row, index)} {row.texts[index]}".rstrip(), row.style(index)) for index in range(1, len(names))
        ]
        cells.append((row.label, row.texts[0], *others))
    return Table((Column(title), *(Column(name, "right") for name in names)), tuple(cells))


def _old_new(
    title: str,
    rows: Sequence[Row],
    names: tuple[str, str],
    page: Page,
    mark: Callable[[Row, int], str],
    change_of: str,
) -> Table:
    cells: list[tuple[Cell | str, ...]] = []
    for row in rows:
        relative = row.changes[1]
        style: Style = row.style(1)
        gain = change(relative) if relative else page.same if relative == 0 else ""
        arrow = page.arrow if row.compared or all(row.texts) else ""
        label = Cell(f"{mark(row, 1)} {row.label}", style)
        cells.append((label, row.texts[0], arrow, row.texts[1], Cell(gain, style)))
    columns = (
        Column(title),
        Column(names[0], "right"),
        Column("", shown="text"),
        Column(names[1]),
        Column(change_of, "right"),
    )
    if any(cell_text(row[-1]) for row in cells):
        return Table(columns, tuple(cells))
    return Table(columns[:-1], tuple(row[:-1] for row in cells))


def _choices(comparison: Comparison, page: Page) -> Points:
    """Assumed values that the answer leans on most, each once with the candidates that it is of."""
    whose: dict[str, list[str]] = {}
    for one in comparison.candidates:
        for assumed in one.evaluation.assumptions:
            if assumed.path in _LEANS_ON:
                line = f"{assumed.path} = {value_text(assumed.value, assumed.path)}: {assumed.why}"
                whose.setdefault(line, []).append(one.name)
    many = len(comparison.candidates)
    items = [line if len(names) == many else f"{', '.join(names)}: {line}" for line, names in whose.items()]
    return Points("Nobody stated, and it matters:" if items else "", tuple(items), page.star)


def _coverage(comparison: Comparison, page: Page) -> Points:
    """What each candidate leaves open."""
    items = tuple(f"{one.name}: {coverage_line(one.evaluation)}" for one in comparison.candidates)
    return Points("Coverage:", items, page.star)


def _legend(page: Page) -> str:
    return (
        f"~ changed, + more or added, - less or removed, {page.same} the same as the first; {page.star} assumed, "
        f"m measured, d datasheet, e estimate. {GRADES_MEAN} Faster: chance that its step is shorter. Goodput: useful "
        f"time over all time. A useful GPU-hour: cost of all hours over those that are progress."
    )
