"""Characters and columns of text pages."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Page:
    """The signs that a page may use."""

    bar: str = "█"
    dash: str = "–"
    star: str = "*"
    same: str = "="

    @classmethod
    def for_output(cls, file: Path | None = None) -> Page:
        """Unicode in files, which are UTF-8, and where the standard output can show it; ASCII elsewhere."""
        if file is not None:
            return cls()
        encoding = (getattr(sys.stdout, "encoding", "") or "ascii").lower().replace("-", "")
        return cls() if encoding.startswith("utf") else cls(bar="#", dash="-")


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows as columns two blanks apart, without trailing blanks; columns named in `right` are flush right.

    >>> print(aligned([("a", "1"), ("bcd", "22")], right=(1,)))
    a     1
    bcd  22
    """
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if column in right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
