"""A solved step as a list of spans: what each stage does when, on its compute stream and on its wires.

Spans of one stage, stream and direction never overlap; the last one ends with the step. One replica is shown: all do
the same. Traffic inside a chunk (tensor, expert, context parallelism) is part of its span.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.chunk import ChunkTimes
from simcluster.engine.step import StepTimes
from simcluster.parallel.mesh import stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT
from simcluster.program.graph import NO_LAG, SOURCE
from simcluster.program.plan import StepPlan, block_names, buckets, chunk_shape, message_bytes
from simcluster.program.pricing import Machine
from simcluster.program.step import POSITIONS

Stream: TypeAlias = Literal["compute", "data_parallel", "replicas", "messages"]
Kind: TypeAlias = Literal[
    "forward",
    "backward",
    "input_gradients",
    "weight_gradients",
    "reduce",
    "gather",
    "norm",
    "tied_embedding",
    "optimizer",
]
Floats = NDArray[np.float64]

_KINDS: tuple[Kind, ...] = ("forward", "backward", "weight_gradients", "input_gradients")  # of operations, by number
_NOTHING = 1e-12  # share of a step below which a span is what rounding leaves of none


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time on one pipeline stage.

    stream       compute; data_parallel: gradients and parameters on the wire; replicas: sums over copies of a shard;
                 messages: activations and their gradients on the way to the next stage
    kind         of a message and of a shard's traffic: the pass that it belongs to; backward is input and weight
                 gradients at once
    micro_batch  from 0; -1 for what belongs to the whole step
    part         virtual stage over the whole pipeline; -1 for what belongs to the stage
    start_s, end_s   from the start of the step
    """

    stage: int
    stream: Stream
    kind: Kind
    micro_batch: int
    part: int
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """Length."""
        return self.end_s - self.start_s


def timeline(plan: StepPlan, machine: Machine, times: StepTimes) -> tuple[Span, ...]:
    """Spans of a step by stage, stream and start; `times` is what `solve_step(plan, machine)` gave.

    Of a forward that runs beside a backward (DualPipe) each is shown with its share of the time of both, the forward
    first.
    """
    steps = _Steps(plan, machine, times)
    least = _NOTHING * float(times.total[0])
    spans = (*steps.chunks(), *steps.messages(), *steps.gathers(), *steps.buckets(), *steps.tail())
    shown = [span for span in spans if span.duration_s > least]
    return tuple(sorted(shown, key=lambda one: (one.stage, one.stream, one.start_s, one.end_s)))


def busy_s(spans: tuple[Span, ...], stages: int, stream: Stream = "compute") -> Floats:
    """(stages,) seconds that a stream of each stage is in use.

    >>> one = Span(0, "compute", "forward", 0, 0, 0.0, 2.0)
    >>> busy_s((one, Span(1, "compute", "forward", 0, 1, 2.0, 5.0)), 2).tolist()
    [2.0, 3.0]
    """
    total = np.zeros(stages)
    for span in spans:
        if span.stream == stream:
            total[span.stage] += span.duration_s
    return total


