"""Ranges of the inputs: all that is wrong is raised at once."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simcluster.errors import InputError, Problem
from simcluster.shapes import Num

Range = tuple[str, Num, float, float]  # name, value, lowest, highest


def problems_of(ranges: Iterable[Range], positive: Iterable[tuple[str, Num]] = ()) -> list[Problem]:
    """What is out of range, bounds included; `positive` must also not be 0. NaN is out of every range.

    >>> [str(p) for p in problems_of([("pue", 0.9, 1.0, 5.0)], [("gpus", 8)])]
    ['pue: 0.9 is out of range; give 1 or more, up to 5']
    """
    found = []
    for name, value, low, high in ranges:
        if not np.all((np.asarray(value) >= low) & (np.asarray(value) <= high)):
            upper = "" if high == np.inf else f", up to {high:g}"
            found.append(Problem(f"{name}: {_shown(value)} is out of range", f"give {low:g} or more{upper}"))
    for name, value in positive:
        if not np.all((np.asarray(value) > 0) & (np.asarray(value) < np.inf)):
            found.append(Problem(f"{name}: {_shown(value)} is out of range", "give more than 0"))
    return found


def _shown(value: Num) -> str:
    return f"{value:g}" if np.ndim(value) == 0 else "a value of the array"


def refuse(problems: list[Problem]) -> None:
    """Raises InputError if there are problems."""
    if problems:
        raise InputError(problems)
