"""Measured speeds of nodes: a CSV with a row for each node, its name and its time for the same work.

    node,factor
    node-001,1.000
    node-002,1.034

The factor is a time in any unit, so more is slower: only its ratio to the others' counts (1.034 takes 3.4 % longer than
1). Other columns are not read.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from simcluster.errors import InputError, Mark, Problem

_COLUMNS = ("node", "factor")
MAX_BYTES = 16 * 2**20  # half a million nodes
_MOST_PROBLEMS = 100
_FIRST_LINE = "the first line should be: node,factor"
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
_FAR, _SPREADS = 0.01, 5.0  # a row is far from the others if it is by more than 1 % and five times the usual distance
_FEW = 0.25  # share of rows
_MOST_UNLIKE = 100.0  # a time beyond this ratio to the median, or below one over it, is taken for a mistake


@dataclass(frozen=True, slots=True)
class MeasuredSpeeds:
    """Names of nodes in the order of the file, and the time of each, above zero."""

    nodes: tuple[str, ...]
    factors: tuple[float, ...]


def read_speeds(path: str | Path) -> MeasuredSpeeds:
    r"""Reads a CSV of speeds, at most 16 MiB; InputError with the problems (the first 100) if some cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder) / "speeds.csv"
    ...     _ = file.write_text("node,factor\na,1.0\nb,1.02\n")
    ...     read_speeds(file)
    MeasuredSpeeds(nodes=('a', 'b'), factors=(1.0, 1.02))
    """
    file = str(path)
    rows = _rows(_text(file), file)
    header = [name.strip().lower() for _, row in islice(rows, 1) for name in row]
    if missing := [name for name in _COLUMNS if name not in header]:
        raise InputError(_no_columns(header, missing, Mark(file, 1, 1)))
    places = [header.index(name) for name in _COLUMNS]
    problems: list[Problem] = []
    found: dict[str, float] = {}
    lines: list[int] = []
    for line, row in rows:
        name, cell = (row[place].strip() if place < len(row) else "" for place in places)
        problems.extend(_wrong(name, cell, found, Mark(file, line, 1)))
        if name not in found:
            found[name] = _number(cell) or 1.0
            lines.append(line)
        if len(problems) >= _MOST_PROBLEMS:
            break
    if not found:
        problems.append(Problem("no nodes", "add a row for each node", Mark(file)))
    problems = problems or _unlike(found, lines, file)
    if problems:
        raise InputError(problems)
    return MeasuredSpeeds(tuple(found), tuple(found.values()))


def seem_rates(factors: Sequence[float]) -> tuple[int, ...]:
    """Rows that make times look like rates: a few far below the others, which agree, and none far above; else empty.

    >>> seem_rates([148.0, 149.0, 141.0, 148.5, 148.0, 148.2]), seem_rates([1.0, 1.0, 1.05, 1.0])
    ((2,), ())
    """
    middle = median(factors)
    far = max(_FAR * middle, _SPREADS * median(abs(factor - middle) for factor in factors))
    low = tuple(row for row, factor in enumerate(factors) if factor < middle - far)
    return low if max(factors) <= middle + far and len(low) <= _FEW * len(factors) else ()


def _unlike(found: dict[str, float], lines: Sequence[int], file: str) -> list[Problem]:
    """Times that no two nodes of a cluster have beside each other."""
    usual = median(found.values())
    far = [
        (line, name)
        for line, (name, factor) in zip(lines, found.items())
        if not 1.0 / _MOST_UNLIKE <= factor / usual <= _MOST_UNLIKE
    ]
    message, advice = f"is more than {_MOST_UNLIKE:g} times off the median", "leave the node out, or correct it"
    return [
        Problem(f"factor of {name[:60]!r} {message}", advice, Mark(file, line, 1))
        for line, name in far[:_MOST_PROBLEMS]
    ]


def _no_columns(header: Sequence[str], missing: Sequence[str], mark: Mark) -> Problem:
    """What is wrong with a first line without the columns."""
    for sign, name in _SEPARATORS.items():
        if any(sign in cell for cell in header):
            return Problem(f"columns are separated by {name}", "separate them by commas, numbers with a point", mark)
    return Problem(f"column{'s' * (len(missing) > 1)} {' and '.join(missing)} missing", _FIRST_LINE, mark)


def _text(file: str) -> str:
    try:
        with Path(file).open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            raise InputError(Problem("is larger than 16 MiB", "give one row for each node", Mark(file)))
        return raw.decode("utf-8-sig")
    except FileNotFoundError as error:
        where = "give a path that starts at the scenario's folder (also with --set), or a whole one"
        raise InputError(Problem(f"no such file: {file}", where)) from error
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", "give a CSV", Mark(file))) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem("is not UTF-8 text", "give a CSV in UTF-8", Mark(file))) from error


def _rows(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each row that is not empty."""
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in rows:
            if any(cell.strip() for cell in row):
                yield rows.line_num, row
    except csv.Error as error:
        problem = Problem(f"is not a CSV: {error}", "write node,factor", Mark(file, rows.line_num, 1))
        raise InputError(problem) from error


def _wrong(name: str, cell: str, found: dict[str, float], mark: Mark) -> Iterator[Problem]:
    """What is wrong with a row."""
    if not name:
        yield Problem("a node without a name", "give every node one row", mark)
    elif not name.replace("\n", "").isprintable():
        yield Problem(f"node {name[:60]!r} has characters that cannot be shown", "give it a plain name", mark)
    elif name in found:
        yield Problem(f"node {name[:60]!r} is there twice", "give every node one row", mark)
    if _number(cell) is None:
        yield Problem(f"factor of {name[:60]!r} is {cell[:60]!r}", "write a number above zero", mark)


def _number(cell: str) -> float | None:
    try:
        value = float(cell)
    except ValueError:
        return None
    return value if value > 0 and math.isfinite(value) else None
