"""Solves a chunk: the blocks of one virtual stage in one pass, run by a host that issues ahead of the device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS, BlockTimes

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ChunkTimes:
    """Times of a chunk in seconds.

    duration    (columns,) from start to end
    starts      (blocks, columns) when each block starts on the device
    ends        (blocks, columns) when each block ends
    """

    duration: Floats
    starts: Floats
    ends: Floats


def solve_chunk(blocks: Sequence[BlockTimes]) -> ChunkTimes:
    """Times of blocks run one after the other.

    Host and device start together. Block i ends at `max(device end of i-1 + device_i, host end of i-1 + hosted_i)`:
    a two-clock recurrence, solved over all blocks at once as a running maximum.
    """
    if not blocks:
        empty = np.zeros((0, len(COLUMNS)))
        return ChunkTimes(np.zeros(len(COLUMNS)), empty, empty)
    device = np.array([block.device for block in blocks])
    hosted = np.array([block.hosted for block in blocks])
    host = np.array([block.host for block in blocks])
    worked = np.cumsum(device, axis=0)
    issued = np.cumsum(host, axis=0) - host
    ends = worked + np.maximum.accumulate(np.maximum(issued + hosted - worked, 0.0), axis=0)
    starts = np.vstack([np.zeros((1, ends.shape[1])), ends[:-1]])
    return ChunkTimes(ends[-1], starts, ends)
