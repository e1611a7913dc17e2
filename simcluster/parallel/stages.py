"""What each pipeline stage holds: lists of layers with embedding and head, never L/pp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkContents:
    """One virtual stage: how many layers, and whether it owns the embedding or the head with the loss."""

    layers: int
    embedding: bool = False
    head: bool = False


def split_layers(layers: int, parts: int) -> tuple[int, ...]:
    """Layers of each virtual stage in model order.

    Even when `layers` divides. Otherwise, where embedding and head counted as one layer each make it even, the first
    and last part hold one layer less; else the longer parts stand in the middle, away from embedding and head.

    >>> split_layers(96, 24)[:2]
    (4, 4)
    >>> split_layers(126, 16)[0], split_layers(126, 16)[1], split_layers(126, 16)[-1]
    (7, 8, 7)
    >>> split_layers(10, 4)
    (2, 3, 3, 2)
    """
    if parts < 1 or layers < 1:
        raise ValueError("layers and parts are at least 1")
    base, extra = divmod(layers, parts)
    if extra == 0:
        return (base,) * parts
    if (layers + 2) % parts == 0 and parts > 1:
        even = (layers + 2) // parts
        return (even - 1, *([even] * (parts - 2)), even - 1)
    sizes = [base] * parts
    first = (parts - extra) // 2
    for index in range(first, first + extra):
        sizes[index] += 1
    return tuple(sizes)


def stage_contents(
    layers: int, pp: int, virtual_stages: int = 1, explicit: Sequence[int] | None = None
) -> tuple[tuple[ChunkContents, ...], ...]:
    """Contents of every stage: `result[stage][chunk]`; chunk j of stage i is virtual stage j*pp + i.

    `explicit` gives the layers of each virtual stage in model order; it must have pp*virtual_stages entries that sum
    to `layers`.

    >>> stage_contents(8, 2, 2)[0]
    (ChunkContents(layers=2, embedding=True, head=False), ChunkContents(layers=2, embedding=False, head=False))
    """
    parts = pp * virtual_stages
    sizes = tuple(explicit) if explicit is not None else split_layers(layers, parts)
    if len(sizes) != parts or sum(sizes) != layers or min(sizes) < 0:
        raise ValueError(f"a stage layout needs {parts} entries that sum to {layers}, got {list(sizes)}")
    chunks = [ChunkContents(size, index == 0, index == parts - 1) for index, size in enumerate(sizes)]
    return tuple(tuple(chunks[j * pp + i] for j in range(virtual_stages)) for i in range(pp))
