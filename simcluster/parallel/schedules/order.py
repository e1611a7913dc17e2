"""The order in which a pipeline stage runs its chunks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FORWARD, BACKWARD = 0, 1
_LETTERS = "FB"


@dataclass(frozen=True, slots=True)
class Order:
    """Operations of one stage in order: three arrays of one length.

    kind    0 forward, 1 backward
    micro   micro-batch, from 0
    chunk   virtual stage held by this stage, from 0
    """

    kind: NDArray[np.int64]
    micro: NDArray[np.int64]
    chunk: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.kind)

    def text(self, chunks: bool = False) -> str:
        """The order in the papers' notation, `F0 F1 B0 …`, with `.chunk` behind the micro-batch if asked."""
        rows = zip(self.kind, self.micro, self.chunk)
        return " ".join(f"{_LETTERS[k]}{m}.{c}" if chunks else f"{_LETTERS[k]}{m}" for k, m, c in rows)


def alternate(warmup: int, forward: NDArray[np.int64], backward: NDArray[np.int64]) -> Order:
    """Warm-up forwards, then one forward and one backward in turn, then the remaining backwards.

    `forward` and `backward` are (n, 2) arrays of (micro-batch, chunk) in the order in which each kind runs.
    """
    count = len(forward)
    rest = count - warmup
    kind = np.concatenate([np.zeros(warmup), np.tile([FORWARD, BACKWARD], rest), np.ones(warmup)]).astype(np.int64)
    pairs = np.empty((2 * count, 2), dtype=np.int64)
    pairs[kind == FORWARD] = forward
    pairs[kind == BACKWARD] = backward
    return Order(kind, pairs[:, 0], pairs[:, 1])


def peak_in_flight(order: Order) -> int:
    """Largest number of chunks whose forward has run and whose backward has not.

    >>> from simcluster.parallel.schedules import one_f_one_b
    >>> [peak_in_flight(one_f_one_b.order(4, 8, stage)) for stage in range(4)]
    [4, 3, 2, 1]
    """
    return int(np.cumsum(np.where(order.kind == FORWARD, 1, -1)).max(initial=0))
