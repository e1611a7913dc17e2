"""What makes a step as long as it is, in words: the ops on its critical path, and what a faster one would gain.

The shares of the path sum to the step time. What is not on it costs nothing as things are; what is on it may stop
costing once something else takes over, so gains are those of solving the step again with it faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import BlockTimes
from simcluster.engine.block_kinds import BlockStore, step_blocks
from simcluster.engine.critical import CriticalPath, critical_path
from simcluster.engine.maxplus import solve
from simcluster.engine.step import StepTimes
from simcluster.engine.step_tables import StepTables
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import CLASSES, Machine
from simcluster.program.step import StepProgram
from simcluster.units import format_percent, format_seconds

Floats = NDArray[np.float64]
Key = tuple[str, int]  # what, and which stage (-1: all together)
Namer = Callable[[int], Key]

_FASTER = 0.1  # share by which something is made faster to see what it gains
CHUNKS, MESSAGES = "forward and backward", "messages"  # chunks with the traffic of their shards
REDUCTION, GATHERS, NORM, TIED = "gradient reduction", "parameter gathers", "gradient norm", "tied embedding"
OPTIMIZER = "optimizer"
TO_HOST, UPDATE, TO_GPU = "copies of gradients to the host", "updates in the host", "copies of parameters to the GPU"
DRIVES = "reads and writes of states"
_OPERATIONS = (
    "GEMM kernels",
    "attention kernels",
    "memory-bound kernels",
    "exchanges of tensor parallelism",
    "exchanges of experts and of context",
)
_NOTICED = 1e-3  # share of a step below which a gain is not told
_ALL = -1  # in place of a stage


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the critical path.

    what, stage  what runs, and on which stage (-1: on all together)
    seconds      on the path
    share        of the step
    gain_s       by which the step gets shorter if all of this, on the path or not, takes 10 % less time
    """

    what: str
    stage: int
    seconds: float
    share: float
    gain_s: float

    def __str__(self) -> str:
        place = "" if self.stage < 0 else f" of stage {self.stage}"
        return f"{format_percent(self.share)} {self.what}{place}"


@dataclass(frozen=True, slots=True)
class CriticalStep:
    """A step's critical path.

    total_s  from the first task to the last; the step time, but for schedules that roll on into the next step, where it
             is more than the time from one step to the next
    parts    the longest first; their seconds sum to `total_s`
    levers   what is on the path, over all stages together, and by how much the step gets shorter if it takes 10 % less
             time [s]; the most first
    kernels  the same of operations by what they are, on the path or not, inside chunks
    """

    total_s: float
    parts: tuple[Part, ...]
    levers: tuple[tuple[str, float], ...]
    path: CriticalPath
    rolling: bool = False
    kernels: tuple[tuple[str, float], ...] = ()

    def sentence(self, most: int = 4) -> str:
        """The longest parts in words, those above half a percent."""
        shown = [str(part) for part in self.parts[:most] if part.share >= 0.005]
        rest = 1.0 - sum(part.share for part in self.parts[: len(shown)])
        others = [f"{format_percent(rest)} others"] if rest >= 0.005 else []
        subject = "From its first task to its last the step" if self.rolling else "The step"
        return f"{subject} takes {format_seconds(self.total_s)}: {', '.join([*shown, *others])}."

    def advice(self) -> str:
        """What would shorten the step most: on one stage, and on all."""
        if not self.levers or self.levers[0][1] <= 0:
            return "Nothing alone would shorten the step."
        what, gain = self.levers[0]
        found = [f"10% less {what} on all stages would shorten the step by {format_percent(gain / self.total_s)}"]
        best = max(self.parts, key=lambda part: part.gain_s)
        if best.stage >= 0 and best.gain_s > 0 and len({part.stage for part in self.parts}) > 1:
            gained = format_percent(best.gain_s / self.total_s)
            found.append(f"10% less {best.what} of stage {best.stage} alone by {gained}")
        shown = [one for one in self.kernels if one[1] > _NOTICED * self.total_s]
        found += [f"10% faster {what} by {format_percent(gain / self.total_s)}" for what, gain in shown]
        return f"{', '.join(found)}."


def critical_step(plan: StepPlan, machine: Machine, times: StepTimes) -> CriticalStep:
    """The critical path of the step that `times = solve_step(plan, machine)` solved, max-plus."""
    tables = _filled(plan, machine, times, times.blocks)
    found = read_path(times.program, tables.durations[:, 0], tables.lags[:, 0])
    return replace(found, kernels=_kernels(plan, machine, times, found.total_s))


def _filled(
    plan: StepPlan, machine: Machine, times: StepTimes, blocks: Mapping[tuple[int, str], BlockTimes]
) -> StepTables:
    tables = StepTables(plan, machine, times.program, blocks)
    tables.fill()
    return tables


