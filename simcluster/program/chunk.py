"""The chunk program: the blocks of one virtual stage in one pass, with gathers and reductions of sharded parameters.

Three streams run it: compute, the shards' wire (gathers and reductions of one communicator, in issue order), and the
replicas' wire (the second step of hybrid sharding). A block waits for its gather; a gather may run ahead of compute by
a limited number of units; a reduction waits for its block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder, TaskGraph

COMPUTE, SHARD_WIRE, REPLICA_WIRE = 0, 1, 2


@dataclass(frozen=True, slots=True)
class ChunkShape:
    """Structure of a chunk.

    blocks     number of blocks
    gathers    each block's parameters are gathered before it
    scatters   each block's gradients are reduced after it
    replicas   each reduction is followed by one over the replicas of the shards
    ahead      units that may be gathered beyond the one that runs
    """

    blocks: int
    gathers: bool = False
    scatters: bool = False
    replicas: bool = False
    ahead: int = 1


@dataclass(frozen=True)
class ChunkProgram:
    """A compiled chunk. Duration rows: blocks, gathers, scatters, replicas, wire entry; lag rows: host of blocks.

    compute, shards, replicas   tasks of each stream
    reduced   task that ends the reduction of each block's gradients, over replicas too; empty without
    """

    shape: ChunkShape
    graph: TaskGraph
    compute: tuple[int, ...]
    shards: tuple[int, ...]
    replicas: tuple[int, ...]
    reduced: tuple[int, ...] = ()

    @property
    def entry_row(self) -> int:
        """Duration row of the time at which the shards' wire becomes free."""
        return 4 * self.shape.blocks


@lru_cache(maxsize=512)
def chunk_program(shape: ChunkShape) -> ChunkProgram:
    """Compiles a chunk; programs of equal shape are shared.

    >>> len(chunk_program(ChunkShape(2, gathers=True, scatters=True)).graph)
    7
    """
    builder, count = GraphBuilder(), shape.blocks
    compute: list[int] = []
    wires: list[int] = []
    replicas: list[int] = []
    last_wire = builder.add(4 * count, SHARD_WIRE) if shape.gathers or shape.scatters else SOURCE
    gathered: list[int] = []
    reduced: list[int] = []

    def gather(unit: int) -> None:
        nonlocal last_wire
        room = compute[unit - 1 - shape.ahead] if unit - 1 - shape.ahead >= 0 else SOURCE
        last_wire = builder.add(count + unit, SHARD_WIRE, [(last_wire, NO_LAG), (room, NO_LAG)])
        gathered.append(last_wire)
        wires.append(last_wire)

    for unit in range(count):
        if shape.gathers:
            while len(gathered) < min(count, unit + 1 + (shape.ahead if unit else 0)):
                gather(len(gathered))
        waits = [(SOURCE, unit), *([(compute[-1], NO_LAG)] if compute else [])]
        waits += [(gathered[unit], NO_LAG)] if shape.gathers else []
        compute.append(builder.add(unit, COMPUTE, waits))
        if shape.gathers and unit == 0:
            for nearby in range(1, min(count, 1 + shape.ahead)):
                gather(nearby)
        if shape.scatters:
            last_wire = builder.add(2 * count + unit, SHARD_WIRE, [(last_wire, NO_LAG), (compute[-1], NO_LAG)])
            wires.append(last_wire)
            if shape.replicas:
                waits = [(last_wire, NO_LAG), *([(replicas[-1], NO_LAG)] if replicas else [])]
                replicas.append(builder.add(3 * count + unit, REPLICA_WIRE, waits))
            reduced.append(replicas[-1] if shape.replicas else last_wire)
    return ChunkProgram(shape, builder.finish(), tuple(compute), tuple(wires), tuple(replicas), tuple(reduced))
