"""Micro-batches of unequal size: a step program whose every chunk and message has a duration of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.program.graph import NO_LAG, SOURCE, TaskGraph
from simcluster.program.step import StepProgram

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sized:
    """A graph with its numbers, ready for an engine; row i of the durations is task i, row i of the lags edge i."""

    graph: TaskGraph
    durations: Floats
    lags: Floats


def sized(program: StepProgram, durations: Floats, lags: Floats, sizes: Sequence[float]) -> Sized:
    """The step of a program whose micro-batch k is `sizes[k]` times as large as the one that the tables are for.

    Parameters: `durations` and `lags` (rows, columns) of the program [s]; `sizes` one for each micro-batch, > 0.
    Time of chunks and messages grows in proportion, which holds for large kernels; attention over longer sequences
    grows faster, small kernels slower; an overlapped pair grows as its parts would one after the other. Gradients,
    parameters and optimizer are the same. Raises ValueError for sizes that do not fit, and for programs
    whose chunks move shards of parameters.

    >>> from simcluster.program.step import StepShape, step_program
    >>> none = ((0,), (0,))
    >>> program = step_program(StepShape("1f1b", 2, 2, 1, None, none, none, True, False, False))
    >>> durations = np.ones((program.duration_rows, 1))
    >>> one = sized(program, durations, np.zeros((program.lag_rows, 1)), [1.0, 3.0])
    >>> one.durations[: program.chunk_tasks, 0].tolist()
    [1.0, 3.0, 1.0, 3.0, 1.0, 1.0, 3.0, 3.0]
    """
    factors = np.asarray(sizes, dtype=np.float64)
    if factors.shape != (program.shape.micro_batches,) or not (factors > 0).all():
        raise ValueError(f"{program.shape.micro_batches} micro-batches need as many sizes > 0, got {list(sizes)}")
    if program.shape.wires:
        raise ValueError("micro-batches of unequal size with shards that move inside chunks are not simulated")
    graph = program.graph
    times = durations[graph.duration]
    times[: program.chunk_tasks] *= _scales(program, durations, factors)
    waits = np.where((graph.lag == NO_LAG)[:, None], 0.0, lags[graph.lag])
    sent = (graph.lag != NO_LAG) & (graph.lag < program.release_base) & (graph.predecessor != SOURCE)
    waits[sent] *= factors[program.micro[graph.predecessor[sent]]][:, None]
    own = TaskGraph(np.arange(len(graph)), graph.stream, graph.pointer, graph.predecessor, np.arange(len(graph.lag)))
    return Sized(own, times, waits)


def _scales(program: StepProgram, durations: Floats, factors: Floats) -> Floats:
    """(chunk tasks, columns) by how much each chunk grows."""
    scales = np.repeat(factors[program.micro][:, None], durations.shape[1], axis=1)
    firsts = np.flatnonzero(program.pair == 1)
    for ahead in firsts.tolist():
        rows = [program.chunk_row(int(program.kind[t]), int(program.virtual_stage[t]), 1) for t in (ahead, ahead + 1)]
        parts = durations[rows]
        whole = parts.sum(axis=0)
        grown = factors[program.micro[[ahead, ahead + 1]]] @ parts
        scales[ahead] = np.divide(grown, whole, out=np.ones_like(whole), where=whole > 0)
    return scales