def _kernels(plan: StepPlan, machine: Machine, times: StepTimes, total_s: float) -> tuple[tuple[str, float], ...]:
    """Seconds won by 10 % faster operations of each class, solved again from the kernels up; the most first."""
    columns: list[tuple[Floats, Floats]] = []
    for number in range(len(CLASSES)):
        store: BlockStore = {}
        pace = np.ones(len(CLASSES))
        pace[number] -= _FASTER
        blocks = step_blocks(plan, machine, times.program, store, pace)
        tables = _filled(plan, machine, times, blocks)
        columns.append((tables.durations[:, 0], tables.lags[:, 0]))
    durations, lags = (np.stack(tables, axis=1) for tables in zip(*columns))
    ends = solve(times.program.graph, durations, lags).max(axis=0, initial=0.0)
    gains = zip(_OPERATIONS, (max(0.0, total_s - float(end)) for end in ends))
    return tuple(sorted(gains, key=lambda one: -one[1]))


def read_path(program: StepProgram, durations: Floats, lags: Floats) -> CriticalStep:
    """The critical path of a step program with durations (rows,) and lags (rows,) in seconds."""
    path = critical_path(program.graph, durations, lags)
    rows, waits = _Rows(program), path.lag_counts
    seconds: dict[Key, float] = {}
    for row in np.flatnonzero(path.durations):
        _add(seconds, rows.duration(int(row)), float(path.durations[row] * durations[row]))
    for row in np.flatnonzero(waits):
        _add(seconds, rows.lag(int(row)), float(waits[row] * lags[row]))
    keys = [key for key in sorted(seconds, key=lambda key: (-seconds[key], key)) if seconds[key] != 0.0]
    alone = _gains(program, (rows.duration, rows.lag), keys, durations, lags)
    kinds = list(dict.fromkeys((what, _ALL) for what, _ in keys))
    together = (lambda row: (rows.duration(row)[0], _ALL)), (lambda row: (rows.lag(row)[0], _ALL))
    levers = zip((what for what, _ in kinds), _gains(program, together, kinds, durations, lags))
    share = 1.0 / path.length if path.length else 0.0
    parts = tuple(Part(*key, seconds[key], seconds[key] * share, gain) for key, gain in zip(keys, alone))
    most_first = tuple(sorted(levers, key=lambda one: -one[1]))
    return CriticalStep(path.length, parts, most_first, path, program.shape.rolling)


def _add(seconds: dict[Key, float], key: Key, more: float) -> None:
    seconds[key] = seconds.get(key, 0.0) + more


def _gains(
    program: StepProgram, names: tuple[Namer, Namer], keys: list[Key], durations: Floats, lags: Floats
) -> list[float]:
    """Seconds won by each key if what it names takes 10 % less time: one column each, behind the step as it is."""
    faster = np.repeat(durations[:, None], len(keys) + 1, axis=1)
    sooner = np.repeat(lags[:, None], len(keys) + 1, axis=1)
    place = {key: column for column, key in enumerate(keys)}
    for table, name in zip((faster, sooner), names):
        for row in range(len(table)):
            column = place.get(name(row))
            if column is not None:
                table[row, column] *= 1.0 - _FASTER
    ends = solve(program.graph, faster, sooner).max(axis=0, initial=0.0)
    return [max(0.0, float(ends[-1] - end)) for end in ends[:-1]]


class _Rows:
    """Names rows of a step's tables by what they are the time of."""

    def __init__(self, program: StepProgram) -> None:
        self.program, self.pp = program, program.shape.pp
        graph, self.stage_of = program.graph, np.zeros(program.duration_rows, dtype=np.int64)
        self.stage_of[graph.duration] = graph.stream % self.pp
        consumer = np.repeat(np.arange(len(graph)), np.diff(graph.pointer))
        self.stage_of_lag = np.zeros(program.lag_rows + 1, dtype=np.int64)
        self.stage_of_lag[graph.lag] = graph.stream[consumer] % self.pp

    def duration(self, row: int) -> Key:
        """What a duration is, and of which stage."""
        program = self.program
        bounds = (
            (program.bucket_base, CHUNKS),
            (program.gather_base, REDUCTION),
            (program.barrier_row, GATHERS),
            (program.barrier_row + 1, NORM),
            (program.optimizer_base, TIED),
            (program.wire_base, OPTIMIZER),
            (program.to_host_base, CHUNKS),
            (program.update_base, TO_HOST),
            (program.to_gpu_base, UPDATE),
            (program.to_gpu_base + program.copies, TO_GPU),
            (program.duration_rows, DRIVES),
        )
        what = next((name for bound, name in bounds if row < bound), CHUNKS)
        return what, _ALL if what in (NORM, TIED) else int(self.stage_of[row])

    def lag(self, row: int) -> Key:
        """What a lag is: the wait for a message, or (negative) what of a chunk others do not wait for."""
        return MESSAGES if row < self.program.release_base else CHUNKS, int(self.stage_of_lag[row])
