"""A step program with the blocks of its chunks in the place of the chunks: what the event engine runs when transfers
inside chunks (sharded parameters), or the host that issues kernels, may meet others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.program.chunk import ChunkProgram
from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph, graph_from_edges
from simcluster.program.step import StepProgram

Floats = NDArray[np.float64]
ENTRY = -1  # unit of the task that stands for the start of a chunk


@dataclass(frozen=True)
class Inside:
    """A chunk's program with its numbers.

    durations   (4 blocks + 1,) of its rows [s]
    issued_s    (blocks,) earliest start of each block after the chunk's, because of the host [s]
    """

    program: ChunkProgram
    durations: Floats
    issued_s: Floats


@dataclass(frozen=True)
class Inlined:
    """A step of blocks; duration and lag rows are its own tasks and edges.

    durations, lags   (tasks,), (edges,) [s]
    origin            (tasks,) task of the step program that it is, or is a part of
    unit              (tasks,) duration row inside its chunk; ENTRY for a chunk's start and for what is no part of one
    last              (step tasks,) task that ends each; of a wire, its last transfer so far
    edge              (edges,) edge of the step program, or -1
    """

    graph: TaskGraph
    durations: Floats
    lags: Floats
    origin: Ints
    unit: Ints
    last: Ints
    edge: Ints


class _Inliner:
    def __init__(self, step: StepProgram, insides: Sequence[Inside]) -> None:
        self.step, self.insides = step, insides
        self.entry: list[int] = []
        self.durations: list[float] = []
        self.streams: list[int] = []
        self.origin: list[int] = []
        self.unit: list[int] = []
        self.edges: list[tuple[int, int, float, int]] = []
        self.last = np.zeros(len(step.graph), dtype=np.int64)

    def task(self, duration: float, stream: int, origin: int, unit: int = ENTRY) -> int:
        self.durations.append(duration)
        self.streams.append(stream)
        self.origin.append(origin)
        self.unit.append(unit)
        return len(self.durations) - 1

    def after(self, consumer: int, producer: int, lag: float = 0.0, edge: int = -1) -> None:
        self.edges.append((consumer, producer, lag, edge))

    def chunks(self) -> None:
        """Every chunk, and which transfer its wires have come to."""
        step = self.step
        pp, count = step.shape.pp, step.chunk_tasks
        stage, wires = -1, [SOURCE, SOURCE]
        for number, inside in enumerate(self.insides):
            own = int(step.graph.stream[number])
            wires = wires if own == stage else [SOURCE, SOURCE]
            stage = own
            first = self._chunk(number, inside, stage, pp, wires)
            program = inside.program
            for wire, tasks in enumerate((program.shards, program.replicas)):
                wires[wire] = first + tasks[-1] if tasks else wires[wire]
            self.last[number] = first + program.compute[-1] if program.compute else self.entry[number]
            for wire in range(step.shape.wire_count):
                self.last[number + (wire + 1) * count] = wires[wire] if wires[wire] != SOURCE else self.entry[number]

    def _chunk(self, number: int, inside: Inside, stage: int, pp: int, wires: Sequence[int]) -> int:
        """Tasks and edges of one chunk; returns the number of its first."""
        graph = inside.program.graph
        entry = self.task(0.0, stage, number)
        self.entry.append(entry)
        streams = (stage, stage + 2 * pp, stage + 3 * pp)
        first = entry + 1
        for own, row in enumerate(graph.duration.tolist()):
            task = self.task(float(inside.durations[row]), streams[graph.stream[own]], number, row)
            edges = range(graph.pointer[own], graph.pointer[own + 1])
            for edge in edges:
                before, lag = int(graph.predecessor[edge]), int(graph.lag[edge])
                wait = 0.0 if lag == NO_LAG else float(inside.issued_s[lag])
                self.after(task, entry if before == SOURCE else first + before, wait)
            if not edges:
                self.after(task, entry)
        for tasks, wire in ((inside.program.graph.stream == 1, wires[0]), (graph.stream == 2, wires[1])):
            found = np.flatnonzero(tasks)
            if found.size and wire != SOURCE:
                self.after(first + int(found[0]), wire)
        return first

    def rest(self, durations: Floats) -> None:
        """What is behind the chunks."""
        graph = self.step.graph
        for task in range(self.step.chunk_tasks * (1 + self.step.shape.wire_count), len(graph)):
            own = self.task(float(durations[graph.duration[task]]), int(graph.stream[task]), task)
            self.last[task] = own

    def between(self, lags: Floats, blocks: Mapping[int, int]) -> None:
        """Edges of the step; those with a lag row in `blocks` end, or begin, at a block."""
        graph, count = self.step.graph, self.step.chunk_tasks
        behind = count * (1 + self.step.shape.wire_count)
        consumers = np.repeat(np.arange(len(graph)), np.diff(graph.pointer)).tolist()
        rows = zip(consumers, graph.predecessor.tolist(), graph.lag.tolist())
        for edge, (consumer, producer, row) in enumerate(rows):
            inner = consumer < behind and count <= producer < behind
            if inner or count <= consumer < behind:
                continue  # chunks' wires wait for each other block by block
            block = blocks.get(row)
            lag = 0.0 if row == NO_LAG or block is not None else float(lags[row])
            to = self.entry[consumer] if consumer < count else int(self.last[consumer])
            source = SOURCE if producer == SOURCE else int(self.last[producer])
            if block is not None and consumer < count:
                to = self.entry[consumer] + 1 + self.insides[consumer].program.compute[block]
            elif block is not None:
                chunk = producer % count
                inside = self.insides[chunk].program
                source = self.entry[chunk] + 1 + (inside.reduced if producer >= count else inside.compute)[block]
            self.after(to, source, lag, edge)

    def finish(self) -> Inlined:
        consumer, producer, lag, edge = (np.array(column) for column in zip(*self.edges))
        order = np.argsort(consumer, kind="stable")
        tasks = np.arange(len(self.durations))
        graph = graph_from_edges(tasks, np.array(self.streams), consumer[order], producer[order], np.arange(len(order)))
        return Inlined(
            graph,
            np.array(self.durations),
            lag[order].astype(np.float64),
            np.array(self.origin),
            np.array(self.unit),
            self.last,
            edge[order],
        )


def inline(
    step: StepProgram, insides: Sequence[Inside], durations: Floats, lags: Floats, blocks: Mapping[int, int]
) -> Inlined:
    """Puts the blocks of every chunk in its place.

    Parameters: `insides` of every chunk task; `durations` and `lags` [s] of the step's rows; `blocks` the block of a
    chunk at whose end a gradient bucket may go (release rows), or at whose start a gather must be there (need rows), or
    whose gradients go to the host (copy rows) as they are made or, in shards, reduced.
    """
    work = _Inliner(step, insides)
    work.chunks()
    work.rest(durations)
    work.between(lags, blocks)
    return work.finish()
