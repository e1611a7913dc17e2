"""What each pipeline stage holds: lists of layers with embedding and head, never L/pp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Balance: TypeAlias = Literal["layers", "embedding-head-as-layers", "when-it-divides"]


@dataclass(frozen=True, slots=True)
class ChunkContents:
    """One virtual stage: how many layers, and whether it owns the embedding or the head with the loss.

    first   index of its first layer in the model
    """

    layers: int
    embedding: bool = False
    head: bool = False
    first: int = 0


def split_layers(layers: int, parts: int, balance: Balance = "when-it-divides") -> tuple[int, ...]:
    """Layers of each virtual stage in model order.

    balance   "layers": layers alone are spread; "embedding-head-as-layers": embedding and head count as one layer each;
              "when-it-divides": the same, but only where it makes the parts even and the layers alone do not
    Parts that get one more stand in the middle, away from embedding and head.

    >>> split_layers(96, 24)[:2]
    (4, 4)
    >>> split_layers(126, 16)[0], split_layers(126, 16)[1], split_layers(126, 16)[-1]
    (7, 8, 7)
    >>> split_layers(10, 4)
    (2, 3, 3, 2)
    >>> split_layers(80, 4, "embedding-head-as-layers")
    (19, 21, 21, 19)
    """
    if parts < 1 or layers < 1:
        raise ValueError("layers and parts are at least 1")
    evens_out = layers % parts != 0 and (layers + 2) % parts == 0
    counted = balance == "embedding-head-as-layers" or (balance == "when-it-divides" and evens_out)
    if not counted or parts == 1 or layers + 2 < parts:
        return _spread(layers, parts)
    sizes = list(_spread(layers + 2, parts))
    return (sizes[0] - 1, *sizes[1:-1], sizes[-1] - 1)


def _spread(count: int, parts: int) -> tuple[int, ...]:
    base, extra = divmod(count, parts)
    first = (parts - extra) // 2
    return tuple(base + (first <= index < first + extra) for index in range(parts))


def stage_contents(
    layers: int,
    pp: int,
    virtual_stages: int = 1,
    explicit: Sequence[int] | None = None,
    balance: Balance = "when-it-divides",
    ends: tuple[int, int] | None = None,
) -> tuple[tuple[ChunkContents, ...], ...]:
    """Contents of every stage: `result[stage][chunk]`; chunk j of stage i is virtual stage j*pp + i.

    `explicit` gives the layers of each virtual stage in model order; it must have pp*virtual_stages entries that sum
    to `layers`. `ends` are the virtual stages of embedding and head (default: the first and the last), no layers
    before or behind them.

    >>> for chunk in stage_contents(8, 2, 2)[0]:
    ...     print(chunk)
    ChunkContents(layers=2, embedding=True, head=False, first=0)
    ChunkContents(layers=2, embedding=False, head=False, first=4)
    """
    parts = pp * virtual_stages
    sizes = tuple(explicit) if explicit is not None else split_layers(layers, parts, balance)
    if len(sizes) != parts or sum(sizes) != layers or min(sizes) < 0:
        raise ValueError(f"a stage layout needs {parts} entries that sum to {layers}, got {list(sizes)}")
    embedding, head = ends or (0, parts - 1)
    if not 0 <= embedding <= head < parts or any(sizes[:embedding]) or any(sizes[head + 1 :]):
        raise ValueError(f"embedding and head on {embedding} and {head} of {parts} have layers before or behind them")
    starts = [sum(sizes[:index]) for index in range(parts)]
    chunks = [ChunkContents(size, index == embedding, index == head, starts[index]) for index, size in enumerate(sizes)]
    return tuple(tuple(chunks[j * pp + i] for j in range(virtual_stages)) for i in range(pp))


def both_ways(contents: Sequence[Sequence[ChunkContents]]) -> tuple[tuple[ChunkContents, ...], ...]:
    """Contents where micro-batches enter at both ends: device i also holds, as its second chunk, stage pp - 1 - i.

    >>> [[chunk.first for chunk in stage] for stage in both_ways(stage_contents(8, 4))]
    [[0, 6], [2, 4], [4, 2], [6, 0]]
    """
    return tuple((*stage, *mirror) for stage, mirror in zip(contents, reversed(contents)))
