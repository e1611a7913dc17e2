"""Buffers of sharded data parallelism: units whose weights are gathered, gradients that wait for their reduction.

A unit is a layer, its experts included. Embedding and head are one more, which stays gathered from the forward to the
backward (PyTorch's fully_shard keeps its root). A part that a single rank holds whole has no buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.memory.arrays import plain, total
from simcluster.memory.counts import RankParameters, held_kinds
from simcluster.memory.parameters import layer_parameters
from simcluster.memory.precision import gathered_bytes
from simcluster.memory.setup import MemorySetup
from simcluster.memory.static import DTYPE_BYTES, strategy
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily


@dataclass(frozen=True, slots=True)
class ShardedParts:
    """Parameters of a rank that are sharded at all [count]: the largest layer, embedding with head, everything."""

    layer: Num
    outer: Num
    everything: Num


def sharded_parts(
    arch: Architecture, chunks: Sequence[ChunkContents], counts: RankParameters, setup: MemorySetup
) -> ShardedParts:
    """What has shards on other ranks; experts that only this rank holds are whole already.

    >>> from simcluster.memory.counts import rank_parameters
    >>> mixtral = Architecture("m", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
    >>> chunks, setup = [ChunkContents(32)], MemorySetup(dp=8, ep=8, sharding="fsdp")
    >>> round(sharded_parts(mixtral, chunks, rank_parameters(mixtral, chunks, setup), setup).layer / 1e6, 2)
    41.98
    """
    dense, experts = np.greater(setup.shards, 1) * 1.0, np.greater(setup.expert_shards, 1) * 1.0
    layer: Num = 0.0
    for kind in held_kinds(arch, chunks):
        parts = layer_parameters(arch, setup.tp, kind, setup.ep, setup.etp)
        own = parts.pop("experts", 0.0)
        layer = np.maximum(layer, dense * total(parts.values()) + experts * own)
    return ShardedParts(
        plain(layer), plain(dense * counts.outer), plain(dense * counts.dense + experts * counts.experts)
    )


def sharding_buffers(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    counts: RankParameters,
    setup: MemorySetup,
    software: SoftwareFamily,
) -> dict[str, Num]:
    """Buffers that stay through a step [bytes]; none for zero-1, which reduces in the gradients and gathers into the
    weights themselves (NVIDIA/Megatron-LM).

    Strategies that gather weights hold the unit that runs and the ones gathered ahead, with embedding and head; all
    weights where they are not given back after the forward, or are gathered once a step under pipeline parallelism; for
    zero-3 as many as deepspeedai/DeepSpeed lets live. One layer's gradients wait for their reduction, or all of them
    where they are reduced once a step. zero-2 holds its buckets, or all gradients likewise.
    """
    plan = strategy(setup.sharding)
    if not plan.gathers_weights and not plan.reduce_buffers:
        return {}
    parts = sharded_parts(arch, chunks, counts, setup)
    whole_step = np.greater(setup.pp, 1) & (not software.reshard_with_pp)
    once = np.greater(setup.micro_batches, 1) & (whole_step | (not software.reduce_every_micro_batch))
    reduce_bytes = max(DTYPE_BYTES[software.gradient_dtype], setup.element_bytes if setup.element_bytes > 2 else 0.0)
    if plan.reduce_buffers:
        waiting = np.minimum(plan.reduce_buffers * software.bucket_bytes, reduce_bytes * np.asarray(parts.everything))
        return {"reduce_buffers": plain(np.where(once, reduce_bytes * parts.everything, waiting))}
    ahead = 1 if software.overlap_param_gather else 0
    live = np.minimum(np.maximum((1 + ahead) * parts.layer, plan.live_parameters), parts.everything - parts.outer)
    kept = whole_step | (not software.reshard_after_forward)
    layers = gathered_bytes(setup.precision, software) * np.where(kept, parts.everything - parts.outer, live)
    return {
        "gathered_weights": plain(layers + setup.element_bytes * parts.outer),
        "reduce_buffers": plain(reduce_bytes * np.where(once, parts.everything, parts.layer)),
    }
