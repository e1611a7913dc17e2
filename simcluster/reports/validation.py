"""Predictions against published figures: as data, as rows, as blocks of a page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import cast

from simcluster.reports.blocks import Block, Column, Points, Table, Words
from simcluster.reports.csv import write
from simcluster.reports.layout import Page
from simcluster.reports.records import SCHEMA_VERSION, meta_record
from simcluster.reports.validate_types import ErrorsRecord, GroupRecord, RowRecord, SummaryRecord, ValidateRecord
from simcluster.units import format_count, format_percent, format_seconds
from simcluster.validate.records import RowResult
from simcluster.validate.summary import Errors, Group, Summary, summarise
from simcluster.validate.training import SOFTWARE_DEFAULTS

_WORST = 10
_SOURCE_WIDTH = 60
_FIGURES = ("rows", "median", "mean", "p90", "bias", "in 80% band", "half-width")
_FLOOR = (*_FIGURES, "floor median")
_WORST_COLUMNS = ("model", "GPUs", "GPU", "published", "predicted", "error", "grade")
_GROUPS = ("by_gpu", "by_source", "by_split", "by_trust", "by_precision", "by_kind")
_OPEN = "What the worst rows do not state, and what was taken instead:"


def validation_record(kind: str, results: Sequence[RowResult]) -> ValidateRecord:
    """Rows and summary as plain data."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "rows": [_row_record(row) for row in results],
        "summary": summary_record(summarise(results)),
        "meta": meta_record(),
    }


def _row_record(row: RowResult) -> RowRecord:
    plain = asdict(row) | {"skipped_because": row.skipped_because or None, "assumed": list(row.assumed)}
    return cast("RowRecord", plain)


def summary_record(summary: Summary) -> SummaryRecord:
    """A summary as plain data."""
    plain = {
        **asdict(summary.errors),
        "skipped": dict(summary.skipped),
        "naive_floor": asdict(summary.naive_floor),
        "order_accuracy": summary.order_accuracy,
        "order_pairs": summary.order_pairs,
        **{name: _group_records(getattr(summary, name)) for name in _GROUPS},
    }
    return cast("SummaryRecord", plain)


def _group_records(groups: Mapping[str, Group]) -> dict[str, GroupRecord]:
    return {name: _group_record(one) for name, one in groups.items()}


def _group_record(group: Group) -> GroupRecord:
    errors = cast("ErrorsRecord", asdict(group.errors))
    return {**errors, "naive_floor": cast("ErrorsRecord", asdict(group.naive_floor))}


def validation_csv(results: Sequence[RowResult]) -> str:
    """The rows as CSV, keys as in JSON; what was assumed is one cell."""
    rows = [_row_record(row) for row in results]
    header = list(RowRecord.__annotations__)
    return write(header, ([_cell(row.get(key)) for key in header] for row in rows))


def _cell(value: object) -> object:
    return "; ".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def validation_blocks(kind: str, results: Sequence[RowResult], page: Page) -> list[Block]:
    """Summary first with the floor beside it, then by GPU and by source, then the worst rows."""
    summary = summarise(results)
    blocks: list[Block] = [Words((_sentence(kind, summary),), "strong"), *_tables(summary, results)]
    notes = _worst_notes(results)
    return [*blocks, Points(_OPEN, notes, page.star)] if notes else blocks


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


def _tables(summary: Summary, results: Sequence[RowResult]) -> list[Table]:
    whole = [_line("all rows", summary.errors), _line("  naive floor", summary.naive_floor)]
    whole += [_line(f"  {name}", one.errors) for name, one in summary.by_kind.items()]
    whole += [_line(f"  {name}", one.errors) for name, one in summary.by_precision.items()]
    whole += [_line(f"  trust {name}", one.errors) for name, one in summary.by_trust.items()]
    whole += [_line(f"  {name} rows", one.errors) for name, one in summary.by_split.items()]
    found = [
        _table("Errors", _FIGURES, whole),
        _table("By GPU", _FLOOR, _beside_floor(summary.by_gpu)),
        _table("By source", _FLOOR, _beside_floor(summary.by_source)),
        _table("Worst rows", _WORST_COLUMNS, _worst_rows(results)),
        _table("Skipped", ("rows",), [(why, str(count)) for why, count in summary.skipped.items()]),
    ]
    return [table for table in found if table.rows]


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Table:
    """A table whose first column, under the title, is flush left."""
    return Table((Column(title), *(Column(name, "right") for name in columns)), tuple(rows))


def _line(name: str, errors: Errors) -> tuple[str, ...]:
    bias = _percent(errors.mean_error, sign=True)
    sizes = (errors.median_absolute_error, errors.mean_absolute_error, errors.p90_absolute_error)
    spread = (errors.coverage, errors.median_half_width)
    return (_short(name), str(errors.count), *map(_percent, sizes), bias, *map(_percent, spread))


def _beside_floor(groups: Mapping[str, Group]) -> list[tuple[str, ...]]:
    return [(*_line(name, one.errors), _percent(one.naive_floor.median_absolute_error)) for name, one in groups.items()]


def _short(name: str) -> str:
    return name if len(name) <= _SOURCE_WIDTH else f"{name[: _SOURCE_WIDTH - 3]}..."


def _percent(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return ""
    return f"{'+' if sign and value > 0 else ''}{format_percent(value)}"


def _worst(results: Iterable[RowResult]) -> list[RowResult]:
    judged = [row for row in results if row.error is not None]
    return sorted(judged, key=lambda row: -abs(row.error or 0.0))[:_WORST]


def _worst_rows(results: Iterable[RowResult]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for row in _worst(results):
        figures = (_figure(row.published, row.unit), _figure(row.predicted, row.unit), _percent(row.error, sign=True))
        rows.append((_short(row.id), _short(row.model), str(row.n_gpus or ""), row.gpu, *figures, row.grade))
    return rows


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return format_seconds(value) if unit == "s" else f"{format_count(value)} {unit}"


def _worst_notes(results: Iterable[RowResult]) -> tuple[str, ...]:
    """What the worst rows leave open; what all of them do stands first, once. Defaults of software go by its name."""
    notes = [(row.id or row.model, [_brief(line) for line in row.assumed]) for row in _worst(results)]
    if not any(lines for _, lines in notes):
        return ()
    shared = [line for line in notes[0][1] if all(line in lines for _, lines in notes)]
    own = [f"{name}: {line}" for name, lines in notes for line in lines if line not in shared]
    return (*(f"all: {line}" for line in shared), *own)


def _brief(line: str) -> str:
    return line.partition(":")[0] if line.startswith(SOFTWARE_DEFAULTS) else line
