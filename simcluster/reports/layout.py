"""What a page may use: signs, width, colour; and columns of plain text."""

from __future__ import annotations

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Colour: TypeAlias = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Page:
    """The signs that a page may use, its width in columns (None: lines are as long as they are), and colour."""

    bar: str = "█"
    dash: str = "–"
    star: str = "*"
    same: str = "="
    arrow: str = "→"
    width: int | None = None
    colour: bool = False

    @classmethod
    def for_output(cls, file: Path | None = None, colour: Colour = "never") -> Page:
        """The page for a file, which is UTF-8, or for the standard output.

        Signs are ASCII where the output's encoding is not Unicode. A terminal sets the width and may show colour
        (`colour`; for "auto" NO_COLOR and TERM=dumb turn it off); a pipe or file has neither.
        """
        encoding = (getattr(sys.stdout, "encoding", "") or "ascii").lower().replace("-", "")
        terminal = file is None and bool(getattr(sys.stdout, "isatty", bool)())
        width = shutil.get_terminal_size().columns if terminal else None
        quiet = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        colourful = colour == "always" or (colour == "auto" and terminal and not quiet)
        if file is not None or encoding.startswith("utf"):
            return cls(width=width, colour=colourful)
        return cls(bar="#", dash="-", arrow="->", width=width, colour=colourful)


def text_width(text: str) -> int:
    """Columns that a text takes on a terminal: wide characters two, combining ones none.

    >>> text_width("step"), text_width("模型")
    (4, 4)
    """
    if text.isascii():
        return len(text)
    marks = sum(1 for sign in text if unicodedata.combining(sign))
    return len(text) - marks + sum(1 for sign in text if unicodedata.east_asian_width(sign) in "WF")


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> str:
    """Rows as columns two blanks apart, without trailing blanks; columns named in `right` are flush right.

    >>> print(aligned([("a", "1"), ("bcd", "22")], right=(1,)))
    a     1
    bcd  22
    """
    widths = [max(text_width(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for column, (cell, width) in enumerate(zip(row, widths)):
            blanks = " " * (width - text_width(cell))
            cells.append(blanks + cell if column in right else cell + blanks)
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
