"""Breadth-first looped pipelines: every micro-batch through a virtual stage before the next one (Lamy-Poirier 2022).

Forward takes the virtual stages of a device in turn, backward takes them in the opposite order; each virtual stage's
parameters are needed for one stretch of time in each pass, and its gradients are ready one virtual stage at a time.
"""

from __future__ import annotations

import numpy as np

from simcluster.parallel.schedules.order import Order


def order(micro_batches: int, virtual_stages: int) -> Order:
    """Order of every stage.

    >>> order(2, 2).text(chunks=True)
    'F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0'
    """
    micro = np.tile(np.arange(micro_batches, dtype=np.int64), 2 * virtual_stages)
    forward = np.repeat(np.arange(virtual_stages, dtype=np.int64), micro_batches)
    kind = np.repeat(np.array([0, 1], dtype=np.int64), micro_batches * virtual_stages)
    return Order(kind, micro, np.concatenate([forward, forward[::-1]]))


def bubble_s(pp: int, forward_s: float, backward_s: float, virtual_stages: int) -> float:
    """Idle time of a stage with balanced stages, free messages and m >= pp: (pp - 1)(tf + tB)/v.

    >>> bubble_s(4, 1.0, 2.0, 2)
    4.5
    """
    return (pp - 1) * (forward_s + backward_s) / virtual_stages
