"""Buffers beside states and saved activations: what communication and a running backward need for a while."""

from __future__ import annotations

import numpy as np

from simcluster.memory.activations import key_value_bytes
from simcluster.memory.arrays import plain
from simcluster.memory.experts import routed_tokens
from simcluster.memory.parameters import largest_matrix, vocabulary_rows
from simcluster.memory.setup import MemorySetup
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.layers import LayerKind, layer_kind

TP_OVERLAP_BUFFERS = 4  # one for each kind of overlapped GEMM, 4 to 6 (NVIDIA/TransformerEngine's user buffers)
RING_BUFFERS = 4.0  # keys and values in use and arriving, and the gradients of both


def exchange_buffers(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> dict[str, Num]:
    """Buffers of tensor and pipeline exchange that stay through a step [bytes].

    Pipeline: one activation and one gradient of the stage boundary. Tensor parallel with sequence parallelism: the
    input gathered for a GEMM, and user buffers where GEMM and collective overlap.

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> exchange_buffers(llama, MemorySetup(pp=2), SoftwareFamily("mine"))["pipeline_buffers"] == 2 * 2 * 2048 * 4096
    True
    """
    stream = setup.element_bytes * setup.tokens * arch.hidden
    boundary = 2 * stream / setup.residual_shards
    overlap = software.tp_overlap_moe if arch.experts else software.tp_overlap
    gathers = np.greater(setup.tp, 1) & setup.sequence_parallel
    return {
        "pipeline_buffers": plain(np.greater(setup.pp, 1) * boundary),
        "tensor_buffers": plain(gathers * (1 + TP_OVERLAP_BUFFERS * overlap) * stream),
    }


def context_bytes(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> Num:
    """What the backward of attention has from other context-parallel ranks at once [bytes]; 0 for cp 1.

    "p2p": keys and values in use and arriving, with their gradients; "all-gather": those of the whole sequence with
    theirs; "all-to-all": one more copy of query, key and value while heads are exchanged. Estimates of grade D.

    >>> llama = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
    >>> gathered = SoftwareFamily("mine", cp_communication="all-gather")
    >>> context_bytes(llama, MemorySetup(cp=2, sequence=8192), gathered) == 2 * 8192 * 4096
    True
    """
    keys = key_value_bytes(arch, setup.tokens, setup.tp, 1, setup.element_bytes)
    size: Num = RING_BUFFERS * keys
    if software.cp_communication == "all-gather":
        size = 2 * keys * np.asarray(setup.cp)
    elif software.cp_communication == "all-to-all":
        size = keys + setup.element_bytes * setup.tokens * arch.heads * arch.head_dim / setup.tp
    return plain(np.greater(setup.cp, 1) * size)


def backward_working_bytes(arch: Architecture, setup: MemorySetup, kind: LayerKind | None = None) -> Num:
    """Gradients of activations that the backward of one layer has alive at once [bytes].

    Gradient of the residual stream, and the larger of attention's (query, key, value and output) and the MLP's
    (activation, gate and up; with experts those of all dispatched tokens, of their results, and of shared experts).
    kind is that of the layer, by default the first layer's.

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> backward_working_bytes(llama, MemorySetup()) == 2 * 2048 * (4096 + 3 * 11008)
    True
    """
    kind, gates = kind or layer_kind(arch, 0), 3 if arch.gated_ffn else 2
    value = arch.value_dim or arch.head_dim
    keys = key_value_bytes(arch, setup.tokens, setup.tp, 1, setup.element_bytes)
    heads = keys + setup.element_bytes * setup.tokens * arch.heads * (arch.head_dim + value) / setup.tp
    inner: Num = setup.tokens * arch.ffn * gates / setup.tp
    if kind.mlp == "moe":
        routed = routed_tokens(setup.tokens, setup.tp, setup.etp, sequence_parallel=setup.sequence_parallel)
        each = (gates * arch.expert_ffn / np.asarray(setup.etp, dtype=float) + arch.hidden) * setup.etp
        rows = routed * arch.top_k * setup.imbalance * each
        inner = rows + setup.tokens * gates * arch.shared_ffn / setup.tp
    residual = setup.element_bytes * setup.tokens * arch.hidden / setup.residual_shards
    return plain(residual + np.maximum(setup.element_bytes * inner, heads))


def weight_gradient_bytes(
    arch: Architecture, setup: MemorySetup, software: SoftwareFamily, kind: LayerKind | None = None
) -> Num:
    """Temporary gradient of a layer's largest weight, where the GEMM does not accumulate [bytes].

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 128)
    >>> weight_gradient_bytes(arch, MemorySetup(), SoftwareFamily("eager", accumulate_in_gemm=False))
    65536.0
    """
    size = 0.0 if software.accumulate_in_gemm else setup.element_bytes
    return size * largest_matrix(arch, setup.tp, kind, setup.ep, setup.etp, grouped=software.grouped_gemm)


def head_gradient_bytes(arch: Architecture, setup: MemorySetup, software: SoftwareFamily) -> Num:
    """Temporary gradient of the head's weight, where the GEMM does not accumulate [bytes].

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 128)
    >>> head_gradient_bytes(arch, MemorySetup(), SoftwareFamily("eager", accumulate_in_gemm=False))
    16384.0
    """
    size = 0.0 if software.accumulate_in_gemm else setup.element_bytes
    return size * vocabulary_rows(arch, setup.tp, setup.vocab_multiple) * arch.hidden
