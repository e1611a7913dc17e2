"""Published training results: a CSV to plain records, what may be read to predict apart from what is compared.

`PublishedFacts` holds hardware, model, layout and software; it has no field for a measured figure, an id or a source,
and the function that builds it is handed the fact columns alone. `PublishedResult` holds the rest. Whatever a cell
holds, a row is read: what cannot be understood is a Problem of that row, what is filled in is listed in `assumed`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from simcluster.errors import InputError, Mark, Problem
from simcluster.formats.published_cells import Cells
from simcluster.formats.published_facts import FACT_COLUMNS, PublishedFacts, facts_of

RESULT_COLUMNS = (
    *(
        "id",
        "source",
        "source_url_or_repo_path",
        "source_kind",
        "split",
        "trust",
        "step_time_s",
        "tokens_per_s_per_gpu",
    ),
    *("samples_per_s", "tflops_per_gpu", "flops_definition", "mfu_pct", "hfu_pct", "mfu_calc_pct", "peak_mem_gb"),
    *("peak_bytes", "peak_kind", "notes", "derived"),
)


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """What a source printed, and where; never an argument of a prediction.

    peak_kind is allocated, reserved, device, host or unknown; peak_bytes falls back on peak_mem_gb (10^9 bytes).
    """

    id: str = ""
    source: str = ""
    source_url: str = ""
    source_kind: str = ""
    split: str = ""
    trust: str = ""
    step_time_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    samples_per_s: float | None = None
    tflops_per_gpu: float | None = None
    flops_definition: str = ""
    mfu_pct: float | None = None
    hfu_pct: float | None = None
    peak_bytes: float | None = None
    peak_kind: str = ""
    notes: str = ""
    derived: str = ""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One line of a table of published results."""

    facts: PublishedFacts
    result: PublishedResult
    mark: Mark
    problems: tuple[Problem, ...] = field(default=())


def read_published(path: str | Path) -> tuple[PublishedRow, ...]:
    """Rows of a CSV of published results; missing and extra columns are fine, so is a byte order mark.

    Raises InputError when there is no such file, no header with any known column, or nothing that a CSV reader accepts.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8-sig", errors="replace")
    except OSError as error:
        raise InputError(Problem(f"cannot read {file}: {error.strerror or error}", "", Mark(str(file)))) from error
    return parse_published(text, str(file))


def parse_published(text: str, name: str = "published.csv") -> tuple[PublishedRow, ...]:
    r"""Rows of a CSV given as text.

    >>> rows = parse_published("gpu,n_gpus,tp,pp,cp,precision,step_time_s\nA100,64,8,4,1,bf16,2.5\n")
    >>> rows[0].facts.dp, rows[0].result.step_time_s, [a.path for a in rows[0].facts.assumed][:1]
    (2, 2.5, ['training.parallelism.dp'])
    """
    clean = text.replace("\0", "")
    header, _, _ = clean.partition("\n")
    delimiter = max(",;\t", key=header.count)
    reader = csv.reader(io.StringIO(clean, newline=""), delimiter=delimiter)
    try:
        lines = [(reader.line_num, cells) for cells in reader if any(cell.strip() for cell in cells)]
    except csv.Error as error:
        raise InputError(Problem(f"not a CSV: {error}", "", Mark(name, reader.line_num))) from error
    columns = [cell.strip().lower() for cell in lines[0][1]] if lines else []
    if not set(columns) & {*FACT_COLUMNS, *RESULT_COLUMNS}:
        raise InputError(
            Problem("no column of a table of published results", "the header names gpu, n_gpus, …", Mark(name))
        )
    return tuple(_row(columns, cells, Mark(name, line, 1)) for line, cells in lines[1:])


def _row(columns: list[str], cells: list[str], mark: Mark) -> PublishedRow:
    named = dict(zip(columns, (cell.strip() for cell in cells)))
    problems = (
        [Problem(f"{len(cells)} cells under {len(columns)} columns", "", mark)] if len(cells) > len(columns) else []
    )
    facts, unread = facts_of(_part(named, FACT_COLUMNS), mark)
    result, strange = _result(_part(named, RESULT_COLUMNS), mark)
    return PublishedRow(facts, result, mark, (*problems, *unread, *strange))


def _part(named: Mapping[str, str], columns: Iterable[str]) -> dict[str, str]:
    return {column: named.get(column, "") for column in columns}


def _result(cells: Mapping[str, str], mark: Mark) -> tuple[PublishedResult, tuple[Problem, ...]]:
    read = Cells(cells, mark)
    peak, gigabytes = read.positive("peak_bytes"), read.positive("peak_mem_gb")
    result = PublishedResult(
        id=cells["id"],
        source=cells["source"],
        source_url=cells["source_url_or_repo_path"],
        source_kind=cells["source_kind"],
        split=cells["split"],
        trust=cells["trust"],
        step_time_s=read.positive("step_time_s"),
        tokens_per_s_per_gpu=read.positive("tokens_per_s_per_gpu"),
        samples_per_s=read.positive("samples_per_s"),
        tflops_per_gpu=read.positive("tflops_per_gpu"),
        flops_definition=cells["flops_definition"],
        mfu_pct=read.positive("mfu_pct"),
        hfu_pct=read.positive("hfu_pct"),
        peak_bytes=peak if peak is not None or gigabytes is None else gigabytes * 1e9,
        peak_kind=cells["peak_kind"].lower(),
        notes=cells["notes"],
        derived=cells["derived"],
    )
    return result, tuple(read.problems)
