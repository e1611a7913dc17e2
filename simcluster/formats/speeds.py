"""Measured speeds of nodes: a CSV with a row for each node, its name and its time for the same work.

    node,factor
    node-001,1.000
    node-002,1.034

The factor is a time in any unit: only its ratio to the others' counts (1.034 takes 3.4 % longer than 1). Other columns
are not read.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simcluster.errors import InputError, Mark, Problem

MAX_BYTES = 16 * 2**20  # half a million nodes
_COLUMNS = ("node", "factor")


@dataclass(frozen=True, slots=True)
class MeasuredSpeeds:
    """Names of nodes in the order of the file, and the time of each, above zero."""

    nodes: tuple[str, ...]
    factors: tuple[float, ...]


def read_speeds(path: str | Path) -> MeasuredSpeeds:
    r"""Reads a CSV of speeds; InputError with every problem if some of it cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "speeds.csv"
    ...     _ = file.write_text("node,factor\na,1.0\nb,1.02\n")
    ...     read_speeds(file)
    MeasuredSpeeds(nodes=('a', 'b'), factors=(1.0, 1.02))
    """
    file = str(path)
    try:
        with Path(path).open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(Problem(f"cannot read the speeds: {error}", "give a CSV", Mark(file))) from error
    if len(raw) > MAX_BYTES:
        message = f"more than {MAX_BYTES // 2**20} MiB"
        raise InputError(Problem(message, "a row of a node takes some 20 bytes; give one for each node", Mark(file)))
    rows = csv.reader(text.splitlines())
    header = [name.strip().lower() for name in next(rows, [])]
    if missing := [name for name in _COLUMNS if name not in header]:
        wanted = "the first line should be: node,factor"
        raise InputError(Problem(f"column {' and '.join(missing)} missing", wanted, Mark(file, 1, 1)))
    problems: list[Problem] = []
    found: dict[str, float] = {}
    for line, name, cell in _cells(rows, header):
        mark = Mark(file, line, 1)
        factor = _number(cell)
        if not name or name in found:
            message = f"node {name!r} is there twice" if name else "a node without a name"
            problems.append(Problem(message, "give every node one row", mark))
        elif factor is None:
            problems.append(Problem(f"factor of {name} is {cell[:60]!r}", "write a number above zero", mark))
        found.setdefault(name, factor or 1.0)
    if not found:
        problems.append(Problem("no nodes", "add a row for each node", Mark(file)))
    if problems:
        raise InputError(problems)
    return MeasuredSpeeds(tuple(found), tuple(found.values()))


def _cells(rows: Iterator[list[str]], header: list[str]) -> Iterator[tuple[int, str, str]]:
    """Line, name and factor of each row that is not empty."""
    places = [header.index(name) for name in _COLUMNS]
    for line, row in enumerate(rows, start=2):
        if any(cell.strip() for cell in row):
            name, factor = (row[place].strip() if place < len(row) else "" for place in places)
            yield line, name, factor


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
