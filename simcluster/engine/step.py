"""Solves a step: prices blocks, solves chunks, fills the tables of the step program, and runs it.

Columns of the step are idealisations in the order of `STEP_COLUMNS`; each keeps those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import BlockTimes
from simcluster.engine.block_kinds import BlockStore, step_blocks
from simcluster.engine.chunk import ChunkTimes
from simcluster.engine.maxplus import solve
from simcluster.engine.period import step_time
from simcluster.engine.step_tables import STEP_COLUMNS, ChunkKey, StepTables
from simcluster.parallel.schedules.order import BACKWARD, FORWARD
from simcluster.program.plan import (
    StepPlan,
    block_names,
    step_shape,
)
from simcluster.program.pricing import CLASSES, Machine
from simcluster.program.sizes import sized
from simcluster.program.step import StepProgram, step_program

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
    not_moved_s    of a step whose states live outside the GPU: without what moves to and from the host
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
    not_moved_s: float = 0.0

    @property
    def levels(self) -> Floats:
        """Step time as it is, without what moves to and from the host, then under each further idealisation."""
        offloads = bool(self.program.copy_rows)
        return np.insert(self.total, 1, self.not_moved_s if offloads else self.total[0])


def solve_step(plan: StepPlan, machine: Machine, solved: BlockStore | None = None) -> StepTimes:
    """Runs the whole hierarchy for one plan on one machine; blocks in `solved` are not solved again.

    One store serves plans of one cluster and software; the result is the same with and without it.
    """
    store = {} if solved is None else solved
    program = step_program(step_shape(plan))
    blocks = step_blocks(plan, machine, program, store)
    tables = StepTables(plan, machine, program, blocks)
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
        not_moved_s=_not_moved_s(plan, machine, program, blocks),
    )


def _not_moved_s(
    plan: StepPlan, machine: Machine, program: StepProgram, blocks: Mapping[tuple[int, str], BlockTimes]
) -> float:
    """Step time if what moves to and from the host took no time; 0 if nothing does."""
    if plan.offload is None:
        return 0.0
    tables = StepTables(replace(plan, offload=plan.offload.free()), machine, program, blocks)
    tables.fill()
    durations, lags = tables.durations[:, :1], tables.lags[:, :1]
    ends = solve(program.graph, durations, lags)
    return float(step_time(program, ends, durations[program.graph.duration], lags)[0])


def sized_step_s(plan: StepPlan, machine: Machine, times: StepTimes, sizes: Sequence[float]) -> float:
    """Time [s] of a step whose micro-batch k is `sizes[k]` times as large as the plan's.

    `times` is what `solve_step(plan, machine)` gave; see `simcluster.program.sizes` for what grows, and ValueError.
    """
    program = times.program
    tables = StepTables(plan, machine, program, times.blocks)
    tables.fill()
    one = sized(program, tables.durations[:, :1], tables.lags[:, :1], sizes)
    ends = solve(one.graph, one.durations, one.lags)
    return float(step_time(program, ends, one.durations, tables.lags[:, :1])[0])


def _evidence(
    plan: StepPlan, blocks: Mapping[tuple[int, str], BlockTimes], tables: StepTables
) -> tuple[Floats, Floats]:
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
