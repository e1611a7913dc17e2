"""Tasks of states outside the GPU: copies of gradients, updates by the processors, copies of parameters.

Each stage has streams of its own for copies to the host, updates, copies to the GPU, and drives. The drives read one
piece ahead of the update and write behind it, one thing at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from simcluster.program.graph import NO_LAG, SOURCE
from simcluster.program.step_rows import StepRows

TO_HOST, UPDATE, TO_GPU, DRIVES = 4, 5, 6, 7  # streams behind those of computing, exchanges and wires, in stages

CopyRows = tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """What the copies wait for, as task numbers of the step program.

    reduced   of a piece (stage, chunk, index): the bucket that sums it
    made      (stage, chunk) the task at whose end gradients are complete, some of them before
    ends      (stages,) last chunk
    barrier   what all stages wait for before an update; None where each goes on by itself
    tied      exchange of a shared table, and the stages that take part
    """

    reduced: Mapping[tuple[int, int, int], int]
    made: Mapping[tuple[int, int], int]
    ends: Sequence[int]
    barrier: int | None
    tied: int
    holders: Sequence[int]


def add_offload(
    rows: StepRows,
    copies: CopyRows,
    waits: Waits,
    steps: Sequence[int],
    task: Callable[[int], int],
    edge: Callable[[int, int, int], None],
) -> None:
    """Adds the tasks of all pieces in the order of their duration rows.

    task   makes a task on a stream and gives its number
    edge   (consumer, producer, lag row) adds an edge
    """
    pp = rows.shape.pp
    kinds = (TO_HOST, UPDATE, TO_GPU, *((DRIVES, DRIVES) if rows.shape.drives else ()))
    made = [[task(kind * pp + stage) for stage, _, _ in copies] for kind in kinds]
    for stage in range(pp):
        own = [number for number, row in enumerate(copies) if row[0] == stage]
        if not own:
            continue
        columns = [[tasks[number] for number in own] for tasks in made]
        _to_host(rows, copies, own, columns[0], waits, edge)
        start = waits.ends[stage] if waits.barrier is None else waits.barrier
        for column, before in zip(columns[1:3], columns):
            _in_turn(column, edge)
            for one, needed in zip(column, before):
                edge(one, needed, NO_LAG)
        if waits.barrier is not None:
            edge(columns[1][0], start, NO_LAG)
        else:
            edge(columns[2][0], start, NO_LAG)  # parameters stay as they are until the last backward has read them
        edge(steps[stage], columns[2][-1], NO_LAG)
        if rows.shape.drives:
            _drives(columns[1], columns[3], columns[4], start, edge)
            edge(steps[stage], columns[4][-1], NO_LAG)


def _to_host(
    rows: StepRows,
    copies: CopyRows,
    own: Sequence[int],
    tasks: Sequence[int],
    waits: Waits,
    edge: Callable[[int, int, int], None],
) -> None:
    """Gradients leave once they are summed; those of a shared table, the last, once it is exchanged."""
    _in_turn(tasks, edge)
    for number, one in zip(own, tasks):
        stage, chunk, _ = copies[number]
        bucket = waits.reduced.get(copies[number])
        if bucket is None:
            edge(one, waits.made[stage, chunk], rows.copy_base + number)
        else:
            edge(one, bucket, NO_LAG)
    if copies[own[-1]][0] in waits.holders:
        edge(tasks[-1], waits.tied, NO_LAG)


def _in_turn(tasks: Sequence[int], edge: Callable[[int, int, int], None]) -> None:
    for before, one in zip((SOURCE, *tasks), tasks):
        edge(one, before, NO_LAG)


def _drives(
    updates: Sequence[int],
    reads: Sequence[int],
    writes: Sequence[int],
    start: int,
    edge: Callable[[int, int, int], None],
) -> None:
    """Read, read, write, read, write, …, write: two pieces are in the host at a time."""
    order = [reads[0]]
    for read, write in zip(reads[1:], writes):
        order += [read, write]
    _in_turn([*order, writes[-1]], edge)
    edge(reads[0], start, NO_LAG)
    for read, update, write in zip(reads, updates, writes):
        edge(update, read, NO_LAG)
        edge(write, update, NO_LAG)
