"""1F1B whose steady state runs a forward beside a backward of another micro-batch, to hide exchanges of experts.

The warm-up is that of the interleaved schedule and one forward more, so that the two of a pair are of unlike
micro-batches on the last stage too (Megatron-Core's overlap of expert communication). A pair hands over its results
as it ends, so without virtual stages too a stage has to be two forwards ahead of the next one: with one, pairs of two
stages would wait for each other in turn.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.parallel.schedules.interleaved import order as interleaved
from simcluster.parallel.schedules.order import FORWARD, Order, alternate

NAME = "1f1b-overlapped"


def order(pp: int, micro_batches: int, stage: int, virtual_stages: int = 1, group: int | None = None) -> Order:
    """Order of one stage: 2 (pp - stage - 1) + (v - 1) group + 1 warm-up forwards, pairs, the remaining backwards.

    >>> order(2, 5, 1).text(), order(2, 5, 0).text()
    ('F0 F1&B0 F2&B1 F3&B2 F4&B3 B4', 'F0 F1 F2 F3&B0 F4&B1 B2 B3 B4')
    """
    plain = interleaved(pp, micro_batches, stage, virtual_stages, group)
    total = micro_batches * virtual_stages
    warmup = min(2 * (pp - stage - 1) + (virtual_stages - 1) * (group or pp) + 1, total)
    columns = np.stack([plain.micro, plain.chunk], axis=1)
    found = alternate(warmup, columns[plain.kind == FORWARD], columns[plain.kind != FORWARD])
    return replace(found, pairs=warmup + 2 * np.arange(total - warmup))


def bubble_s(pp: int, forward_s: float, backward_s: float, virtual_stages: int = 1) -> float:
    """Idle time of a stage with balanced stages and free messages where a pair takes tf + tB: (pp - 1)(tf + tB)/v.

    >>> bubble_s(4, 1.0, 2.0)
    9.0
    """
    return (pp - 1) * (forward_s + backward_s) / virtual_stages
