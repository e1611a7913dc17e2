"""The row solver compiled by numba, where that is installed: the same numbers to the bit, several times faster."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from simcluster.engine.rows import Kernel, RowProgram, Tables
from simcluster.program.graph import NO_LAG, SOURCE

_PAYS = 1e9  # tasks times columns from which a second of compiling is won back
_BAND = 512  # columns solved together: what a band needs fits the nearer caches


def kernel_for(work: float) -> Kernel | None:
    """The kernel for so many tasks times columns; None: the one of numpy."""
    return compiled_kernel() if work >= _PAYS and find_spec("numba") else None


@cache
def compiled_kernel() -> Kernel:
    """The compiled kernel; ImportError without numba."""
    import numba

    inner = numba.njit(_solve, nogil=True)

    def kernel(program: RowProgram, tables: Tables, ends: Any) -> None:
        lags = tables.lags if len(tables.lags) else np.zeros((1, 1))
        known, differs = _lags(program, tables)
        inner(
            program.pointer,
            program.source,
            program.lag,
            known,
            differs,
            program.duration,
            program.target,
            tables.durations,
            lags,
            ends,
            _BAND,
        )

    return kernel


def _lags(program: RowProgram, tables: Tables) -> tuple[Any, Any]:
    """By edge: its lag where all columns share it, and whether they do not."""
    shared, varies = np.append(tables.shared, 0.0), np.append(tables.varies, False)
    row = np.where(program.lag == NO_LAG, len(tables.shared), program.lag)
    return np.where(varies[row], 0.0, shared[row]), varies[row]


def _solve(
    pointer: Any,
    source: Any,
    lag: Any,
    known: Any,
    differs: Any,
    duration: Any,
    target: Any,
    durations: Any,
    lags: Any,
    ends: Any,
    most: int,
) -> None:
    """All tasks for a band of columns, then the next band.

    Results pass through a buffer of their own: a task may write the row that it reads, which vector code must not.
    """
    waits = np.empty(most)
    for start in range(0, ends.shape[1], most):
        stop = min(start + most, ends.shape[1])
        width = stop - start
        for task in range(len(duration)):
            first, last = pointer[task], pointer[task + 1]
            spent, into = durations[duration[task], start:stop], ends[target[task], start:stop]
            plain = 0 < last - first <= 2
            for edge in range(first, last):
                plain &= source[edge] != SOURCE and not differs[edge]
            if plain:
                one, other = ends[source[first], start:stop], ends[source[last - 1], start:stop]
                ahead, behind = known[first], known[last - 1]
                for column in range(width):
                    wait, more = one[column] + ahead, other[column] + behind
                    wait = wait if wait > more else more
                    waits[column] = (wait if wait > 0.0 else 0.0) + spent[column]
            else:
                waits[:width] = 0.0
                for edge in range(first, last):
                    own, plus = source[edge], known[edge]
                    for column in range(width):
                        wait = plus + (lags[lag[edge], start + column] if differs[edge] else 0.0)
                        wait += 0.0 if own == SOURCE else ends[own, start + column]
                        waits[column] = waits[column] if waits[column] > wait else wait
                for column in range(width):
                    waits[column] += spent[column]
            for column in range(width):
                into[column] = waits[column]
