"""Predictions against published figures: as data, as a page, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import simcluster
from simcluster.reports.layout import Page, aligned
from simcluster.reports.records import SCHEMA_VERSION
from simcluster.units import format_count, format_percent, format_seconds
from simcluster.validate.records import RowResult
from simcluster.validate.summary import Errors, Group, Summary, summarise
from simcluster.validate.training import SOFTWARE_DEFAULTS

_WORST = 10
_SOURCE_WIDTH = 60
_HEADER = ("", "rows", "median", "mean", "p90", "bias", "in 80% band", "half-width")
_GROUPS = ("by_gpu", "by_source", "by_split", "by_trust", "by_precision", "by_kind")


@dataclass(frozen=True, slots=True)
class Section:
    """A table under a title; the first column is flush left."""

    title: str
    rows: Sequence[Sequence[str]]


def validation_record(kind: str, results: Sequence[RowResult]) -> dict[str, Any]:
    """Rows and summary as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "rows": [asdict(row) | {"skipped_because": row.skipped_because or None} for row in results],
        "summary": summary_record(summarise(results)),
        "meta": {"version": simcluster.__version__},
    }


def summary_record(summary: Summary) -> dict[str, Any]:
    """A summary as plain data."""
    groups = {name: _group_records(getattr(summary, name)) for name in _GROUPS}
    return {
        **asdict(summary.errors),
        "skipped": dict(summary.skipped),
        "naive_floor": asdict(summary.naive_floor),
        "order_accuracy": summary.order_accuracy,
        "order_pairs": summary.order_pairs,
        **groups,
    }


def _group_records(groups: Mapping[str, Group]) -> dict[str, Any]:
    return {name: asdict(one.errors) | {"naive_floor": asdict(one.naive_floor)} for name, one in groups.items()}


def validation_page(kind: str, results: Sequence[RowResult], page: Page) -> str:
    """Summary first with the floor beside it, then by GPU and by source, then the worst rows."""
    summary = summarise(results)
    parts = [_sentence(kind, summary)]
    parts += [f"{section.title}\n{aligned(section.rows, _right(section))}" for section in _sections(summary, results)]
    parts += ["\n".join(_worst_notes(results, f"  {page.star} "))]
    return "\n\n".join(part for part in parts if part)


def validation_markdown(kind: str, results: Sequence[RowResult]) -> str:
    """The same as Markdown."""
    summary = summarise(results)
    parts = [f"# Predictions against published figures: {kind}", _sentence(kind, summary)]
    for section in _sections(summary, results):
        head, *body = [[cell.replace("|", "\\|") for cell in row] for row in section.rows]
        rule = ["---"] + ["---:"] * (len(head) - 1)
        table = "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body))
        parts.append(f"## {section.title}\n\n{table}")
    parts.append("\n".join(_worst_notes(results, "* ")))
    return "\n\n".join(part for part in parts if part)


def _right(section: Section) -> tuple[int, ...]:
    return tuple(range(1, len(section.rows[0])))


def _sentence(kind: str, summary: Summary) -> str:
    errors, floor = summary.errors, summary.naive_floor
    skipped = sum(summary.skipped.values())
    if errors.median_absolute_error is None:
        return f"No row of {skipped} could be predicted ({kind})."
    rows = "1 row" if errors.count == 1 else f"{errors.count} rows"
    text = f"{rows} predicted, {skipped} skipped: median error {_percent(errors.median_absolute_error)}"
    if floor.median_absolute_error is not None:
        text += f", against {_percent(floor.median_absolute_error)} for one median MFU a GPU and precision"
    if summary.order_accuracy is not None:
        pairs = f"{summary.order_pairs} pair{'s' if summary.order_pairs > 1 else ''}"
        text += f"; {_percent(summary.order_accuracy)} of {pairs} in the right order"
    return f"{text}. Error is predicted over published time, minus 1; bias above zero: predicted too slow."


def _sections(summary: Summary, results: Sequence[RowResult]) -> list[Section]:
    whole = [_HEADER, _line("all rows", summary.errors), _line("  naive floor", summary.naive_floor)]
    whole += [_line(f"  {name}", one.errors) for name, one in summary.by_kind.items()]
    whole += [_line(f"  {name}", one.errors) for name, one in summary.by_precision.items()]
    whole += [_line(f"  trust {name}", one.errors) for name, one in summary.by_trust.items()]
    whole += [_line(f"  {name} rows", one.errors) for name, one in summary.by_split.items()]
    found = [
        Section("Errors", whole),
        Section("By GPU", _beside_floor(summary.by_gpu)),
        Section("By source", _beside_floor(summary.by_source)),
        Section("Worst rows", _worst_table(results)),
        Section("Skipped", [("why", "rows"), *((why, str(count)) for why, count in summary.skipped.items())]),
    ]
    return [section for section in found if len(section.rows) > 1]


def _line(name: str, errors: Errors) -> tuple[str, ...]:
    bias = _percent(errors.mean_error, sign=True)
    sizes = (errors.median_absolute_error, errors.mean_absolute_error, errors.p90_absolute_error)
    spread = (errors.coverage, errors.median_half_width)
    return (_short(name), str(errors.count), *map(_percent, sizes), bias, *map(_percent, spread))


def _beside_floor(groups: Mapping[str, Group]) -> list[tuple[str, ...]]:
    header = (*_HEADER, "floor median")
    return [
        header,
        *((*_line(name, one.errors), _percent(one.naive_floor.median_absolute_error)) for name, one in groups.items()),
    ]


def _short(name: str) -> str:
    return name if len(name) <= _SOURCE_WIDTH else f"{name[: _SOURCE_WIDTH - 3]}..."


def _percent(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return ""
    return f"{'+' if sign and value > 0 else ''}{format_percent(value)}"


def _worst(results: Iterable[RowResult]) -> list[RowResult]:
    judged = [row for row in results if row.error is not None]
    return sorted(judged, key=lambda row: -abs(row.error or 0.0))[:_WORST]


def _worst_table(results: Iterable[RowResult]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [("row", "model", "GPUs", "GPU", "published", "predicted", "error", "grade")]
    for row in _worst(results):
        figures = (_figure(row.published, row.unit), _figure(row.predicted, row.unit), _percent(row.error, sign=True))
        rows.append((_short(row.id), _short(row.model), str(row.n_gpus or ""), row.gpu, *figures, row.grade))
    return rows


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return format_seconds(value) if unit == "s" else f"{format_count(value)} {unit}"


def _worst_notes(results: Iterable[RowResult], bullet: str) -> list[str]:
    """What the worst rows leave open; what all of them do stands first, once. Defaults of software go by its name."""
    notes = [(row.id or row.model, [_brief(line) for line in row.assumed]) for row in _worst(results)]
    if not any(lines for _, lines in notes):
        return []
    shared = [line for line in notes[0][1] if all(line in lines for _, lines in notes)]
    found = ["What the worst rows do not state, and what was taken instead:"]
    found += [f"{bullet}all: {line}" for line in shared]
    return found + [f"{bullet}{name}: {line}" for name, lines in notes for line in lines if line not in shared]


def _brief(line: str) -> str:
    return line.partition(":")[0] if line.startswith(SOFTWARE_DEFAULTS) else line