class _Steps:
    """Reads spans off a solved program; ends are those of the first column, the step as it is."""

    def __init__(self, plan: StepPlan, machine: Machine, times: StepTimes) -> None:
        self.plan, self.machine, self.times, self.program = plan, machine, times, times.program
        self.ends = times.ends[:, 0]
        self.pp = plan.mesh.pp
        self.wires = self.program.shape.wire_count
        self.behind = self.program.chunk_tasks * (1 + self.wires)  # first task behind the chunks and their wires

    def chunk(self, kind: int, part: int, position: int) -> ChunkTimes:
        """Times of a chunk by kind of operation, virtual stage, and place of its micro-batch."""
        contents = self.plan.contents[part % self.pp][part // self.pp]
        names = block_names(self.plan, contents, kind != FORWARD)
        return self.times.chunks[kind, names, chunk_shape(self.plan, len(names), kind != FORWARD, position)]

    def position(self, micro: int) -> int:
        if micro == self.plan.micro_batches - 1:
            return POSITIONS - 1
        return min(micro, 1)

    def chunks(self) -> Iterator[Span]:
        """All that is computed for every micro-batch, and the traffic of its shards."""
        program = self.program
        table = {
            (kind, part, place): self.chunk(kind, part, place)
            for kind in range(program.kinds)
            for part in range(program.parts)
            for place in {self.position(micro) for micro in range(self.plan.micro_batches)}
        }
        streams: tuple[Stream, ...] = ("compute", "data_parallel", "replicas")
        for task in range(program.chunk_tasks):
            kind, micro, part = (int(row[task]) for row in (program.kind, program.micro, program.virtual_stage))
            one = table[kind, part, self.position(micro)]
            if program.pair[task]:
                yield self._span(part % self.pp, "compute", _KINDS[kind], self._half(task, table), micro, part)
                continue
            for wire, length in enumerate((one.duration, one.wire, one.replica)[: 1 + self.wires]):
                end = float(self.ends[task + wire * program.chunk_tasks])
                when = (end - float(length[0]), end)
                yield self._span(part % self.pp, streams[wire], _KINDS[kind], when, micro, part)

    def _half(self, task: int, table: Mapping[tuple[int, int, int], ChunkTimes]) -> tuple[float, float]:
        """Share of an overlapped pair's time that one of the two is shown with."""
        program = self.program
        first = task - int(program.pair[task] == 2)
        end, whole = float(self.ends[first]), float(self.times.durations[program.graph.duration[first], 0])
        ahead, behind = (
            float(table[int(program.kind[one]), int(program.virtual_stage[one]), 1].duration[0])
            for one in (first, first + 1)
        )
        middle = end - whole * behind / (ahead + behind) if ahead + behind else end
        return (end - whole, middle) if task == first else (middle, end)

    def messages(self) -> Iterator[Span]:
        """Results on their way to the next stage; they leave as their chunk ends."""
        program = self.program
        passes: tuple[tuple[int, Kind], ...] = ((FORWARD, "forward"), (BACKWARD, "backward"))
        for way, kind in passes:
            for part in range(program.parts):
                target = program.receiver(way, part)
                if target < 0:
                    continue
                seconds = self._message_s(part, target)
                sends = np.isin(program.kind, (FORWARD,) if way == FORWARD else (BACKWARD, INPUT))
                for task in np.flatnonzero(sends & (program.virtual_stage == part)).tolist():
                    end = float(self.ends[task])
                    micro = int(program.micro[task])
                    yield self._span(part % self.pp, "messages", kind, (end, end + seconds), micro, part)

    def _message_s(self, part: int, neighbour: int) -> float:
        network = self.machine.network
        pair = stage_pair(
            self.plan.mesh, part % self.pp, neighbour % self.pp, network.domain_gpus, network.gpus_per_node
        )
        if pair.ranks == 1:
            return 0.0
        return float(self.machine.transfer("sendrecv", message_bytes(self.plan), pair).seconds)

    def gathers(self) -> Iterator[Span]:
        """Gathers of sharded parameters, in front of the first forward or behind the optimizer."""
        for row, (stage, chunk, _) in enumerate(self.program.gather_rows):
            task = self.behind + row
            part = chunk * self.pp + stage
            yield self._span(stage, "data_parallel", "gather", (self._start(task), float(self.ends[task])), -1, part)

    def buckets(self) -> Iterator[Span]:
        """Gradient buckets; each starts as its last gradient is there and the bucket before it has gone."""
        first = self.behind + len(self.program.gather_rows)
        for row, (stage, chunk, index) in enumerate(self.program.bucket_rows):
            part = chunk * self.pp + stage
            one = self.chunk(self.program.gradient_kind[part], part, POSITIONS - 1)
            bucket = buckets(self.plan, self.plan.contents[stage][chunk], backward=True)[index]
            release = float(one.ends[bucket.last, 0] - one.duration[0])
            task = first + row
            when = (self._start(task, release), float(self.ends[task]))
            yield self._span(stage, "data_parallel", "reduce", when, -1, part)

    def tail(self) -> Iterator[Span]:
        """Gradient norm and tied embedding, which all stages wait for, and the optimizer."""
        barrier = self.behind + len(self.program.gather_rows) + len(self.program.bucket_rows)
        norm = (self._start(barrier), float(self.ends[barrier]))
        tied = (self._start(barrier + 1), float(self.ends[barrier + 1]))
        holders = self.program.shape.ends or (0, self.pp - 1)
        for stage in range(self.pp):
            task = barrier + 2 + stage
            if stage in holders:
                yield self._span(stage, "messages", "tied_embedding", tied)
            yield self._span(stage, "data_parallel", "norm", norm)
            yield self._span(stage, "compute", "optimizer", (self._start(task), float(self.ends[task])))

    def _start(self, task: int, lag_s: float = 0.0) -> float:
        """When a task may start: as all that it waits for has ended; `lag_s` later where the graph names a lag."""
        graph = self.program.graph
        edges = slice(graph.pointer[task], graph.pointer[task + 1])
        start = 0.0
        for before, lag in zip(graph.predecessor[edges], graph.lag[edges]):
            end = 0.0 if before == SOURCE else float(self.ends[before])
            start = max(start, end + (0.0 if lag == NO_LAG else lag_s))
        return start

    @staticmethod
    def _span(
        stage: int, stream: Stream, kind: Kind, when: tuple[float, float], micro_batch: int = -1, part: int = -1
    ) -> Span:
        return Span(stage, stream, kind, micro_batch, part, *when)
