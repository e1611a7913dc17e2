"""Cells of one row of a CSV: values by type, what cannot be read kept as Problems."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from simcluster.errors import Mark, Problem
from simcluster.formats import published_text as text
from simcluster.shapes import Assumption

_T = TypeVar("_T")


class Cells:
    """Reads the cells of a row; collects problems and assumptions on the way."""

    def __init__(self, cells: Mapping[str, str], mark: Mark) -> None:
        self._cells = cells
        self._mark = mark
        self.problems: list[Problem] = []
        self.assumed: list[Assumption] = []

    def text(self, column: str) -> str:
        """The cell as written."""
        return self._cells.get(column, "")

    def count(self, column: str) -> int | None:
        """A whole number, 1 or more."""
        return self._read(column, text.count, "a whole number, 1 or more")

    def positive(self, column: str) -> float | None:
        """A number above zero."""
        value = self._read(column, text.number, "a number")
        if value is not None and value <= 0:
            self.problem(column, "a number above zero")
            return None
        return value

    def yes_no(self, column: str) -> bool | None:
        """0 or 1."""
        return self._read(column, text.yes_no, "0 or 1")

    def problem(self, column: str, wanted: str) -> None:
        """Note a cell that cannot be read; the row goes on without it."""
        self.problems.append(Problem(f"{column} is {self.text(column)[:60]!r}", f"write {wanted}", self._mark))

    def assume(self, path: str, value: Any, why: str) -> None:
        """Note a value that the row does not state."""
        self.assumed.append(Assumption(path, value, why))

    def _read(self, column: str, reader: Callable[[str], _T | None], wanted: str) -> _T | None:
        cell = self.text(column)
        if not cell:
            return None
        value = reader(cell)
        if value is None:
            self.problem(column, wanted)
        return value
