"""The row solver compiled by numba, where that is installed: the same numbers to the bit, several times faster.

Each loop over columns does one thing on rows that do not overlap, so that it becomes vector instructions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from simcluster.engine.rows import Floats, Kernel, RowProgram, Tables
from simcluster.program.graph import NO_LAG, SOURCE

_BAND = 512  # columns: the rows in use fit the second cache
_PAYS = 1e9  # tasks times columns from which a second of compiling is won back


def kernel_for(work: float) -> Kernel | None:
    """The kernel for so many tasks times columns; None: the one of numpy."""
    found = find_spec("numba") if work >= _PAYS else None
    return compiled_kernel() if found and found.origin else None  # a mere folder of that name has no origin


@cache
def compiled_kernel() -> Kernel:
    """The compiled kernel; ImportError without numba."""
    import numba

    compiled = numba.njit(nogil=True)
    solve = compiled(_solver(*(compiled(loop) for loop in (_first, _two, _constant, _varying, _spend))))

    def kernel(program: RowProgram, tables: Tables, ends: Floats) -> None:
        lags = tables.lags if len(tables.lags) else np.zeros((1, 1))
        varies, shared = np.append(tables.varies, False), np.append(tables.shared, 0.0)  # NO_LAG is the last
        varying = np.where(varies[program.lag], program.lag, NO_LAG)
        plus = np.where(varies[program.lag], 0.0, shared[program.lag])
        own = np.cumsum(np.append(0, (program.source == SOURCE) | (varying != NO_LAG)))
        others = own[program.pointer[1:]] - own[program.pointer[:-1]]  # edges that do not add a constant to an end
        two = (np.diff(program.pointer) == 2) & (others == 0)
        edges = (program.pointer, program.source, plus, varying)
        solve(*edges, two, program.duration, program.target, tables.durations, lags, ends)

    return kernel


def _solver(first: Any, both: Any, constant: Any, varying: Any, spend: Any) -> Callable[..., None]:
    """All tasks for a narrow band of columns, then the next band: what a band needs fits the nearest caches."""

    def solve(
        pointer: Any,
        source: Any,
        plus: Any,
        lag: Any,
        two: Any,
        duration: Any,
        target: Any,
        durations: Any,
        lags: Any,
        ends: Any,
    ) -> None:
        space, none = np.empty(_BAND), np.zeros(_BAND)
        for start in range(0, ends.shape[1], _BAND):
            stop = min(start + _BAND, ends.shape[1])
            waits, zero = space[: stop - start], none[: stop - start]
            for task in range(len(duration)):
                edge, last = pointer[task], pointer[task + 1]
                into, seconds = ends[target[task], start:stop], durations[duration[task], start:stop]
                if two[task]:
                    one, other = ends[source[edge], start:stop], ends[source[edge + 1], start:stop]
                    both(into, one, plus[edge], other, plus[edge + 1], seconds)
                    continue
                first(waits)
                for place in range(edge, last):
                    end = zero if source[place] == SOURCE else ends[source[place], start:stop]
                    if lag[place] == NO_LAG:
                        constant(waits, end, plus[place])
                    else:
                        varying(waits, end, lags[lag[place], start:stop])
                spend(into, waits, seconds)

    return solve


def _first(waits: Any) -> None:
    for column in range(len(waits)):
        waits[column] = 0.0


def _two(ends: Any, end: Any, plus: float, other: Any, more: float, seconds: Any) -> None:
    for column in range(len(ends)):
        one, two = end[column] + plus, other[column] + more
        later = two if two > one else one
        ends[column] = (later if later > 0.0 else 0.0) + seconds[column]


def _constant(waits: Any, end: Any, plus: float) -> None:
    for column in range(len(waits)):
        wait = end[column] + plus
        waits[column] = wait if wait > waits[column] else waits[column]


def _varying(waits: Any, end: Any, lags: Any) -> None:
    for column in range(len(waits)):
        wait = end[column] + lags[column]
        waits[column] = wait if wait > waits[column] else waits[column]


def _spend(ends: Any, waits: Any, seconds: Any) -> None:
    for column in range(len(waits)):
        ends[column] = waits[column] + seconds[column]
