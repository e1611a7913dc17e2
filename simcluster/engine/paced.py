"""A step whose nodes run at unlike speeds: every replica's pipeline at its own stages' paces, then what all wait for.

A pace is the time that a stage's nodes take over that of a typical node. Durations grow linearly with it. What replicas
do together waits for the latest of them; what lies behind the gradients runs at the pace of the slowest replica.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import BlockTimes
from simcluster.engine.compiled import kernel_for
from simcluster.engine.maxplus import distinct, last_tasks, makespan, solve
from simcluster.engine.rows import BLOCK, RowSolver
from simcluster.engine.step import StepTimes
from simcluster.engine.step_tables import StepTables
from simcluster.program.graph import NO_LAG, SOURCE, Ints, TaskGraph, graph_from_edges
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine
from simcluster.program.step import StepProgram

Floats = NDArray[np.float64]

_NO_TENSOR = 2  # column of a block's times that has computing alone
_SLOWER = 1.1  # pace at which chunks are solved again, for the growth between it and 1
_LONG_AGO = -1e17  # a lag below it never binds
_FEW = 512  # columns up to which going level by level is faster


@dataclass(frozen=True)
class PacedStep:
    """A step program with times that depend on the paces of its stages.

    durations, lags     (rows,) seconds at pace 1
    growth, lag_growth  (rows,) seconds more for each unit of pace above 1
    stages              of the pipeline
    behind              (tasks,) marks what runs once all replicas' gradients are there
    """

    graph: TaskGraph
    durations: Floats
    growth: Floats
    lags: Floats
    lag_growth: Floats
    stages: int
    behind: NDArray[np.bool_]

    @cached_property
    def stage_of_row(self) -> Ints:
        """(rows,) stage that each duration belongs to: its task's stream counts through the stages."""
        found = np.zeros(len(self.durations), dtype=np.int64)
        found[self.graph.duration] = self.graph.stream % self.stages
        return found

    @cached_property
    def stage_of_lag(self) -> Ints:
        """(rows,) stage of the task that waits."""
        consumer = np.repeat(np.arange(len(self.graph)), np.diff(self.graph.pointer))
        used = self.graph.lag != NO_LAG
        found = np.zeros(len(self.lags), dtype=np.int64)
        found[self.graph.lag[used]] = self.graph.stream[consumer[used]] % self.stages
        return found

    @cached_property
    def stage_s(self) -> tuple[Floats, Floats]:
        """(stages,) seconds that each stage computes at pace 1, and how many more a unit of pace adds."""
        own = ~self.behind & (self.graph.stream < self.stages)
        rows, stage = self.graph.duration[own], self.graph.stream[own]
        base = np.bincount(stage, self.durations[rows], self.stages).astype(np.float64)
        return base, np.bincount(stage, self.growth[rows], self.stages).astype(np.float64)

    @cached_property
    def healthy_s(self) -> float:
        """Step time with every node typical."""
        return float(solve(self.graph, self.durations[:, None], self.lags[:, None]).max(initial=0.0))

    @cached_property
    def tail(self) -> _Tail:
        """What lies behind the gradients, as a graph of its own."""
        return _tail(self)


def paced_step(plan: StepPlan, machine: Machine, times: StepTimes) -> PacedStep:
    """The step that `times = solve_step(plan, machine)` solved, with computing that grows with pace.

    Chunks are solved at pace 1 and at 1.1 and taken as linear between and beyond; exchanges do not grow.
    """
    base = StepTables(plan, machine, times.program, times.blocks)
    base.fill()
    slower = StepTables(plan, machine, times.program, {key: _slowed(block) for key, block in times.blocks.items()})
    slower.known, slower.cut, slower.names = base.known, base.cut, base.names  # prices do not depend on pace
    slower.fill()
    durations, lags = base.durations[:, 0], base.lags[:, 0]
    growth = (slower.durations[:, 0] - durations) / (_SLOWER - 1.0)
    binds = (lags > _LONG_AGO) & (slower.lags[:, 0] > _LONG_AGO)
    lag_growth = np.where(binds, slower.lags[:, 0] - lags, 0.0) / (_SLOWER - 1.0)
    lag_growth[np.abs(lag_growth) < 1e-9 * float(times.total[0])] = 0.0  # what rounding leaves
    program = times.program
    steps = slice(program.optimizer_base, program.optimizer_base + plan.mesh.pp)
    growth[steps] = durations[steps]
    return PacedStep(program.graph, durations, growth, lags, lag_growth, plan.mesh.pp, _behind(program))


def plain_step(program: StepProgram, durations: Floats, lags: Floats | None = None) -> PacedStep:
    """A program with chunks that take all of their time at their stage's pace, and nothing else that does."""
    growth = np.where(np.arange(len(durations)) < program.bucket_base, durations, 0.0)
    known = np.zeros(program.lag_rows) if lags is None else lags
    stages = program.shape.pp
    return PacedStep(program.graph, durations, growth, known, np.zeros(len(known)), stages, _behind(program))


