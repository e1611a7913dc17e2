"""A layer's forward beside the backward of another micro-batch's layer: while tokens of one travel, the other computes.

Four phases follow each other: the forward's attention beside the return of the backward's tokens, the backward's
experts beside the dispatch of the forward, the forward's experts beside the dispatch of the backward, and the
backward's attention beside the return of the forward's tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simcluster.program.block import EXCHANGE, BlockOp
from simcluster.shapes import Transfer

BESIDE = "|"  # between the names of two blocks; one side is empty where a block runs alone

# In issue order: the pass (0 forward, 1 backward), its part (see _parts), and the phase that this is of.
_ISSUE = ((1, 0, -1), (1, 1, 0), (0, 0, 0), (0, 1, 1), (1, 2, 1), (1, 3, 2), (0, 2, 2), (0, 3, 3), (1, 4, 3), (0, 4, 4))


@dataclass(frozen=True, slots=True)
class PairedBlock:
    """A forward block beside a backward block, operations in issue order.

    phase   of each operation: 0 to 3, -1 before them and 4 behind them
    moves   whether it is part of the exchange of tokens of its phase
    """

    ops: tuple[BlockOp, ...]
    phase: tuple[int, ...]
    moves: tuple[bool, ...]


def pair_names(forward: Sequence[str], backward: Sequence[str], exchanging: frozenset[str]) -> tuple[str, ...]:
    """Blocks of a forward and a backward chunk in the order they run in, those that exchange tokens side by side.

    >>> pair_names(("dense", "experts"), ("head", "experts", "experts"), frozenset({"experts"}))
    ('dense|', '|head', 'experts|experts', '|experts')
    """
    ones, others = _cut(forward, exchanging), _cut(backward, exchanging)
    names: list[str] = []
    for place in range(max(len(ones), len(others))):
        alone, one = ones[place] if place < len(ones) else ((), "")
        beside, other = others[place] if place < len(others) else ((), "")
        names += [f"{name}{BESIDE}" for name in alone] + [f"{BESIDE}{name}" for name in beside]
        names += [f"{one}{BESIDE}{other}"] if one or other else []
    return tuple(names)


def _cut(names: Sequence[str], exchanging: frozenset[str]) -> list[tuple[tuple[str, ...], str]]:
    """Names before each block that exchanges, and that block; those behind the last one with none."""
    pieces: list[tuple[tuple[str, ...], str]] = []
    start = 0
    for place, name in enumerate(names):
        if name in exchanging:
            pieces.append((tuple(names[start:place]), name))
            start = place + 1
    return [*pieces, (tuple(names[start:]), "")]


def paired_block(forward: Sequence[BlockOp], backward: Sequence[BlockOp]) -> PairedBlock:
    """A forward beside a backward; each has two exchanges of tokens that are not there for recomputing."""
    passes = (forward, backward)
    parts = tuple(_parts(ops) for ops in passes)
    issued = [(side, index, phase, part % 2 == 1) for side, part, phase in _ISSUE for index in parts[side][part]]
    place = {(side, index): number for number, (side, index, *_) in enumerate(issued)}
    return PairedBlock(
        ops=tuple(
            replace(passes[side][index], after=tuple(place[side, one] for one in passes[side][index].after))
            for side, index, *_ in issued
        ),
        phase=tuple(phase for _, _, phase, _ in issued),
        moves=tuple(moves for *_, moves in issued),
    )


def _travels(ops: Sequence[BlockOp]) -> list[int]:
    """Where tokens travel between ranks, unless for what is computed again."""
    moves = ((index, op.operator) for index, op in enumerate(ops) if not op.recompute)
    return [index for index, one in moves if isinstance(one, Transfer) and one.group == "ep"]


def _parts(ops: Sequence[BlockOp]) -> tuple[range, range, range, range, range]:
    """Operations before, in, between, in and behind the two exchanges; what experts' ranks share goes with them."""
    (start, end), (again, last) = (_widened(ops, index) for index in _travels(ops))
    return range(start), range(start, end), range(end, again), range(again, last), range(last, len(ops))


def _widened(ops: Sequence[BlockOp], index: int) -> tuple[int, int]:
    """An exchange with the transfers over etp in front of it or behind it."""

    def with_it(place: int) -> bool:
        op = ops[place]
        return op.stream == EXCHANGE and isinstance(op.operator, Transfer) and op.operator.group == "etp"

    start, end = index, index + 1
    while start and with_it(start - 1):
        start -= 1
    while end < len(ops) and with_it(end):
        end += 1
    return start, end
