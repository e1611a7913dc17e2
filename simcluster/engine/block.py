"""Solves a block: its device time, and how far the host that issues its kernels holds it back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.maxplus import solve
from simcluster.program.block import BlockOp, block_graph
from simcluster.program.pricing import CLASSES, EXPERT_CONTEXT, MEMORY, TENSOR, PricedOps

Floats = NDArray[np.float64]

# Idealisations of a block, each on top of the one before: columns of every time below.
COLUMNS = ("actual", "no_expert_context", "no_tensor", "no_recompute", "no_overhead")


@dataclass(frozen=True, slots=True)
class BlockTimes:
    """Times of a block in seconds, each an array over COLUMNS.

    device      from entry to exit if the host is always ahead
    hosted      from entry to exit if the host begins to issue at entry; at least `device`
    host        time that the host needs to issue it
    busy        (classes,) busy seconds by pricing.CLASSES, actual column
    evidence    (classes, 2) busy-weighted grade and sigma
    """

    device: Floats
    hosted: Floats
    host: Floats
    busy: Floats
    evidence: Floats


def _idealised(ops: Sequence[BlockOp], priced: PricedOps) -> tuple[Floats, Floats]:
    """Device and host time of each op in each column: (ops, columns)."""
    keep = np.ones((len(ops), len(COLUMNS)))
    again = np.array([op.recompute for op in ops])
    keep[priced.kind == EXPERT_CONTEXT, 1:] = 0.0
    keep[priced.kind == TENSOR, 2:] = 0.0
    keep[again, 3:] = 0.0
    keep[priced.kind == MEMORY, 4] = 0.0
    device = priced.seconds[:, None] * keep
    host = priced.host_s[:, None] * keep
    host[:, 4] = 0.0
    return device, host


def solve_block(ops: Sequence[BlockOp], priced: PricedOps) -> BlockTimes:
    """Times of a block from its priced ops."""
    columns = len(COLUMNS)
    if not ops:
        zero = np.zeros(columns)
        return BlockTimes(zero, zero, zero, np.zeros(len(CLASSES)), np.zeros((len(CLASSES), 2)))
    device, host = _idealised(ops, priced)
    issued = np.cumsum(host, axis=0)
    ends = solve(block_graph(ops), np.tile(device, 2), np.hstack([np.zeros_like(issued), issued])).max(axis=0)
    busy = np.bincount(priced.kind, priced.seconds, len(CLASSES)).astype(np.float64)
    weight = np.where(busy > 0, busy, 1.0)
    grade = np.bincount(priced.kind, priced.seconds * priced.grade, len(CLASSES)) / weight
    sigma = np.bincount(priced.kind, priced.seconds * priced.sigma, len(CLASSES)) / weight
    return BlockTimes(ends[:columns], ends[columns:], issued[-1], busy, np.stack([grade, sigma], axis=1))
