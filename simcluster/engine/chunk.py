"""Solves a chunk: the blocks of one virtual stage in one pass, and the wire of its sharded parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.maxplus import solve
from simcluster.program.chunk import ChunkShape, chunk_program

Floats = NDArray[np.float64]

# Columns of a chunk: with the traffic of sharded parameters, then those of its blocks without it.
CHUNK_COLUMNS = ("with_shards", *COLUMNS)
NEVER = -1e18  # a lag so long ago that it never binds


@dataclass(frozen=True, slots=True)
class WireTimes:
    """Durations of a unit's traffic, arrays over blocks in the order of the pass; zero where there is none."""

    gather: Floats
    scatter: Floats
    replica: Floats

    @classmethod
    def none(cls, blocks: int) -> WireTimes:
        """No traffic."""
        zero = np.zeros(blocks)
        return cls(zero, zero, zero)


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Times of a chunk in seconds from its start; every field but the blocks' is over CHUNK_COLUMNS.

    duration        when its last block ends, the wires being free at the start
    wire, replica   when the last transfer of the shards' and of the replicas' wire ends, likewise (0 without traffic)
    compute_after   last block's end, counted from the time at which a busy shards' wire becomes free
    wire_after      last transfer's end on that wire, counted likewise (0: it stays busy as long)
    replica_after   last transfer's end on the replicas' wire, counted likewise
    replica_own     the same, counted from the time at which the replicas' wire becomes free
    starts, ends    (blocks, columns) when each block starts and ends on the device
    reduced         (blocks, columns) when the gradients of each block are reduced; no rows where they are not
    """

    duration: Floats
    wire: Floats
    replica: Floats
    compute_after: Floats
    wire_after: Floats
    replica_after: Floats
    replica_own: Floats
    starts: Floats
    ends: Floats
    reduced: Floats


def solve_chunk(blocks: Sequence[BlockTimes], shape: ChunkShape, traffic: WireTimes) -> ChunkTimes:
    """Times of blocks run one after the other.

    Host and device start together; block i ends no earlier than the host's issue of the blocks before it plus its own
    hosted time. A second solve with the wire free only after everything else gives the paths that begin at the wire.
    """
    columns, count = len(CHUNK_COLUMNS), len(blocks)
    if not count:
        zero, none, empty = np.zeros(columns), np.full(columns, NEVER), np.zeros((0, columns))
        return ChunkTimes(zero, zero, zero, none, zero, none, zero, empty, empty, empty)
    program = chunk_program(shape)
    device, hosted, host = (
        np.array([getattr(block, name) for block in blocks])[:, [0, *range(len(COLUMNS))]]
        for name in ("device", "hosted", "host")
    )
    durations = np.zeros((4 * count + 1, 2 * columns))
    durations[:count] = np.tile(device, 2)
    for row, moved in ((1, traffic.gather), (2, traffic.scatter), (3, traffic.replica)):
        durations[row * count : (row + 1) * count, [0, columns]] = moved[:, None]
    horizon = float(durations.sum() + host.sum() + hosted.sum()) + 1.0
    durations[program.entry_row, columns:] = horizon
    issued = np.cumsum(host, axis=0) - host
    times = solve(program.graph, durations, np.tile(issued + hosted - device, 2))
    ends = times[list(program.compute)]
    starts = ends - durations[:count]
    wire, wire_after = _last(times, program.shards, horizon)
    replica, replica_after = _last(times, program.replicas, horizon)
    after = ends[-1, columns:] - horizon
    return ChunkTimes(
        duration=ends[-1, :columns],
        wire=wire,
        replica=replica,
        compute_after=np.where(after > -0.5 * horizon, after, NEVER),
        wire_after=wire_after if program.shards else np.zeros(columns),
        replica_after=replica_after,
        replica_own=durations[3 * count : 4 * count, :columns].sum(axis=0),
        starts=starts[:, :columns],
        ends=ends[:, :columns],
        reduced=times[list(program.reduced), :columns],
    )


def _last(times: Floats, tasks: Sequence[int], horizon: float) -> tuple[Floats, Floats]:
    """When the last of these tasks ends: with free wires, and after the horizon of a busy one."""
    columns = len(CHUNK_COLUMNS)
    if not tasks:
        return np.zeros(columns), np.full(columns, NEVER)
    ends = times[list(tasks)].max(axis=0)
    return ends[:columns], ends[columns:] - horizon
