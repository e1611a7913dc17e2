"""Collects what resolving a scenario finds: values with their origin, assumptions, problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import Assumption


class Trail:
    """A notebook for one resolution. Problems are gathered and raised together by `stop`."""

    def __init__(self, marks: Mapping[str, Mark] | None = None) -> None:
        self._marks = marks or {}
        self.values: dict[str, tuple[Any, str]] = {}
        self.assumptions: list[Assumption] = []
        self.problems: list[Problem] = []

    def mark(self, path: str) -> Mark | None:
        """Where a dotted path was written; the nearest parent's place if it was not."""
        while path:
            if path in self._marks:
                return self._marks[path]
            path = path.rpartition(".")[0]
        return None

    def state(self, path: str, value: Any, origin: str) -> None:
        """Notes a resolved value and where it came from."""
        self.values[path] = (value, origin)

    def assume(self, path: str, value: Any, why: str) -> None:
        """Notes a value that nobody stated."""
        self.assumptions.append(Assumption(path, value, why))
        self.values[path] = (value, f"assumed: {why}")

    def take(self, assumptions: Iterable[Assumption]) -> None:
        """Notes assumptions made elsewhere."""
        for one in assumptions:
            self.assume(one.path, one.value, one.why)

    def problem(self, path: str, message: str, advice: str = "") -> None:
        """Notes something wrong at a path."""
        self.problems.append(Problem(f"{path}: {message}", advice, self.mark(path)))

    def unsupported(self, path: str, what: str) -> None:
        """Notes something that is right but not simulated."""
        self.problem(path, f"{what} is not simulated yet", "see the list of what is modelled in docs/coverage.md")

    def stop(self) -> None:
        """Raises what has been gathered, if anything."""
        if self.problems:
            raise InputError(self.problems)
