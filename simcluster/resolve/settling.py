"""Settles one value after another: as stated, else as the catalogue has it, noted with its reason and its doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from simcluster.errors import InputError
from simcluster.hardware.found import Found
from simcluster.resolve.terms import Doubt
from simcluster.resolve.trail import Trail

Value = TypeVar("Value")
# Standard deviation of ln value by the kind of evidence. Estimates: quotes for one product differ by a few percent from
# a list, prices put together from parts or read off a market by a fifth (rents of one GPU and term differ by more).
_SIGMA = {"datasheet": 0.05, "measured": 0.1, "derived": 0.1, "estimate": 0.2}


class Settler:
    """Settles values of one purchase or rent and gathers how sure each is, by its name.

    doubts   of what nobody stated; a stated value is taken as it is
    """

    def __init__(self, trail: Trail) -> None:
        self.trail = trail
        self.doubts: dict[str, Doubt] = {}

    def take(self, name: str, path: str, stated: float | None, look_up: Callable[[], Found]) -> float:
        """A stated value, else the catalogue's; what it lacks is noted as a problem, and the value is 0 until then."""
        if stated is not None:
            return stated
        found = noted(self.trail, path, look_up)
        return self.assumed(name, path, found) if found is not None else 0.0

    def assumed(self, name: str, path: str, found: Found, scale: float = 1.0) -> float:
        """The catalogue's value, listed at a path in units of `scale`."""
        self.trail.assume(path, found.value * scale, reason(found))
        self.doubts[name] = doubt(found)
        return found.value


def settled(trail: Trail, path: str, stated: float | None, look_up: Callable[[], Found]) -> float:
    """A stated value, else the catalogue's, whose doubt does not matter."""
    return Settler(trail).take(path, path, stated, look_up)


def noted(trail: Trail, path: str, look_up: Callable[[], Value]) -> Value | None:
    """What a look-up gives, or None with its problems noted at a path."""
    try:
        return look_up()
    except InputError as error:
        for problem in error.problems:
            if problem.mark is not None:
                trail.problems.append(problem)
            else:
                trail.problem(path, problem.message, problem.advice)
        return None


def reason(found: Found) -> str:
    """Why a value, and whether it is only an estimate."""
    return f"{found.why} (estimate)" if found.kind == "estimate" and "estimate" not in found.why else found.why


def doubt(found: Found) -> Doubt:
    """How sure a value is: what its range or its sources say, else by the kind of evidence."""
    return Doubt(found.row or found.why, found.spread or _SIGMA[found.kind])
