"""ZB-H1: 1F1B with the backward split, weight gradients delayed by the stage's rank (Qi et al. 2024).

Input gradients alone are what the stage before waits for, so the drain is shorter; activations stay until the weight
gradients are done, and no stage holds more than the first one does under 1F1B.
"""

from __future__ import annotations

from simcluster.parallel.schedules.one_f_one_b import order as one_f_one_b
from simcluster.parallel.schedules.order import FORWARD, INPUT, WEIGHT, Order


def order(pp: int, micro_batches: int, stage: int) -> Order:
    """Order of one stage: that of 1F1B, the weight gradients of micro-batch k - stage behind the k-th backward.

    >>> order(4, 8, 1).text()
    'F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7'
    """
    plain = one_f_one_b(pp, micro_batches, stage)
    ops: list[tuple[int, int, int]] = []
    for kind, micro in zip(plain.kind.tolist(), plain.micro.tolist()):
        ops.append((FORWARD if kind == FORWARD else INPUT, micro, 0))
        if kind != FORWARD and micro >= stage:
            ops.append((WEIGHT, micro - stage, 0))
    left = min(stage, micro_batches)
    return Order.of(ops + [(WEIGHT, micro, 0) for micro in range(micro_batches - left, micro_batches)])


def bubble_s(pp: int, forward_s: float, input_s: float, weight_s: float) -> float:
    """Idle time of a stage with balanced stages, free messages, m >= pp, weight_s <= min(forward_s, input_s).

    (pp - 1)(tf + tb - tw); for other times a lower bound.

    >>> bubble_s(4, 1.0, 1.0, 1.0), round(bubble_s(4, 1.0, 1.2, 0.8), 9)
    (3.0, 4.2)
    """
    return (pp - 1) * (forward_s + input_s - weight_s)
