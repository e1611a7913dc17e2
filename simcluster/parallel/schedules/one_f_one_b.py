"""1F1B, the non-interleaved schedule of PipeDream-Flush and Megatron-LM (Narayanan et al. 2021)."""

from __future__ import annotations

import numpy as np

from simcluster.parallel.schedules.order import Order, alternate


def order(pp: int, micro_batches: int, stage: int) -> Order:
    """Order of one stage: min(pp - stage - 1, m) warm-up forwards, then forward and backward in turn.

    >>> order(4, 8, 2).text()
    'F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7'
    """
    warmup = min(pp - stage - 1, micro_batches)
    pairs = np.stack([np.arange(micro_batches), np.zeros(micro_batches)], axis=1).astype(np.int64)
    return alternate(warmup, pairs, pairs)


def bubble_s(pp: int, forward_s: float, backward_s: float) -> float:
    """Idle time of a stage with balanced stages and free messages: (pp - 1)(tf + tB)."""
    return (pp - 1) * (forward_s + backward_s)
