"""Buffers beside states and saved activations: what communication and a running backward need for a while."""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain, total
from simcluster.memory.parameters import largest_matrix, layer_parameters, vocabulary_rows
from simcluster.memory.setup import MemorySetup
from simcluster.memory.static import DTYPE_BYTES, strategy
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily

TP_OVERLAP_BUFFERS = 4  # one for each kind of overlapped GEMM, 4 to 6 (NVIDIA/TransformerEngine's user buffers)


def sharding_buffers(
    arch: Architecture, parameters: Num, outer: Num, setup: MemorySetup, software: SoftwareFamily
) -> dict[str, Num]:
    """Buffers of sharded data parallelism that stay through a step [bytes].

    parameters [count] are those of the rank, outer [count] those of embedding and head among them. Strategies that
    gather weights hold two layers of them (current and next) and the outer unit, or all of them when they are not given
    back after the forward, and one layer's gradients while they are reduced, or all of them when they are reduced once
    a step. Strategies with buckets hold those. Distributed optimizers gather into the weights and reduce in the
    gradient buffer itself: nothing is added (NVIDIA/Megatron-LM).
    """
    plan = strategy(setup.sharding)
    reduce_bytes = DTYPE_BYTES[software.gradient_dtype]
    if plan.reduce_buffers:
        whole = reduce_bytes * np.asarray(parameters)
        return {"reduce_buffers": plain(np.minimum(plan.reduce_buffers * software.bucket_bytes, whole))}
    if not plan.gathers_weights:
        return {}
    layer = total(layer_parameters(arch, setup.tp).values())
    reshard = np.where(np.greater(setup.pp, 1), software.reshard_with_pp, True) & software.reshard_after_forward
    gathered = np.where(reshard, np.minimum(2 * layer + outer, parameters), parameters)
    once = np.greater(setup.micro_batches, 1) & (not software.reduce_every_micro_batch)
    reduced = np.where(once, parameters, layer)
    active = np.greater(setup.shards, 1)
    return {
        "gathered_weights": plain(active * setup.element_bytes * gathered),
        "reduce_buffers": plain(active * reduce_bytes * reduced),
    }


def exchange_buffers(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Buffers of tensor and pipeline exchange that stay through a step [bytes].

    Pipeline: one activation and one gradient of the stage boundary. Tensor parallel with sequence parallelism: the
    input gathered for a GEMM, and user buffers where GEMM and collective overlap.
    """
    stream = setup.element_bytes * setup.tokens * arch.hidden
    boundary = 2 * stream / setup.residual_shards
    kinds = 1 + TP_OVERLAP_BUFFERS * software.tp_overlap
    gathers = np.greater(setup.tp, 1) & setup.sequence_parallel
    return {
        "pipeline_buffers": plain(np.greater(setup.pp, 1) * boundary),
        "tensor_buffers": plain(gathers * kinds * stream),
    }


def backward_working_bytes(arch: Architecture, setup: MemorySetup) -> Num:
    """Gradients of activations that the backward of one layer has alive at once [bytes].

    Gradient of the residual stream, and the larger of the MLP's (activation, gate and up) and attention's (query, key,
    value and output).
    """
    inner = arch.ffn * (3 if arch.gated_ffn else 2) / setup.tp
    heads = (2 * arch.heads + 2 * np.maximum(arch.kv_heads, setup.tp)) * arch.head_dim / setup.tp
    residual = arch.hidden / setup.residual_shards
    return plain(setup.element_bytes * setup.tokens * (residual + np.maximum(inner, heads)))


def weight_gradient_bytes(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Temporary weight gradient of a layer's largest matrix and of the head, where the GEMM does not accumulate.

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 128)
    >>> weight_gradient_bytes(arch, MemorySetup(), SoftwareFamily("eager", accumulate_in_gemm=False))
    {'layer': 65536.0, 'head': 16384.0}
    """
    size = 0.0 if software.accumulate_in_gemm else setup.element_bytes
    head = vocabulary_rows(arch, setup.tp, setup.vocab_multiple) * arch.hidden
    return {"layer": size * largest_matrix(arch, setup.tp), "head": size * head}
