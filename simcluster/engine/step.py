"""Solves a step: prices blocks, solves chunks, fills the tables of the step program, and runs it.

Columns of the step are idealisations in the order of `STEP_COLUMNS`; each keeps those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.block_kinds import BlockStore, kind_times
from simcluster.engine.chunk import CHUNK_COLUMNS, NEVER, ChunkTimes, WireTimes, solve_chunk
from simcluster.engine.maxplus import solve
from simcluster.engine.period import step_time
from simcluster.parallel.mesh import group_shape, stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT
from simcluster.parallel.stages import ChunkContents
from simcluster.program.chunk import ChunkShape
from simcluster.program.compression import wire
from simcluster.program.plan import (
    Bucket,
    StepPlan,
    block_names,
    buckets,
    chunk_shape,
    end_stages,
    message_bytes,
    stage_experts,
    stage_parameters,
    step_shape,
)
from simcluster.program.pricing import CLASSES, Machine
from simcluster.program.sizes import sized
from simcluster.program.step import POSITIONS, StepProgram, step_program
from simcluster.program.step_rows import PAIR
from simcluster.shapes import CollectiveKind, Estimate, GroupShape
from simcluster.timing.streaming import streaming_time

__all__ = [
    "EVIDENCE",
    "EVIDENCE_ROW",
    "STEP_COLUMNS",
    "BlockStore",
    "ChunkKey",
    "StepTimes",
    "sized_step_s",
    "solve_step",
]

Floats = NDArray[np.float64]

EVIDENCE = (*CLASSES, "data_parallel", "messages")  # what busy seconds rest on
EVIDENCE_ROW = {name: row for row, name in enumerate(EVIDENCE)}
STEP_COLUMNS = ("actual", "no_data_parallel", "no_expert_context", "no_messages", "balanced")
# For each of them the chunk column that gives its chunk times.
_CHUNK_COLUMN = (0, 1, 2, 2, 2)

ChunkKey = tuple[int, tuple[str, ...], ChunkShape]


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A solved step; times in seconds.

    total          (STEP_COLUMNS,) step time under each idealisation
    ends           (tasks, STEP_COLUMNS) end of every task
    chunks         chunk times by (kind, blocks, shape), kinds as in `parallel.schedules.order`
    blocks         block times by (kind, block); weight and input gradients apart only where the schedule splits them
    compute        (stages, block COLUMNS but the first) time that each stage spends in chunks over the whole step
    optimizer      (stages,) time of the optimizer
    reduce_s, gather_s   (stages,) whole time of gradient reduction and parameter gathers
    busy, evidence (EVIDENCE,) busy seconds of a mean stage; (EVIDENCE, 2) their weighted grade and sigma
    """

    program: StepProgram
    total: Floats
    ends: Floats
    chunks: Mapping[ChunkKey, ChunkTimes]
    blocks: Mapping[tuple[int, str], BlockTimes]
    compute: Floats
    optimizer: Floats
    reduce_s: Floats
    gather_s: Floats
    busy: Floats
    evidence: Floats


def solve_step(plan: StepPlan, machine: Machine, solved: BlockStore | None = None) -> StepTimes:
    """Runs the whole hierarchy for one plan on one machine; blocks in `solved` are not solved again.

    One store serves plans of one cluster and software; the result is the same with and without it.
    """
    chunks = {chunk for stage in plan.contents for chunk in stage}
    names = {name for chunk in chunks for name in block_names(plan, chunk)}
    store = {} if solved is None else solved
    program = step_program(step_shape(plan))
    blocks = {
        (kind, block): kind_times(plan, machine, block, kind, store)
        for kind in range(program.kinds)
        for block in sorted(names)
    }
    tables = _Tables(plan, machine, program, blocks)
    tables.fill()
    ends = solve(program.graph, tables.durations, tables.lags)
    busy, evidence = _evidence(plan, blocks, tables)
    return StepTimes(
        program=program,
        total=step_time(program, ends, tables.durations[program.graph.duration], tables.lags),
        ends=ends,
        chunks=tables.chunks,
        blocks=blocks,
        compute=tables.stage_compute(),
        optimizer=tables.optimizer.seconds * np.ones(plan.mesh.pp),
        reduce_s=tables.reduce_s,
        gather_s=tables.gather_s,
        busy=busy,
        evidence=evidence,
    )


