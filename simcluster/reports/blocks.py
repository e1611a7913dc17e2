"""Pieces of a page: words, lists and tables, before anybody decides how they look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Style: TypeAlias = Literal["", "strong", "good", "bad"]
Align: TypeAlias = Literal["left", "right", "point"]


@dataclass(frozen=True, slots=True)
class Words:
    """Sentences, each on its own line; the style is that of the first."""

    lines: tuple[str, ...]
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Points:
    """A list under a sentence; `sign` stands before each item of a text page."""

    head: str
    items: tuple[str, ...]
    sign: str = "*"


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a table with a style, which only decorates: the text says the same."""

    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    align   "point": numbers with their decimal points below each other
    shown   "text": only on text pages (an arrow); "roomy": only where the page is wide enough for it (a bar)
    """

    header: str = ""
    align: Align = "left"
    shown: Literal["always", "text", "roomy"] = "always"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns and rows of cells; a plain text is a cell without style."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell | str, ...], ...]


Block: TypeAlias = "Words | Points | Table"


def cell_text(cell: Cell | str) -> str:
    """Text of a cell.

    >>> cell_text(Cell("+ 3 s", "bad")), cell_text("3 s")
    ('+ 3 s', '3 s')
    """
    return cell if isinstance(cell, str) else cell.text
