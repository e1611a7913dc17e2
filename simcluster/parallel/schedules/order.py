"""The order in which a pipeline stage runs its chunks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FORWARD, BACKWARD, WEIGHT, INPUT = range(4)
PAIR = 4  # not in orders: a forward and the backward beside it, as one
_LETTERS = "FBWB"


def _none() -> NDArray[np.int64]:
    return np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Order:
    """Operations of one stage in order: three arrays of one length.

    kind    0 forward, 1 backward (input and weight gradients at once), 2 weight gradients alone, 3 input gradients
            alone (their weight gradients follow as an operation of kind 2)
    micro   micro-batch, from 0
    chunk   virtual stage held by this stage, from 0; under DualPipe the direction
    pairs   places of forwards that run overlapped with the backward behind them (DualPipe)
    """

    kind: NDArray[np.int64]
    micro: NDArray[np.int64]
    chunk: NDArray[np.int64]
    pairs: NDArray[np.int64] = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def of(cls, ops: Sequence[tuple[int, int, int]], pairs: Sequence[int] = ()) -> Order:
        """An order from (kind, micro-batch, chunk) of each operation."""
        table = np.asarray(ops, dtype=np.int64).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1], table[:, 2], np.asarray(pairs, dtype=np.int64))

    def text(self, chunks: bool = False) -> str:
        """The order in the papers' notation, `F0 F1 B0 …`, with `.chunk` behind the micro-batch if asked.

        Input gradients alone are written B like a whole backward; `&` joins what runs overlapped.
        """
        rows = zip(self.kind, self.micro, self.chunk)
        words = [f"{_LETTERS[k]}{m}.{c}" if chunks else f"{_LETTERS[k]}{m}" for k, m, c in rows]
        joined = set(self.pairs.tolist())
        return "".join(word + ("&" if place in joined else " ") for place, word in enumerate(words)).rstrip()


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
    """Largest number of chunks whose forward has run and whose weight gradients have not.

    >>> from simcluster.parallel.schedules import one_f_one_b
    >>> [peak_in_flight(one_f_one_b.order(4, 8, stage)) for stage in range(4)]
    [4, 3, 2, 1]
    """
    change = np.array([1, -1, -1, 0])  # by kind; input gradients alone free nothing
    return int(np.cumsum(change[order.kind]).max(initial=0))