def sized_step_s(plan: StepPlan, machine: Machine, times: StepTimes, sizes: Sequence[float]) -> float:
    """Time [s] of a step whose micro-batch k is `sizes[k]` times as large as the plan's.

    `times` is what `solve_step(plan, machine)` gave; see `simcluster.program.sizes` for what grows, and ValueError.
    """
    program = times.program
    tables = _Tables(plan, machine, program, times.blocks)
    tables.fill()
    one = sized(program, tables.durations[:, :1], tables.lags[:, :1], sizes)
    ends = solve(one.graph, one.durations, one.lags)
    return float(step_time(program, ends, one.durations, tables.lags[:, :1])[0])


class _Tables:
    """Fills the duration and lag tables of a step program."""

    def __init__(
        self, plan: StepPlan, machine: Machine, program: StepProgram, blocks: Mapping[tuple[int, str], BlockTimes]
    ) -> None:
        self.plan, self.machine, self.program, self.blocks = plan, machine, program, blocks
        columns = len(STEP_COLUMNS)
        self.durations = np.zeros((program.duration_rows, columns))
        self.lags = np.zeros((program.lag_rows, columns))
        self.runs = np.bincount(program.virtual_stage[program.kind == FORWARD], minlength=program.parts)
        self.virtual = [plan.contents[part % plan.mesh.pp][part // plan.mesh.pp] for part in range(program.parts)]
        self.reduce_s, self.gather_s = np.zeros(plan.mesh.pp), np.zeros(plan.mesh.pp)
        self.optimizer = self._optimizer()
        self.data_evidence: list[tuple[float, float, float]] = []
        self.message_evidence: list[tuple[float, float, float]] = []
        self.known: dict[tuple[str, float, GroupShape], tuple[float, float, float]] = {}
        self.cut: dict[tuple[ChunkContents, bool], tuple[Bucket, ...]] = {}
        self.chunks: dict[ChunkKey, ChunkTimes] = {}
        self.names: dict[tuple[ChunkContents, bool], tuple[str, ...]] = {}

    def fill(self) -> None:
        self._chunks()
        self._messages()
        self._buckets()
        self._gathers()
        self._tail()

    def chunk(self, contents: ChunkContents, kind: int, position: int) -> ChunkTimes:
        """Times of a chunk, solved once for each distinct one."""
        backward = kind != FORWARD
        names = self.names.get((contents, backward)) or block_names(self.plan, contents, backward)
        self.names[contents, backward] = names
        shape = chunk_shape(self.plan, len(names), backward, position)
        key = (kind, names, shape)
        if key not in self.chunks:
            blocks = [self.blocks[kind, name] for name in names]
            self.chunks[key] = solve_chunk(blocks, shape, self._traffic(names, shape))
        return self.chunks[key]

    def _traffic(self, names: tuple[str, ...], shape: ChunkShape) -> WireTimes:
        """Gathers and reductions of a chunk's units."""
        none = WireTimes.none(len(names))
        data = self.plan.data
        if data.units is None or not (shape.gathers or shape.scatters):
            return none
        experts = np.array([self.plan.expert_parameters.get(name, 0.0) for name in names])
        others = np.array([self.plan.block_parameters[name] for name in names]) - experts
        share = data.gradient_bytes / data.gather_group.ranks

        def gather(own: float, their: float) -> float:
            dense = self._priced("all_gather", own * data.parameter_bytes, data.gather_group)
            return dense + self._priced("all_gather", their * data.parameter_bytes, data.expert_group)

        def scatter(own: float, their: float) -> float:
            return self._reduced(own, data.gather_group) + self._reduced(their, data.expert_group)

        def replicas(own: float, _their: float) -> float:
            assert data.units is not None
            return self._priced("all_reduce", own * share, data.units.replicas)

        def over_units(wanted: bool, move: Callable[[float, float], float]) -> Floats:
            return np.array([move(*pair) for pair in zip(others, experts)]) if wanted else none.gather

        return WireTimes(
            gather=over_units(shape.gathers, gather),
            scatter=over_units(shape.scatters, scatter),
            replica=over_units(shape.replicas, replicas),
        )

    def _chunks(self) -> None:
        program, columns = self.program, list(_CHUNK_COLUMN)
        for kind in range(program.kinds):
            for position in range(POSITIONS):
                times = [self.chunk(contents, kind, position) for contents in self.virtual]
                seconds = np.array([one.duration for one in times])
                balanced = seconds[:, columns[-1]].mean()
                for part, one in enumerate(times):
                    row = program.chunk_row(kind, part, position)
                    self.durations[row] = one.duration[columns]
                    self.durations[row, -1] = balanced
                    if self.program.shape.wires:
                        self._wire(one, row)
        if program.shape.two_way:
            self._pairs()

    def _pairs(self) -> None:
        """Forward of one direction beside backward of the other: exchanges of each hide behind computing of both."""
        program, pp = self.program, self.plan.mesh.pp
        bare = CHUNK_COLUMNS.index("no_expert_context")
        for part in range(program.parts):
            other = (part + pp) % program.parts
            one, back = (self.chunk(self.virtual[p], k, 1).duration for p, k in ((part, FORWARD), (other, BACKWARD)))
            computing = one[bare] + back[bare]
            moving = np.maximum(one - one[bare], 0.0) + np.maximum(back - back[bare], 0.0)
            both = np.maximum.reduce([one, back, np.full_like(one, computing), moving])
            for position in range(POSITIONS):
                row = program.chunk_row(PAIR, part, position)
                self.durations[row] = both[list(_CHUNK_COLUMN)]
                rows = (program.chunk_row(FORWARD, part, position), program.chunk_row(BACKWARD, other, position))
                self.durations[row, -1] = self.durations[rows, -1].sum()

    def _wire(self, times: ChunkTimes, row: int) -> None:
        """Rows of a chunk's wires; only the first column has traffic."""
        program = self.program
        self.durations[program.wire_base + row, 0] = times.wire[0]
        self._busy(0, row, times.compute_after[0] - times.duration[0])
        self._busy(1, row, times.wire_after[0] - times.wire[0])
        if program.shape.replica_wires:
            self.durations[program.replica_base + row, 0] = times.replica[0]
            self._busy(2, row, times.replica_after[0] - times.replica[0])
            self._busy(3, row, times.replica_own[0] - times.replica[0])

    def _busy(self, path: int, row: int, lag: float) -> None:
        base = self.program.busy_wire_base + path * self.program.chunk_rows + row
        self.lags[base] = NEVER
        self.lags[base, 0] = lag

    def _message_s(self, part: int, neighbour: int) -> tuple[float, float]:
        """Time of a message, and of the gather that follows where it came in pieces to ranks that need the whole."""
        plan, pp = self.plan, self.plan.mesh.pp
        network = self.machine.network
        pair = stage_pair(plan.mesh, part % pp, neighbour % pp, network.domain_gpus, network.gpus_per_node)
        if pair.ranks == 1:
            return 0.0, 0.0
        message = self.machine.transfer("sendrecv", message_bytes(plan), pair)
        sent = float(message.seconds)
        self.message_evidence.append((sent * float(self.runs[part]), float(message.grade), float(message.sigma)))
        if not plan.pipeline.scatter or plan.layer.sequence_parallel or plan.mesh.tp == 1:
            return sent, 0.0
        whole = message_bytes(plan) * plan.mesh.tp
        return sent, float(self.machine.transfer("all_gather", whole, self.machine.groups["tp"]).seconds)

    def _messages(self) -> None:
        """A receiver waits for message and gather; a sender that blocks, or whose wire is busy, for the message."""
        program = self.program
        for kind in (FORWARD, BACKWARD):
            senders = (kind, INPUT) if kind == BACKWARD and program.shape.split else (kind,)
            for part in range(program.parts):
                target = program.receiver(kind, part)
                if target < 0:
                    continue
                sent, gathered = self._message_s(part, target)
                self.lags[program.message_lag(kind, target), :3] = sent + gathered
                for sender in senders:
                    chunk = self.chunk(self.virtual[part], sender, 1).duration[0]
                    wire_busy = max(0.0, sent - chunk)  # the next result cannot leave before this one has left
                    held = wire_busy if self.plan.pipeline.overlap_messages else sent
                    self.lags[program.own_lag(sender, part), :3] = held

    def _priced(self, kind: CollectiveKind, size: float, group: GroupShape) -> float:
        key = (kind, size, group)
        if size == 0 or group.ranks == 1:
            return 0.0
        if key not in self.known:
            estimate = self.machine.transfer(kind, size, group)
            self.known[key] = (float(estimate.seconds), float(estimate.grade), float(estimate.sigma))
        self.data_evidence.append(self.known[key])
        return self.known[key][0]

    def _reduced(self, parameters: float, group: GroupShape) -> float:
        """Time to sum gradients over a group, compressed if they are."""
        data = self.plan.data
        sent = wire(data.compression, data.reduce_kind, parameters, data.gradient_bytes, group, self.plan.arch.hidden)
        seconds = sent.share * self._priced(sent.kind, sent.bytes, group)
        if seconds and sent.codec_bytes:
            seconds += float(streaming_time(self.machine.kernels, sent.codec_bytes, 2).seconds)
        return seconds

    def _chunk_buckets(self, contents: ChunkContents, backward: bool) -> tuple[Bucket, ...]:
        key = (contents, backward)
        if key not in self.cut:
            self.cut[key] = buckets(self.plan, contents, backward)
        return self.cut[key]

    def _buckets(self) -> None:
        data = self.plan.data
        for row, (stage, chunk, index) in enumerate(self.program.bucket_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=True)[index]
            seconds = self._reduced(bucket.parameters, data.group) + self._reduced(bucket.experts, data.expert_group)
            self.durations[self.program.bucket_base + row, 0] = seconds
            self.reduce_s[stage] += seconds
            times = self.chunk(contents, self.program.gradient_kind[chunk * self.plan.mesh.pp + stage], 2)
            release = times.ends[bucket.last, 0] - times.duration[0]
            self.lags[self.program.release_base + row] = release

    def _gathers(self) -> None:
        data = self.plan.data
        for row, (stage, chunk, index) in enumerate(self.program.gather_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=False)[index]
            assert data.gather_kind != "none"
            seconds = self._priced(data.gather_kind, bucket.parameters * data.parameter_bytes, data.gather_group)
            seconds += self._priced(data.gather_kind, bucket.experts * data.parameter_bytes, data.expert_group)
            self.durations[self.program.gather_base + row, 0] = seconds
            self.gather_s[stage] += seconds
            needed = self.chunk(contents, FORWARD, 0 if self.plan.micro_batches > 1 else 2).starts[bucket.first, 0]
            self.lags[self.program.need_base + row] = -needed

    def _optimizer(self) -> Estimate:
        held = np.array([stage_parameters(self.plan, stage) for stage in self.plan.contents])
        experts = np.array([stage_experts(self.plan, stage) for stage in self.plan.contents])
        data = self.plan.data
        updated = (held - experts) / data.shards + experts / data.expert_shards
        gradients = held if data.units is None else updated  # what is summed in shards stays in shards
        moved = updated * self.plan.optimizer_bytes + gradients * self.plan.gradient_pass_bytes
        return streaming_time(self.machine.kernels, moved, np.full(len(held), 4.0))

    def _tail(self) -> None:
        plan, network = self.plan, self.machine.network
        world = group_shape(plan.mesh.world, 1, plan.mesh.world, network.domain_gpus, network.gpus_per_node)
        if not self.program.shape.rolling:  # there nobody waits for it
            self.durations[self.program.barrier_row, 0] = self._priced("all_reduce", 4.0, world)
        if plan.tied_exchange:
            pair = stage_pair(plan.mesh, *end_stages(plan), network.domain_gpus, network.gpus_per_node)
            shared = plan.padded_vocab * plan.arch.hidden / plan.mesh.tp * plan.data.gradient_bytes
            tied = self._priced("all_reduce", shared, GroupShape(2, pair.domains, pair.sharers))
            self.durations[self.program.barrier_row + 1, 0] = tied
        base = self.program.optimizer_base
        self.durations[base : base + plan.mesh.pp] = np.asarray(self.optimizer.seconds)[:, None]

    def stage_compute(self) -> Floats:
        """Seconds that each stage spends in its chunks, by block column from the second on: (stages, 4)."""
        total = np.zeros((self.plan.mesh.pp, len(COLUMNS) - 1))
        for part, contents in enumerate(self.virtual):
            both = self.chunk(contents, FORWARD, 1).duration + self.chunk(contents, BACKWARD, 1).duration
            total[part % self.plan.mesh.pp] += both[2:] * self.runs[part]
        return total


def _evidence(plan: StepPlan, blocks: Mapping[tuple[int, str], BlockTimes], tables: _Tables) -> tuple[Floats, Floats]:
    """Busy seconds of an average stage by EVIDENCE, with busy-weighted grade and sigma."""
    classes = len(CLASSES)
    busy, weighted = np.zeros(len(EVIDENCE)), np.zeros((len(EVIDENCE), 2))
    for stage, held in enumerate(plan.contents):
        for number, contents in enumerate(held):
            runs = tables.runs[number * plan.mesh.pp + stage]
            for name in block_names(plan, contents):
                for kind in (FORWARD, BACKWARD):
                    times = blocks[kind, name]
                    spent = times.busy * runs / plan.mesh.pp
                    busy[:classes] += spent
                    weighted[:classes] += spent[:, None] * times.evidence
    for name, found in (("data_parallel", tables.data_evidence), ("messages", tables.message_evidence)):
        row = EVIDENCE_ROW[name]
        for seconds, grade, sigma in found:
            busy[row] += seconds / plan.mesh.pp
            weighted[row] += seconds / plan.mesh.pp * np.array([grade, sigma])
    return busy, weighted / np.where(busy > 0, busy, 1.0)[:, None]
