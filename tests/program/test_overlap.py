"""Overlap is but a missing edge: every edge that makes something wait is taken away once, and the time it costs is the
one worked out by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine.maxplus import solve
from simcluster.program.block import COMPUTE, BlockOp, ExchangePlan, backward_block, block_graph, forward_block
from simcluster.program.chunk import ChunkShape, chunk_program
from simcluster.program.graph import TaskGraph, graph_from_edges
from simcluster.program.step import POSITIONS, StepProgram, StepShape, step_program
from simcluster.shapes import Gemm, Streaming
from simcluster.workload.elements import Element


def without(graph: TaskGraph, consumer: int, producer: int) -> TaskGraph:
    """The graph less one edge, which it has."""
    to = np.repeat(np.arange(len(graph)), np.diff(graph.pointer))
    gone = (to == consumer) & (graph.predecessor == producer)
    assert gone.sum() == 1
    return graph_from_edges(graph.duration, graph.stream, to[~gone], graph.predecessor[~gone], graph.lag[~gone])


# The step: one or two stages, forward 1, backward 2


def program(pp: int, m: int, buckets: int = 0, gathers: int = 0) -> StepProgram:
    shape = StepShape("1f1b", pp, m, 1, None, ((buckets,),) * pp, ((gathers,),) * pp, True, True, False)
    return step_program(shape)


def tables(step: StepProgram) -> tuple[np.ndarray, np.ndarray]:
    durations, lags = np.zeros((step.duration_rows, 1)), np.zeros((step.lag_rows, 1))
    for kind in range(2):
        for part in range(step.parts):
            row = step.chunk_row(kind, part, 0)
            durations[row : row + POSITIONS] = 1 + kind
    return durations, lags


def task_of(step: StepProgram, row: int) -> int:
    """The one task of a duration row."""
    (found,) = np.flatnonzero(step.graph.duration == row)
    return int(found)


def test_gradient_buckets():
    """Backward ends at 3; buckets of 1.5 are ready at 2 and at 3: 2 to 3.5, and behind it to 5."""
    step = program(1, 1, buckets=2)
    durations, lags = tables(step)
    durations[step.bucket_base : step.gather_base] = 1.5
    lags[step.release_base] = -1.0
    assert solve(step.graph, durations, lags).max() == 5
    first, second = (task_of(step, step.bucket_base + index) for index in range(2))
    assert solve(without(step.graph, second, first), durations, lags).max() == 4.5  # both on the wire at once
    backward = int(np.flatnonzero(step.kind == 1)[0])
    assert solve(without(step.graph, first, backward), durations, lags).max() == 4.5  # the first gone before


def test_parameter_gathers_beside_the_next_forward():
    """Gathers of 1.5, the second needed half way through the forward of 1: it starts at 2.5 instead of 0."""
    step = program(1, 1, gathers=2)
    durations, lags = tables(step)
    durations[step.gather_base : step.barrier_row] = 1.5
    lags[step.need_base + 1] = -0.5
    assert solve(step.graph, durations, lags).max() == 2.5 + 3
    first, second = (task_of(step, step.gather_base + index) for index in range(2))
    forward = int(np.flatnonzero(step.kind == 0)[0])
    assert solve(without(step.graph, forward, second), durations, lags).max() == 1.5 + 3
    assert solve(without(step.graph, second, first), durations, lags).max() == 1.5 + 3


def test_messages_that_block_their_sender():
    """Messages of 0.5, two micro-batches, two stages.

    Stage 1: F0 1.5-2.5, B0 to 4.5, F1 to 5.5, B1 to 7.5; stage 0 ends with B1 at 8 + 2. If stage 1 is held until B0's
    message has left, its F1 starts at 5, and all that follows 0.5 later.
    """
    step = program(2, 2)
    durations, lags = tables(step)
    lags[: 2 * step.parts] = 0.5
    assert solve(step.graph, durations, lags).max() == 10
    lags[step.own_lag(1, 1)] = 0.5
    assert solve(step.graph, durations, lags).max() == 10.5


def test_the_norm_waits_for_every_stage():
    """Stage 1 has its bucket at 4.5, stage 0 at 7; norm 0.25 and optimizer 0.5 follow."""
    step = program(2, 1, buckets=1)
    durations, lags = tables(step)
    rows = {stage: step.bucket_base + row for row, (stage, _, _) in enumerate(step.bucket_rows)}
    durations[rows[0]], durations[rows[1]] = 1.0, 0.5
    durations[step.barrier_row] = 0.25
    durations[step.optimizer_base : step.wire_base] = 0.5
    assert solve(step.graph, durations, lags).max() == 7.75
    freed = without(step.graph, task_of(step, step.barrier_row), task_of(step, rows[0]))
    ends = solve(freed, durations, lags)[:, 0]
    assert ends[task_of(step, step.optimizer_base)] == 6.75  # behind the last backward, at 6
    assert ends.max() == 7  # the bucket itself


# Chunks: units gathered ahead


def test_units_gathered_ahead_are_limited():
    """Blocks of 3, 0.25 and 1, gathers of 0.5: the third waits until the first block has made room, at 3.5."""
    chunk = chunk_program(ChunkShape(3, gathers=True, ahead=1))
    durations = np.zeros((13, 1))
    durations[:3, 0], durations[3:6] = (3.0, 0.25, 1.0), 0.5
    lags = np.zeros((3, 1))
    assert solve(chunk.graph, durations, lags).max() == 5.0  # 0.5, 3, then the gather from 3.5 to 4
    freed = without(chunk.graph, chunk.shards[2], chunk.compute[0])
    assert solve(freed, durations, lags).max() == 4.75
    all_in_a_row = chunk_program(ChunkShape(3, gathers=True, ahead=0))
    assert solve(all_in_a_row.graph, durations, lags).max() == 3 * 0.5 + 4.25


def test_a_unit_is_reduced_once_its_backward_is_done():
    """Blocks of 1, reductions of 1.5: 1 to 2.5 and 2.5 to 4; the wire alone makes the second wait."""
    chunk = chunk_program(ChunkShape(2, scatters=True))
    durations = np.zeros((9, 1))
    durations[:2], durations[4:6] = 1.0, 1.5
    lags = np.zeros((2, 1))
    assert solve(chunk.graph, durations, lags).max() == 4.0
    assert solve(without(chunk.graph, chunk.shards[1], chunk.shards[0]), durations, lags).max() == 3.5
    assert solve(without(chunk.graph, chunk.shards[0], chunk.compute[0]), durations, lags).max() == 3.5


# Blocks: exchanges beside kernels

COLUMN = Element("col", (Gemm("col", 8, 4, 4),), (Gemm("col_d", 8, 4, 4),), (Gemm("col_w", 4, 4, 8),), "column")
ROW = Element("row", (Gemm("row", 8, 4, 4),), (Gemm("row_d", 8, 4, 4),), (Gemm("row_w", 4, 4, 8),), "row")
CORE = Element("core", (Streaming("core", 1.0),), (Streaming("core_grad", 1.0),), exchange="context", bytes=1.0)
PERMUTE = Element("permute", (Streaming("permute", 1.0),), (Streaming("permute_back", 1.0),))
UP = Element("up", (Gemm("up", 1, 1, 1),), (Gemm("up_d", 1, 1, 1),), (Gemm("up_w", 1, 1, 1),), "dispatch", bytes=1.0)
DOWN = Element("down", (Gemm("down", 1, 1, 1),), (), (), "combine", bytes=1.0)


def ends_of(ops: Sequence[BlockOp], times: dict[str, float]) -> np.ndarray:
    duration = np.array([[times.get(op.operator.name, 0.0) * op.share] for op in ops])
    return solve(block_graph(ops), duration, np.zeros((len(ops), 1)))[:, 0]


def freed_of(ops: Sequence[BlockOp], consumer: int, producer: int) -> list[BlockOp]:
    assert producer in ops[consumer].after
    left = tuple(one for one in ops[consumer].after if one != producer)
    return [replace(op, after=left) if index == consumer else op for index, op in enumerate(ops)]


def place(ops: Sequence[BlockOp], name: str, number: int = 0) -> int:
    return [index for index, op in enumerate(ops) if op.operator.name == name][number]


def computed(ops: Sequence[BlockOp], times: dict[str, float]) -> float:
    """End of the last kernel."""
    return float(max(end for end, op in zip(ends_of(ops, times), ops, strict=True) if op.stream == COMPUTE))


@pytest.mark.parametrize(("pieces", "last"), [(1, 6.0), (2, 5.0)])
def test_a_gather_beside_the_gemm_that_reads_it(pieces, last):
    """Gather of 4, GEMM of 2: whole behind it; in halves the own one runs at once, the other when it has come."""
    ops = forward_block((COLUMN,), ExchangePlan(2, 1.0, True, chunks=pieces))
    times = {"col_gather": 4.0, "col": 2.0 / pieces}
    assert computed(ops, times) == last
    free = freed_of(ops, place(ops, "col", pieces - 1), place(ops, "col_gather"))
    assert computed(free, times) == 2.0


def test_a_reduction_beside_the_gemm_that_makes_it():
    """GEMM of 2 in halves, reduction of 4: 1 to 3 and 3 to 5; whole behind it to 6."""
    ops = forward_block((ROW,), ExchangePlan(2, 1.0, True, chunks=2))
    times = {"row_reduce": 4.0, "row": 1.0}
    assert ends_of(ops, times).max() == 5.0
    assert ends_of(freed_of(ops, place(ops, "row_reduce"), place(ops, "row")), times).max() == 4.0
    assert ends_of(forward_block((ROW,), ExchangePlan(2, 1.0, True)), {"row_reduce": 4.0, "row": 2.0}).max() == 6.0


def test_weight_gradients_beside_exchanges():
    """Input gathered again for 5, input gradients 2, weight gradients 4 from 5 to 9, reduction 3 from 5 to 8."""
    times = {"col_regather": 5.0, "col_d": 2.0, "col_grad_reduce": 3.0, "col_w": 4.0}
    ops = backward_block((COLUMN,), ExchangePlan(2, 1.0, True))
    assert ends_of(ops, times).max() == 9.0
    free = freed_of(ops, place(ops, "col_w"), place(ops, "col_regather"))
    assert ends_of(free, times).max() == 8.0
    assert ends_of(backward_block((COLUMN,), ExchangePlan(2, 1.0, True, bulk_overlap=False)), times).max() == 14.0


def test_ring_steps_of_context_parallelism():
    """Three steps of 1, hops of 1.5 beside them: the last starts when its keys have come, at 3."""
    ops = forward_block((CORE,), ExchangePlan(1, 0.0, False, cp=3))
    times = {"core": 1.0, "core_ring": 1.5}
    assert ends_of(ops, times).max() == 4.0
    assert computed(freed_of(ops, place(ops, "core", 2), place(ops, "core_ring", 1)), times) == 3.5
    assert computed(freed_of(ops, place(ops, "core", 1), place(ops, "core_ring", 0)), times) == 4.0  # still the last


def test_experts_wait_for_their_tokens():
    """Permute 1, there 2, GEMMs 3 and 3, back 2; without waiting for the way there 2 less."""
    ops = forward_block((PERMUTE, UP, DOWN), ExchangePlan(1, 0.0, False, ep=4))
    times = {"permute": 1.0, "up_dispatch": 2.0, "up": 3.0, "down": 3.0, "down_combine": 2.0}
    assert ends_of(ops, times).max() == 11.0
    assert ends_of(freed_of(ops, place(ops, "up"), place(ops, "up_dispatch")), times).max() == 9.0
