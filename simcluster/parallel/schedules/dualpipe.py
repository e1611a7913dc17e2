"""DualPipe: micro-batches enter at both ends, and each device holds two stages (DeepSeek-AI 2024).

Device i holds stage i for what enters at the front (chunk 0) and stage pp - 1 - i for what enters at the back (chunk
1). In the middle of the step a forward of one direction runs overlapped with a backward of the other. The eight phases
are those of the code that DeepSeek published with the report.
"""

from __future__ import annotations

from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT, Order


def fits(pp: int, micro_batches: int) -> bool:
    """Whether the schedule exists: an even number of stages, an even number of micro-batches, at least 2 pp of them.

    >>> fits(8, 20), fits(8, 14), fits(5, 20)
    (True, False, False)
    """
    return pp % 2 == 0 and micro_batches % 2 == 0 and micro_batches >= 2 * pp


class _Writer:
    """Writes the order of one device; `near` is the direction that enters at the nearer end."""

    def __init__(self, stage: int, pp: int, micro_batches: int) -> None:
        self.near = int(stage >= pp // 2)
        self.half = micro_batches // 2
        self.count: dict[tuple[int, int], int] = {}
        self.weights: list[tuple[int, int]] = []
        self.ops: list[tuple[int, int, int]] = []
        self.pairs: list[int] = []

    def _next(self, passed: int, phase: int) -> tuple[int, int]:
        """Micro-batch and direction of the next forward or backward of a phase (0: of the nearer end)."""
        direction = phase ^ self.near
        number = self.count.get((passed, direction), 0)
        self.count[passed, direction] = number + 1
        return direction * self.half + number, direction

    def forward(self, phase: int) -> None:
        self.ops.append((FORWARD, *self._next(FORWARD, phase)))

    def backward(self, phase: int, split: bool = False) -> None:
        one = self._next(BACKWARD, phase)
        self.ops.append((INPUT if split else BACKWARD, *one))
        if split:
            self.weights.append(one)

    def weight(self) -> None:
        self.ops.append((WEIGHT, *self.weights.pop(0)))

    def pair(self, forward: int, backward: int) -> None:
        self.pairs.append(len(self.ops))
        self.forward(forward)
        self.backward(backward)


def order(pp: int, micro_batches: int, stage: int) -> Order:
    """Order of one device; micro-batches of the second direction follow those of the first in number.

    Raises ValueError where the schedule does not exist (see `fits`).

    >>> order(2, 4, 0).text()
    'F0 F2 F1 B2 F3&B0 B3 B1 W1'
    """
    if not fits(pp, micro_batches):
        raise ValueError(
            f"dualpipe needs even stages and at least twice as many, even, micro-batches: {pp}, {micro_batches}"
        )
    nearest = min(stage, pp - 1 - stage)  # distance from the nearer end
    outer, inner = pp // 2 - nearest - 1, nearest + 1
    write = _Writer(stage, pp, micro_batches)
    for _ in range(2 * outer):
        write.forward(0)
    for _ in range(inner):
        write.forward(0)
        write.forward(1)
    for _ in range(outer):
        write.backward(1, split=True)
        write.weight()
        write.forward(1)
    _steady(write, micro_batches // 2 - pp + inner, middle=outer == 0)
    for _ in range(outer):
        write.backward(1)
        write.pair(1, 0)
    _drain(write, outer, inner)
    return Order.of(write.ops, write.pairs)


def _steady(write: _Writer, rounds: int, middle: bool) -> None:
    """Pairs of both directions in turn; the two devices in the middle run the first one's parts one after the other."""
    for index in range(rounds):
        if middle and index == 0:
            write.forward(0)
            write.backward(1)
        else:
            write.pair(0, 1)
        write.pair(1, 0)


def _drain(write: _Writer, outer: int, inner: int) -> None:
    """The last backwards, from half way on with weight gradients put off, which fill what would be idle."""
    for index in range(inner):
        write.backward(1, split=2 * index >= inner)
        write.backward(0, split=2 * index + 1 >= inner)
    for _ in range(outer):
        write.weight()
        write.backward(0, split=True)
    for _ in range(inner):
        write.weight()


def bubble_s(pp: int, backward_s: float, weight_s: float, pair_s: float) -> float:
    """Idle time of a device with balanced stages and free messages: (pp/2 - 1)(tFB + tB - 3 tw).

    `pair_s` is the time of an overlapped forward and backward. Exact where it is their sum and tf = tb = tw; with a
    shorter pair, or unequal parts, the simulated step is longer.

    >>> bubble_s(8, 2.0, 1.0, 3.0)
    6.0
    """
    return (pp / 2 - 1) * (pair_s + backward_s - 3 * weight_s)
