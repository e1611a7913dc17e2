"""`simcluster validate`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from simcluster.cli.options import FORMATS, answer, answer_page, coloured
from simcluster.errors import UsageError

if TYPE_CHECKING:
    from simcluster.formats.published import PublishedRow
    from simcluster.validate.records import RowResult

KINDS = ("training", "memory", "collectives", "gemm", "attention", "diagnose")
BUILT = ("training",)
INTERRUPTED = 130
UNANSWERED = 1
MOST_NOTES = 20
_WANTED = {  # what a skipped row lacks
    "no_throughput": "state step_time_s, tokens_per_s_per_gpu, samples_per_s or tflops_per_gpu",
    "no_architecture": "state layers, hidden, heads, ffn_hidden and vocab (kv_heads, gated_ffn, n_experts … as needed)",
    "no_layout": "state n_gpus with tp, pp and dp, and global_batch",
}
_PATIENCE_S = 0.5


@click.command()
@click.argument("csv", required=False, type=click.Path(path_type=Path))
@click.option("--kind", type=click.Choice(KINDS), default=KINDS[0], show_default=True, help="What to predict.")
@click.option(
    "--split",
    type=click.Choice(("fit", "test", "all")),
    help="Rows of the table's column split [default: test of the shipped rows, all of CSV].",
)
@click.option("--trust", help="Only rows of these grades of trust, like A,B.")
@click.option("--workers", type=click.IntRange(min=1), help="Processes [default: as many as it pays].")
@click.option("--format", "format_", type=click.Choice(FORMATS), default=FORMATS[0], show_default=True)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write the answer to a file.")
@click.option(
    "--hardware-db",
    "hardware_db",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder whose entries extend or override the catalogue.",
)
@coloured
def validate(
    csv: Path | None,
    kind: str,
    split: str | None,
    trust: str | None,
    workers: int | None,
    format_: str,
    output: Path | None,
    hardware_db: Path | None,
) -> int:
    r"""Predict published runs and print the errors: the shipped table, or your own CSV with the same columns.

    A row's measured figures, its id and its source never reach its prediction.

    \b
    simcluster validate
    simcluster validate my_runs.csv --format json
    """
    from simcluster.validate.training import judged_rows

    if kind not in BUILT:
        raise UsageError(f"--kind {kind} is not built yet; built: {', '.join(BUILT)}")
    started = time.perf_counter()
    rows = _rows(csv, split, trust)
    results, complete = _collect(judged_rows(rows, workers, hardware_db), len(rows))
    if not complete:
        click.echo(f"interrupted: {len(results)} of {len(rows)} rows are done", err=True)
    _answer(kind, results, format_, output, time.perf_counter() - started)
    if csv is not None:
        _tell_skipped(rows, results)
    if not complete:
        return INTERRUPTED
    return 0 if any(result.judged for result in results) else UNANSWERED


def _rows(csv: Path | None, split: str | None, trust: str | None) -> Sequence[PublishedRow]:
    """The rows to judge; a table of the user's is judged whole unless a split is named."""
    from simcluster.formats.published import read_published
    from simcluster.validate.floor import shipped_rows

    rows = shipped_rows() if csv is None else read_published(csv)
    wanted = split or ("test" if csv is None else "all")
    grades = {part.strip().upper() for part in (trust or "").split(",") if part.strip()}
    chosen = [
        row
        for row in rows
        if (wanted == "all" or row.result.split.lower() == wanted)
        and (not grades or row.result.trust.upper() in grades)
    ]
    if rows and not chosen:
        asked = " and ".join(text for text in (split and f"--split {split}", trust and f"--trust {trust}") if text)
        there = ", ".join(f"{row.result.split or 'none'}/{row.result.trust or 'none'}" for row in _kinds(rows))
        raise UsageError(f"{asked}: no row is like that; the table has split/trust {there}")
    return chosen


def _tell_skipped(rows: Sequence[PublishedRow], results: Sequence[RowResult]) -> None:
    """What could not be read of a user's table, and which rows were skipped for what, on standard error."""
    notes = []
    for row, result in zip(rows, results):
        notes += [str(problem) for problem in row.problems]
        if result.skipped_because:
            wanted = _WANTED.get(result.skipped_because)
            notes.append(f"{row.mark}: skipped: {result.skipped_because}{f'; {wanted}' if wanted else ''}")
    for note in notes[:MOST_NOTES]:
        click.echo(note, err=True)
    if len(notes) > MOST_NOTES:
        click.echo(f"… and {len(notes) - MOST_NOTES} more (--format csv lists every row)", err=True)


def _kinds(rows: Sequence[PublishedRow]) -> list[PublishedRow]:
    """One row of each split and trust."""
    return list({(row.result.split, row.result.trust): row for row in rows}.values())


def _collect(results: Iterable[RowResult], total: int) -> tuple[list[RowResult], bool]:
    """Results as far as they come, and whether that is all of them; progress for a person who waits."""
    finished: list[RowResult] = []
    started = time.perf_counter()
    watched = sys.stderr.isatty()
    try:
        for result in results:
            finished.append(result)
            if watched and time.perf_counter() - started > _PATIENCE_S:
                click.echo(f"\r{len(finished)} of {total} rows", nl=False, err=True)
    except KeyboardInterrupt:
        return finished, False
    finally:
        if watched:
            click.echo("\r\033[K", nl=False, err=True)
    return finished, True


def _answer(kind: str, results: Sequence[RowResult], format_: str, output: Path | None, seconds: float) -> None:
    from simcluster.reports.records import to_json
    from simcluster.reports.validation import validation_blocks, validation_csv, validation_record

    if format_ == "json":
        record = validation_record(kind, results)
        record["meta"] = {"seconds": seconds, **record["meta"]}
        answer(to_json(record), output)
    elif format_ == "csv":
        answer(validation_csv(results), output)
    else:
        title = f"Predictions against published figures: {kind}"
        answer_page(title, lambda page: validation_blocks(kind, results, page), format_, output)
