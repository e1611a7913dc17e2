"""Look-up of a named choice, with the nearest name when there is none."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TypeVar

from simcluster.errors import InputError, Problem

Choice = TypeVar("Choice")


def look_up(table: Mapping[str, Choice], name: str, path: str) -> Choice:
    """The entry of that name; InputError that names `path`, the value and the legal names when there is none.

    >>> look_up({"none": 1, "zero-1": 2}, "zero-1", "training.sharding.strategy")
    2
    """
    if name in table:
        return table[name]
    close = difflib.get_close_matches(str(name), list(table), 1)
    guess = f"did you mean {close[0]!r}? " if close else ""
    raise InputError(Problem(f"{path}: unknown name {name!r}", f"{guess}known: {', '.join(table)}"))
