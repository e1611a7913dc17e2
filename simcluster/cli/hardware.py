"""`simcluster hardware`: what the catalogue holds, and whether a catalogue is sound."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from simcluster.errors import InputError, UsageError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry, Row
from simcluster.hardware.quantity import Quantity
from simcluster.hardware.schema import KINDS, SINGULAR

_FORMAT = click.option(
    "--format", "format_", type=click.Choice(["table", "json"]), default="table", help="How to print."
)
_EXTRA = click.option(
    "--hardware-db", "extra", type=click.Path(path_type=Path), help="Folder whose entries extend or override."
)


@click.group()
def hardware() -> None:
    """Look at the catalogue: GPUs, processors, nodes, networks, storage, clouds, prices, facilities, failures."""


@hardware.command("list")
@click.argument("kind", required=False)
@_EXTRA
@_FORMAT
def list_(kind: str | None, extra: Path | None, format_: str) -> None:
    """List the entries of a KIND (gpus, nodes, prices, …), or of all."""
    kinds = tuple(KINDS) if kind is None else (SINGULAR.get(kind, kind),)
    if not set(kinds) <= set(KINDS):
        raise UsageError(f"there is no kind {kind!r}; known: {', '.join(KINDS)}")
    catalogue = Catalogue.load(extra)
    entries = [entry for name in kinds for entry in catalogue.entries(name)]
    if format_ == "json":
        keys = ("kind", "type", "id", "name", "aliases")
        _print_json([{key: entry.to_dict()[key] for key in keys} for entry in entries])
        return
    _print_table(("type", "id", "name"), ((entry.type, entry.id, entry.name) for entry in entries))


@hardware.command()
@click.argument("name")
@_EXTRA
@_FORMAT
def show(name: str, extra: Path | None, format_: str) -> None:
    """Show all that is known of NAME (an id or alias): values with unit, source, date and kind, and conflicts."""
    catalogue = Catalogue.load(extra)
    entries = catalogue.named(name)
    sources = catalogue.sources()
    if format_ == "json":
        used = sorted({q.provenance.source for entry in entries for q in _all(entry)})
        plain = [entry.to_dict() for entry in entries]
        _print_json({"entries": plain, "sources": {key: sources[key] for key in used if key in sources}})
        return
    for entry in entries:
        click.echo(f"{entry.id} ({entry.type}): {entry.name}")
        if entry.aliases:
            click.echo("also called: " + ", ".join(alias.name for alias in entry.aliases))
        if entry.note:
            click.echo(entry.note)
        if entry.values:
            _print_table(("value", "is", "range", "kind", "date", "sure", "source", "note"), _rows(entry))
        if entry.table:
            _print_table(*_table(entry.table))
        click.echo("sources:")
        for key in sorted({q.provenance.source for q in _all(entry)}):
            click.echo(f"  {key}: {sources.get(key, {}).get('reference', key)}")


@hardware.command()
@click.argument("directory", required=False, type=click.Path(path_type=Path))
@_FORMAT
def check(directory: Path | None, format_: str) -> None:
    """Check the catalogue, with the entries of DIRECTORY on top of it if one is given."""
    catalogue = Catalogue.load(directory)
    problems = catalogue.check()
    if problems and format_ == "table":
        raise InputError(problems)
    count = sum(len(catalogue.files(kind)) for kind in KINDS)
    if format_ == "json":
        _print_json({"entries": count, "problems": [str(problem) for problem in problems]})
    else:
        click.echo(f"{count} entries, no problems")
    if problems:
        raise click.exceptions.Exit(InputError.exit_code)


def _all(entry: Entry) -> Iterable[Quantity]:
    for _, quantity in entry.quantities():
        yield quantity
        yield from quantity.conflicts


def _rows(entry: Entry) -> Iterable[Sequence[str]]:
    for key, quantity in entry.values.items():
        yield (key, *_cells(quantity))
        for other in quantity.conflicts:
            yield ("  but also", *_cells(other))


def _table(rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]]:
    """Header and cells of a table: name, labels, value and where it comes from."""
    labels = list(dict.fromkeys(label for row in rows for label in row.labels))
    header = ("row", *labels, "is", "range", "kind", "date", "sure", "source", "note")
    lines: list[Sequence[str]] = []
    for row in rows:
        cells = (_plain(row.labels.get(label, "")) for label in labels)
        lines.append((row.name, *cells, *_cells(row.quantity)))
        lines += [("  but also", *("" for _ in labels), *_cells(other)) for other in row.quantity.conflicts]
    return header, lines


def _plain(label: str | float) -> str:
    return label if isinstance(label, str) else f"{label:.10g}"


def _cells(quantity: Quantity) -> Sequence[str]:
    source = quantity.provenance
    ends = ""
    if quantity.low is not None and quantity.high is not None and quantity.number:
        scale = float(quantity.written) / quantity.number
        ends = f"{quantity.low * scale:.6g} to {quantity.high * scale:.6g}"
    return str(quantity), ends, source.kind, source.date, quantity.confidence, source.source, source.note


def _print_json(data: Any) -> None:
    click.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def _print_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns; drawn by rich on a terminal, plain text elsewhere."""
    table = [tuple(row) for row in rows]
    used = [i for i in range(len(header)) if any(row[i] for row in table)]
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table

        drawn = Table(*(header[i] for i in used), box=None)
        for row in table:
            drawn.add_row(*(row[i].replace("[", r"\[") for i in used))
        Console().print(drawn)
        return
    lines = [tuple(header[i] for i in used), *(tuple(row[i] for i in used) for row in table)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(used))]
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