def step_times(step: PacedStep, paces: Floats, block: int = BLOCK) -> Floats:
    """Step times [s] of samples: (samples,) from paces (samples, replicas, stages). Exact for the given paces."""
    samples, replicas, stages = paces.shape
    first, number = distinct(paces.reshape(samples * replicas, stages))
    columns = paces.reshape(-1, stages)[first]
    front = last_tasks(step.graph, step.lags[:, None])
    front = [task for task in front if not step.behind[task]]
    needed = step.tail.needed
    keep = [*needed.tolist(), *front]
    ends: Floats = _ends(step, columns, keep, block)[:, number].reshape(len(keep), samples, replicas).max(axis=2)
    latest: Floats = ends[len(needed) :].max(axis=0, initial=0.0)
    if not len(step.tail.graph):
        return latest
    slowest = paces.max(axis=1)
    durations = step.durations[:, None] + step.growth[:, None] * (slowest[:, step.stage_of_row].T - 1.0)
    lags = np.zeros((len(step.lags) + len(needed), samples))
    lags[: len(step.lags)] = step.lags[:, None]
    lags[len(step.lags) :] = ends[: len(needed)]
    found: Floats = np.maximum(latest, makespan(step.tail.graph, durations, lags))
    return found


def _ends(step: PacedStep, columns: Floats, keep: list[int], block: int) -> Floats:
    """Ends of some tasks for columns of paces (columns, stages)."""
    count = len(columns)
    moving, shifting = np.flatnonzero(step.growth), np.flatnonzero(step.lag_growth)
    work = len(step.graph) * count
    if count <= _FEW and not kernel_for(work):
        durations = step.durations[:, None] + step.growth[:, None] * (columns[:, step.stage_of_row].T - 1.0)
        lags = step.lags[:, None] + step.lag_growth[:, None] * (columns[:, step.stage_of_lag].T - 1.0)
        return solve(step.graph, durations, lags)[keep]
    width = min(block, count)
    varies = step.lag_growth != 0
    solver = RowSolver(step.graph, keep, len(step.durations), step.lags, varies, width, kernel_for(work))
    solver.tables.durations[:] = step.durations[:, None]
    found = np.empty((len(keep), count))
    for start in range(0, count, width):
        excess = columns[start : start + width].T - 1.0
        filled = excess.shape[1]
        for row in moving:
            _grown(
                solver.tables.durations[row, :filled],
                step.durations[row],
                step.growth[row],
                excess[step.stage_of_row[row]],
            )
        for row in shifting:
            _grown(
                solver.tables.lags[row, :filled], step.lags[row], step.lag_growth[row], excess[step.stage_of_lag[row]]
            )
        found[:, start : start + filled] = solver.run(filled)
    return found


def _grown(into: Floats, base: float, growth: float, excess: Floats) -> None:
    np.multiply(excess, growth, out=into)
    np.add(into, base, out=into)


def _slowed(block: BlockTimes) -> BlockTimes:
    """A block whose computing takes longer; a host that is behind hides that."""
    device = block.device + (_SLOWER - 1.0) * np.minimum(block.device, block.device[_NO_TENSOR])
    return replace(block, device=device, hosted=np.maximum(block.hosted, device))


def _behind(program: StepProgram) -> NDArray[np.bool_]:
    """Optimizer of every stage, and whatever waits for it."""
    graph, rows = program.graph, program.graph.duration
    behind = (rows >= program.optimizer_base) & (rows < program.optimizer_base + program.shape.pp)
    consumer = np.repeat(np.arange(len(graph)), np.diff(graph.pointer))
    while True:
        more = consumer[(graph.predecessor != SOURCE) & behind[graph.predecessor]]
        if behind[more].all():
            return np.asarray(behind)
        behind[more] = True


@dataclass(frozen=True)
class _Tail:
    """Tasks behind the gradients; lag rows beyond the step's are the ends of the tasks `needed`."""

    graph: TaskGraph
    needed: Ints


def _tail(step: PacedStep) -> _Tail:
    graph, tasks = step.graph, np.flatnonzero(step.behind)
    consumer = np.repeat(np.arange(len(graph)), np.diff(graph.pointer))
    inside = step.behind[consumer]
    consumer, producer, lag = consumer[inside], graph.predecessor[inside], graph.lag[inside]
    ahead = (producer != SOURCE) & ~step.behind[producer]
    if (lag[ahead] != NO_LAG).any():
        raise ValueError("what lies behind the gradients must wait for their ends, without a lag")
    needed, row = np.unique(producer[ahead], return_inverse=True)
    number = np.zeros(len(graph) + 1, dtype=np.int64)
    number[tasks], number[SOURCE] = np.arange(len(tasks)), SOURCE
    sources = np.where(ahead, SOURCE, number[producer])
    lags = lag.copy()
    lags[ahead] = len(step.lags) + row.ravel()
    whole = graph_from_edges(graph.duration[tasks], graph.stream[tasks], number[consumer], sources, lags)
    return _Tail(whole, needed)
