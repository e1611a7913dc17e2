"""A solved step as a list of spans: what each stage does when, on its compute stream and on its wires.

Spans of one stage, stream and direction never overlap; the last one ends with the step. One replica is shown: all do
the same. Traffic inside a chunk (tensor, expert, context parallelism) is part of its span.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.chunk import ChunkTimes
from simcluster.engine.step import StepTimes
from simcluster.engine.step_tables import pair_key
from simcluster.parallel.mesh import stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, WEIGHT
from simcluster.program.graph import NO_LAG, SOURCE
from simcluster.program.plan import StepPlan, block_names, buckets, chunk_shape, end_stages, message_bytes
from simcluster.program.pricing import Machine
from simcluster.program.step import POSITIONS

Stream: TypeAlias = Literal[
    "compute", "beside", "data_parallel", "replicas", "messages", "to_host", "host", "to_gpu", "drives"
]
Kind: TypeAlias = Literal[
    "forward", "backward", "weight_gradient", "reduce", "gather", "norm", "tied_embedding", "optimizer",
    "copy_gradients", "update", "copy_parameters", "read_states", "write_states"
]  # fmt: skip
_OFFLOAD: tuple[tuple[Stream, Kind], ...] = (  # in the order of their duration rows
    ("to_host", "copy_gradients"),
    ("host", "update"),
    ("to_gpu", "copy_parameters"),
    ("drives", "read_states"),
    ("drives", "write_states"),
)
Floats = NDArray[np.float64]

_NOTHING = 1e-12  # share of a step below which a span is what rounding leaves of none


@dataclass(frozen=True, slots=True)
class Span:
    """Something that takes time on one pipeline stage.

    stream       compute; beside: the backward that runs overlapped with a forward (DualPipe); data_parallel: gradients
                 and parameters on the wire; replicas: sums over copies of a shard; messages: activations and their
                 gradients on the way to the next stage; to_host, to_gpu: copies of gradients and of updated
                 parameters; host: updates by the processors; drives: states read and written
    kind         backward: whole, or of input gradients alone where weight gradients follow apart; of a message and of
                 a shard's traffic: the pass that it belongs to
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
    """Spans of a step by stage, stream and start; `times` is what `solve_step(plan, machine)` gave."""
    steps = _Steps(plan, machine, times)
    least = _NOTHING * float(times.total[0])
    spans = (*steps.chunks(), *steps.messages(), *steps.gathers(), *steps.buckets(), *steps.tail(), *steps.offload())
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
        contents, backward = self.plan.contents[part % self.pp][part // self.pp], kind != FORWARD
        names = block_names(self.plan, contents, backward)
        return self.times.chunks[kind, names, chunk_shape(self.plan, len(names), backward, position)]

    def position(self, micro: int) -> int:
        if micro == self.plan.micro_batches - 1:
            return POSITIONS - 1
        return min(micro, 1)

    def chunks(self) -> Iterator[Span]:
        """Forward and backward of every micro-batch, and the traffic of their shards."""
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
                yield self._paired(task, kind, micro, part)
                continue
            for wire, length in enumerate((one.duration, one.wire, one.replica)[: 1 + self.wires]):
                end = float(self.ends[task + wire * program.chunk_tasks])
                yield self._span(part % self.pp, streams[wire], _pass(kind), (end - float(length[0]), end), micro, part)

    def _paired(self, task: int, kind: int, micro: int, part: int) -> Span:
        """A forward, or the backward beside it: both from the start to the end of their pair."""
        first = task - int(self.program.pair[task]) + 1
        own, other = (int(self.program.virtual_stage[one]) for one in (first, first + 1))
        held = (self.plan.contents[one % self.pp][one // self.pp] for one in (own, other))
        both = self.times.chunks[pair_key(self.plan, *held)].duration
        end = float(self.ends[first])
        stream: Stream = "compute" if task == first else "beside"
        return self._span(part % self.pp, stream, _pass(kind), (end - float(both[0]), end), micro, part)

    def messages(self) -> Iterator[Span]:
        """Results on their way to the next stage; they leave as their chunk ends."""
        program = self.program
        seconds = {
            (kind, part): self._message_s(part, program.receiver(kind, part))
            for kind in (FORWARD, BACKWARD)
            for part in range(program.parts)
            if program.receiver(kind, part) >= 0
        }
        for task in np.flatnonzero(program.kind != WEIGHT).tolist():
            kind, part = min(int(program.kind[task]), BACKWARD), int(program.virtual_stage[task])
            end = float(self.ends[task])
            when = (end, end + seconds.get((kind, part), 0.0))
            yield self._span(part % self.pp, "messages", _pass(kind), when, int(program.micro[task]), part)

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
        for stage in range(self.pp):
            task = barrier + 2 + stage
            if stage in end_stages(self.plan):
                yield self._span(stage, "messages", "tied_embedding", tied)
            yield self._span(stage, "data_parallel", "norm", norm)
            yield self._span(stage, "compute", "optimizer", (self._start(task), float(self.ends[task])))

    def offload(self) -> Iterator[Span]:
        """What moves to and from the host, and what happens there."""
        program = self.program
        if not program.copy_rows:
            return
        first = self.behind + len(program.gather_rows) + len(program.bucket_rows) + 2 + self.pp
        for number, task in enumerate(range(first, len(program.graph))):
            kind, row = divmod(number, program.copies)
            stage, chunk, _ = program.copy_rows[row]
            when = (self._start(task, self._made_s(row) if kind == 0 else 0.0), float(self.ends[task]))
            yield self._span(stage, *_OFFLOAD[kind], when, -1, chunk * self.pp + stage)

    def _made_s(self, row: int) -> float:
        """When gradients of a copy are complete, from the end of the chunk or of the wire that it waits for."""
        stage, chunk, index = self.program.copy_rows[row]
        part = chunk * self.pp + stage
        one = self.chunk(self.program.gradient_kind[part], part, POSITIONS - 1)
        bucket = buckets(self.plan, self.plan.contents[stage][chunk], backward=True)[index]
        if not self.wires:
            return float(one.ends[bucket.last, 0] - one.duration[0])
        wire = one.replica if self.program.shape.replica_wires else one.wire
        return float(one.reduced[bucket.last, 0] - wire[0])

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


def _pass(kind: int) -> Kind:
    return "forward" if kind == FORWARD else "weight_gradient" if kind == WEIGHT else "backward"
