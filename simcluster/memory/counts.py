"""What one rank of a stage holds, sorted by how it is sharded and kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.memory.arrays import total
from simcluster.memory.parameters import further_parameters, stage_parameters
from simcluster.memory.setup import MemorySetup
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.workload.layers import LayerKind, layer_kind

_LINEAR = ("attention", "mlp", "experts")


@dataclass(frozen=True, slots=True)
class RankParameters:
    """Parameters of one rank of a stage [count].

    dense      all but experts; sharded over the data-parallel group
    experts    those of routed experts; sharded over the ranks that hold the same ones
    outer      embedding and head among the dense
    linear     attention, MLP and experts without their norms: what a low-precision recipe casts
    """

    dense: Num
    experts: Num
    outer: Num
    linear: Num


def rank_parameters(arch: Architecture, chunks: Sequence[ChunkContents], setup: MemorySetup) -> RankParameters:
    """Counts of a stage that holds `chunks`; layers of multi-token prediction stand with the head.

    >>> mixtral = Architecture("m", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
    >>> counts = rank_parameters(mixtral, [ChunkContents(32, True, True)], MemorySetup(dp=8, ep=8))
    >>> counts.experts == 32 * 3 * 4096 * 14336, counts.outer == 2 * 32000 * 4096 + 4096
    (True, True)
    """
    parts = stage_parameters(arch, chunks, setup.tp, setup.vocab_multiple, setup.ep, setup.etp)
    if any(chunk.head for chunk in chunks):
        here = any(chunk.embedding for chunk in chunks)
        further = further_parameters(arch, setup.tp, setup.vocab_multiple, setup.ep, setup.etp, embedding_here=here)
        for name, count in further.items():
            parts[name] = parts.get(name, 0.0) + count
    return RankParameters(
        dense=total(count for name, count in parts.items() if name != "experts"),
        experts=parts.get("experts", 0.0),
        outer=total((parts["embedding"], parts["head"])),
        linear=total(parts.get(name, 0.0) for name in _LINEAR),
    )


def further_kinds(arch: Architecture, chunks: Sequence[ChunkContents]) -> tuple[LayerKind, ...]:
    """Kinds of the layers that predict further tokens, on the stage that holds the head.

    >>> further_kinds(Architecture("m", 2, 64, 4, 4, 16, 256, 100, mtp_depth=1), [ChunkContents(2, head=True)])
    (LayerKind(mlp='dense', attention='full'),)
    """
    depths = arch.mtp_depth if any(chunk.head for chunk in chunks) else 0
    return tuple(layer_kind(arch, arch.layers + depth) for depth in range(depths))


def held_kinds(arch: Architecture, chunks: Sequence[ChunkContents]) -> tuple[LayerKind, ...]:
    """Every kind of layer that a stage holds, once.

    >>> deepseek = Architecture("d", 4, 64, 4, 4, 16, 256, 100, experts=8, top_k=2, expert_ffn=32, dense_layers=1)
    >>> [kind.mlp for kind in held_kinds(deepseek, [ChunkContents(2)])]
    ['dense', 'moe']
    """
    own = (layer_kind(arch, chunk.first + index) for chunk in chunks for index in range(chunk.layers))
    return tuple(dict.fromkeys((*own, *further_kinds(arch, chunks))))
