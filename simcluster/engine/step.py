"""Solves a step: prices blocks, solves chunks, fills the tables of the step program, and runs it.

Columns of the step are idealisations in the order of `STEP_COLUMNS`; each keeps those before it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS, BlockTimes, solve_block
from simcluster.engine.chunk import ChunkTimes, solve_chunk
from simcluster.engine.maxplus import solve
from simcluster.parallel.mesh import group_shape, stage_pair
from simcluster.parallel.stages import ChunkContents
from simcluster.program.plan import (
    BLOCKS,
    Bucket,
    StepPlan,
    block_names,
    block_ops,
    buckets,
    message_bytes,
    stage_parameters,
    step_shape,
)
from simcluster.program.pricing import CLASSES, Machine, price
from simcluster.program.step import POSITIONS, StepProgram, step_program
from simcluster.shapes import CollectiveKind, Estimate, GroupShape
from simcluster.timing.streaming import streaming_time

Floats = NDArray[np.float64]

STEP_COLUMNS = ("actual", "no_data_parallel", "no_messages", "balanced")


@dataclass(frozen=True, slots=True)
class StepTimes:
    """A solved step; times in seconds.

    total          (STEP_COLUMNS,) step time under each idealisation
    ends           (tasks, STEP_COLUMNS) end of every task
    chunks         chunk times by (pass, contents)
    blocks         block times by (pass, block)
    compute        (stages, block COLUMNS) time that each stage spends in chunks over the whole step
    optimizer      (stages,) time of the optimizer
    messages       {(stage, neighbour): seconds} of one message between stages
    reduce, gather (stage -> seconds) whole time of gradient reduction and parameter gathers
    evidence       (classes + data parallel, 2) busy-weighted grade and sigma; `busy` the weights
    """

    program: StepProgram
    total: Floats
    ends: Floats
    chunks: Mapping[tuple[bool, ChunkContents], ChunkTimes]
    blocks: Mapping[tuple[bool, str], BlockTimes]
    compute: Floats
    optimizer: Floats
    reduce_s: Floats
    gather_s: Floats
    busy: Floats
    evidence: Floats


def solve_step(plan: StepPlan, machine: Machine) -> StepTimes:
    """Runs the whole hierarchy for one plan on one machine."""
    blocks = {
        (backward, block): solve_block(ops, price(ops, machine))
        for backward in (False, True)
        for block in BLOCKS
        for ops in [block_ops(plan, block, backward)]
    }
    kinds = {(backward, chunk) for stage in plan.contents for chunk in stage for backward in (False, True)}
    chunks = {
        (backward, chunk): solve_chunk([blocks[backward, name] for name in block_names(chunk, backward)])
        for backward, chunk in kinds
    }
    program = step_program(step_shape(plan))
    tables = _Tables(plan, machine, program, chunks)
    tables.fill()
    ends = solve(program.graph, tables.durations, tables.lags)
    busy, evidence = _evidence(plan, blocks, tables)
    return StepTimes(
        program=program,
        total=ends.max(axis=0),
        ends=ends,
        chunks=chunks,
        blocks=blocks,
        compute=tables.stage_compute(),
        optimizer=tables.optimizer.seconds * np.ones(plan.mesh.pp),
        reduce_s=tables.reduce_s,
        gather_s=tables.gather_s,
        busy=busy,
        evidence=evidence,
    )


class _Tables:
    """Fills the duration and lag tables of a step program."""

    def __init__(
        self,
        plan: StepPlan,
        machine: Machine,
        program: StepProgram,
        chunks: Mapping[tuple[bool, ChunkContents], ChunkTimes],
    ) -> None:
        self.plan, self.machine, self.program, self.chunks = plan, machine, program, chunks
        columns = len(STEP_COLUMNS)
        self.durations = np.zeros((program.duration_rows, columns))
        self.lags = np.zeros((program.lag_rows, columns))
        self.virtual = [plan.contents[part % plan.mesh.pp][part // plan.mesh.pp] for part in range(program.parts)]
        self.reduce_s, self.gather_s = np.zeros(plan.mesh.pp), np.zeros(plan.mesh.pp)
        self.optimizer = self._optimizer()
        self.data_evidence: list[tuple[float, float, float]] = []
        self.known: dict[tuple[str, float], tuple[float, float, float]] = {}
        self.cut: dict[tuple[ChunkContents, bool], tuple[Bucket, ...]] = {}

    def fill(self) -> None:
        self._chunks()
        self._messages()
        self._buckets()
        self._gathers()
        self._tail()

    def _chunks(self) -> None:
        for backward in (False, True):
            times = np.array([self.chunks[backward, contents].duration[0] for contents in self.virtual])
            balanced = times.mean()
            for part, seconds in enumerate(times):
                row = self.program.chunk_row(int(backward), part, 0)
                self.durations[row : row + POSITIONS] = seconds
                self.durations[row : row + POSITIONS, 3] = balanced

    def _message_s(self, part: int, neighbour: int) -> float:
        """Time until the neighbour holds a virtual stage's result: the message, and a gather if it came in pieces."""
        plan, pp = self.plan, self.plan.mesh.pp
        network = self.machine.network
        pair = stage_pair(plan.mesh, part % pp, neighbour % pp, network.domain_gpus, network.gpus_per_node)
        if pair.ranks == 1:
            return 0.0
        seconds = float(self.machine.transfer("sendrecv", message_bytes(plan), pair).seconds)
        if plan.pipeline.scatter and not plan.layer.sequence_parallel and plan.mesh.tp > 1:
            whole = message_bytes(plan) * plan.mesh.tp
            seconds += float(self.machine.transfer("all_gather", whole, self.machine.groups["tp"]).seconds)
        return seconds

    def _messages(self) -> None:
        parts = self.program.parts
        for kind, step in ((0, 1), (1, -1)):
            for part in range(parts):
                target = part + step
                if not 0 <= target < parts:
                    continue
                seconds = self._message_s(part, target)
                self.lags[self.program.message_lag(kind, target), :2] = seconds
                chunk = self.chunks[bool(kind), self.virtual[part]].duration[0]
                wire_busy = max(0.0, seconds - chunk)  # the next result cannot leave before this one has left
                held = wire_busy if self.plan.pipeline.overlap_messages else seconds
                self.lags[self.program.own_lag(kind, part), :2] = held

    def _priced(self, kind: CollectiveKind, size: float, group: GroupShape) -> float:
        key = (kind, size)
        if key not in self.known:
            estimate = self.machine.transfer(kind, size, group)
            self.known[key] = (float(estimate.seconds), float(estimate.grade), float(estimate.sigma))
        self.data_evidence.append(self.known[key])
        return self.known[key][0]

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
            seconds = self._priced(data.reduce_kind, bucket.parameters * data.gradient_bytes, data.group)
            self.durations[self.program.bucket_base + row, 0] = seconds
            self.reduce_s[stage] += seconds
            times = self.chunks[True, contents]
            release = times.ends[bucket.last, 0] - times.duration[0]
            self.lags[self.program.release_base + row] = release

    def _gathers(self) -> None:
        data = self.plan.data
        for row, (stage, chunk, index) in enumerate(self.program.gather_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=False)[index]
            assert data.gather_kind != "none"
            seconds = self._priced(data.gather_kind, bucket.parameters * data.parameter_bytes, data.gather_group)
            self.durations[self.program.gather_base + row, 0] = seconds
            self.gather_s[stage] += seconds
            needed = self.chunks[False, contents].starts[bucket.first, 0]
            self.lags[self.program.need_base + row] = -needed

    def _optimizer(self) -> Estimate:
        held = np.array([stage_parameters(self.plan, stage) for stage in self.plan.contents])
        moved = held * (self.plan.optimizer_bytes / self.plan.data.shards + self.plan.gradient_pass_bytes)
        return streaming_time(self.machine.kernels, moved, np.full(len(held), 4.0))

    def _tail(self) -> None:
        plan, network = self.plan, self.machine.network
        world = group_shape(plan.mesh.world, 1, plan.mesh.world, network.domain_gpus, network.gpus_per_node)
        norm = self.machine.transfer("all_reduce", 4.0, world)
        self.durations[self.program.barrier_row, 0] = float(norm.seconds)
        if plan.tied_exchange:
            pair = stage_pair(plan.mesh, 0, plan.mesh.pp - 1, network.domain_gpus, network.gpus_per_node)
            shared = plan.padded_vocab * plan.arch.hidden / plan.mesh.tp * plan.data.gradient_bytes
            tied = self.machine.transfer("all_reduce", shared, GroupShape(2, pair.domains, pair.sharers))
            self.durations[self.program.barrier_row + 1, 0] = float(tied.seconds)
        base = self.program.optimizer_base
        self.durations[base : base + plan.mesh.pp] = np.asarray(self.optimizer.seconds)[:, None]

    def stage_compute(self) -> Floats:
        """Seconds that each stage spends in its chunks, by block column: (stages, COLUMNS)."""
        total = np.zeros((self.plan.mesh.pp, len(COLUMNS)))
        for part, contents in enumerate(self.virtual):
            both = self.chunks[False, contents].duration + self.chunks[True, contents].duration
            total[part % self.plan.mesh.pp] += both * self.plan.micro_batches
        return total


def _evidence(plan: StepPlan, blocks: Mapping[tuple[bool, str], BlockTimes], tables: _Tables) -> tuple[Floats, Floats]:
    """Busy seconds of an average stage by class, data-parallel traffic last, with busy-weighted grade and sigma."""
    busy, weighted = np.zeros(len(CLASSES) + 1), np.zeros((len(CLASSES) + 1, 2))
    for stage in plan.contents:
        for chunk in stage:
            for name in block_names(chunk):
                for backward in (False, True):
                    times = blocks[backward, name]
                    spent = times.busy * plan.micro_batches / plan.mesh.pp
                    busy[:-1] += spent
                    weighted[:-1] += spent[:, None] * times.evidence
    for seconds, grade, sigma in tables.data_evidence:
        busy[-1] += seconds / plan.mesh.pp
        weighted[-1] += seconds / plan.mesh.pp * np.array([grade, sigma])
    return busy, weighted / np.where(busy > 0, busy, 1.0)[:, None]
