"""The exceptions of simcluster.

    SimclusterError          exit code 1: could not answer
    ├── UsageError           2: the command line is wrong
    ├── InputError           3: a scenario, catalogue, profile or table is wrong; carries every problem at once
    └── LimitError           4: a limit that the user set is broken

Nothing here is raised for a defect of the program itself; those surface as tracebacks under --debug (exit code 70).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in a file; line and column count from 1, 0 means that they are unknown.

    >>> str(Mark("study.yaml", 12, 5))
    'study.yaml:12:5'
    """

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, what, and what to do about it.

    >>> str(Problem("tp: 16 does not divide 40 heads", "use 8", Mark("a.yaml", 3, 7)))
    'a.yaml:3:7: tp: 16 does not divide 40 heads; use 8'
    """

    message: str
    advice: str = ""
    mark: Mark | None = None

    def __str__(self) -> str:
        head = f"{self.mark}: " if self.mark else ""
        return f"{head}{self.message}" + (f"; {self.advice}" if self.advice else "")


class SimclusterError(Exception):
    """Base of all errors that a user can meet."""

    exit_code = 1


class UsageError(SimclusterError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class InputError(SimclusterError):
    """Files that the user gave, or the catalogue, hold something wrong; every problem is listed."""

    exit_code = 3

    def __init__(self, problems: Iterable[Problem] | Problem | str) -> None:
        if isinstance(problems, str):
            problems = Problem(problems)
        if isinstance(problems, Problem):
            problems = (problems,)
        unique = dict.fromkeys(problems)
        self.problems: tuple[Problem, ...] = tuple(sorted(unique, key=lambda p: p.mark or Mark("")))
        super().__init__("\n".join(str(problem) for problem in self.problems))


class LimitError(SimclusterError):
    """A limit that the user set is broken."""

    exit_code = 4
