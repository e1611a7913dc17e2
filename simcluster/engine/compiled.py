"""The row solver compiled by numba, where that is installed: the same numbers to the bit, several times faster."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from simcluster.engine.rows import Kernel, RowProgram, Tables
from simcluster.program.graph import NO_LAG, SOURCE

_PAYS = 1e9  # tasks times columns from which a second of compiling is won back


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
        inner(
            program.pointer,
            program.source,
            program.lag,
            program.duration,
            program.target,
            tables.durations,
            tables.shared,
            tables.varies,
            lags,
            ends,
        )

    return kernel


def _solve(
    pointer: Any,
    source: Any,
    lag: Any,
    duration: Any,
    target: Any,
    durations: Any,
    shared: Any,
    varies: Any,
    lags: Any,
    ends: Any,
) -> None:
    """All tasks for a narrow band of columns, then the next band: what a band needs fits the nearest cache."""
    columns = ends.shape[1]
    band = 128
    waits = np.empty(band)
    for start in range(0, columns, band):
        width = min(band, columns - start)
        for task in range(len(duration)):
            for column in range(width):
                waits[column] = 0.0
            for edge in range(pointer[task], pointer[task + 1]):
                row, own = lag[edge], source[edge]
                differs = row != NO_LAG and varies[row]
                plus = 0.0 if row == NO_LAG or differs else shared[row]
                for column in range(width):
                    wait = 0.0 if own == SOURCE else ends[own, start + column]
                    wait += lags[row, start + column] if differs else plus
                    waits[column] = max(waits[column], wait)
            for column in range(width):
                ends[target[task], start + column] = waits[column] + durations[duration[task], start + column]
