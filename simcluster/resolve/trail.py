"""Collects what resolving a scenario finds: values with their origin, assumptions, notes, problems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from simcluster.errors import InputError, Mark, Problem
from simcluster.scenario import Origin
from simcluster.shapes import Assumption


class Trail:
    """A notebook for one resolution. Problems are gathered and raised together by `stop`.

    `origins` says by dotted path who stated what, as `scenario.Loaded` holds it.
    """

    def __init__(self, origins: Mapping[str, Origin] | None = None) -> None:
        self._origins = {path: origin for path, origin in (origins or {}).items() if origin.kind != "default"}
        self.values: dict[str, tuple[Any, str]] = {}
        self.assumptions: list[Assumption] = []
        self.problems: list[Problem] = []
        self.notes: list[str] = []

    def mark(self, path: str) -> Mark | None:
        """Where a dotted path was written; the nearest parent's place if it was not."""
        origin = self._origin(path)
        return origin.mark if origin else None

    def is_stated(self, path: str) -> bool:
        """Whether somebody stated the value itself."""
        return path in self._origins

    def _origin(self, path: str) -> Origin | None:
        """Who stated a value, or the nearest parent that somebody stated."""
        while path:
            if path in self._origins:
                return self._origins[path]
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
        """Notes something wrong at a path; a change says which one it is."""
        origin = self._origin(path)
        label = f"{path}: "
        if origin is not None and origin.kind == "--set":
            label = f"--set {origin.name}: " + ("" if origin.name.startswith(f"{path}=") else label)
        elif origin is not None and origin.kind in ("what_if", "candidate"):
            label = f"{origin}: {label}"
        self.problems.append(Problem(f"{label}{message}", advice, origin.mark if origin else None))

    def note(self, path: str, message: str) -> None:
        """Notes what the reader should know of a value, which is not wrong."""
        mark = self.mark(path)
        self.notes.append(f"{mark}: {path}: {message}" if mark else f"{path}: {message}")

    def unsupported(self, path: str, what: str) -> None:
        """Notes something that is right but not simulated."""
        self.problem(path, f"{what} is not simulated yet", "see the list of what is modelled in docs/coverage.md")

    def stop(self) -> None:
        """Raises what has been gathered, if anything."""
        if self.problems:
            raise InputError(self.problems)
