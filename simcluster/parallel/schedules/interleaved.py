"""Interleaved 1F1B over virtual stages, depth first (Narayanan et al. 2021; order of Megatron-Core's schedule)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from simcluster.parallel.schedules.order import Order, alternate


def _table(micro_batches: int, virtual_stages: int, group: int) -> NDArray[np.int64]:
    """(micro-batch, chunk) pairs: for each group of micro-batches, every chunk over the group in turn."""
    rows = []
    for first in range(0, micro_batches, group):
        micro = np.arange(first, min(first + group, micro_batches), dtype=np.int64)
        rows += [np.stack([micro, np.full_like(micro, chunk)], axis=1) for chunk in range(virtual_stages)]
    return np.concatenate(rows)


def order(pp: int, micro_batches: int, stage: int, virtual_stages: int, group: int | None = None) -> Order:
    """Order of one stage; micro-batches run in groups of `group` (default pp).

    >>> order(4, 8, 3, 2).text(chunks=True)[:39]
    'F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1'
    """
    size = group or pp
    forward = _table(micro_batches, virtual_stages, size)
    backward = forward.copy()
    backward[:, 1] = virtual_stages - 1 - backward[:, 1]
    total = micro_batches * virtual_stages
    warmup = min(2 * (pp - stage - 1) + (virtual_stages - 1) * size, total)
    return alternate(warmup, forward, backward)


def bubble_s(pp: int, forward_s: float, backward_s: float, virtual_stages: int) -> float:
    """Idle time of a stage with balanced stages, free messages and m a multiple of pp: (pp - 1)(tf + tB)/v.

    `forward_s`, `backward_s` are those of the whole stage (all its chunks).
    """
    return (pp - 1) * (forward_s + backward_s) / virtual_stages
