"""GPipe: all forwards, then all backwards in the same order (Huang et al. 2019)."""

from __future__ import annotations

import numpy as np

from simcluster.parallel.schedules.order import Order


def order(pp: int, micro_batches: int, stage: int) -> Order:  # noqa: ARG001 - every stage runs the same order
    """Order of one stage.

    >>> order(4, 2, 0).text()
    'F0 F1 B0 B1'
    """
    micro = np.arange(micro_batches, dtype=np.int64)
    kind = np.repeat(np.array([0, 1], dtype=np.int64), micro_batches)
    return Order(kind, np.tile(micro, 2), np.zeros(2 * micro_batches, dtype=np.int64))


def bubble_s(pp: int, forward_s: float, backward_s: float) -> float:
    """Idle time of a stage with balanced stages and free messages: (pp - 1)(tf + tB).

    >>> bubble_s(4, 1.0, 2.0)
    9.0
    """
    return (pp - 1) * (forward_s + backward_s)
