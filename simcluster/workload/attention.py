"""Attention as elements: grouped-query or latent projections, the core in full, in a window or over context ranks."""

from __future__ import annotations

import numpy as np

from simcluster.shapes import Architecture, FlashAttention, Gemm, Num, Streaming
from simcluster.workload.elements import (
    ACTIVATION_BYTES,
    Batch,
    Element,
    Kernel,
    LayerPlan,
    dropout,
    linear,
    norm,
    residual,
)
from simcluster.workload.layers import attended_pairs

UNFUSED_ROTARY_KERNELS = 6


def attention_elements(arch: Architecture, batch: Batch, plan: LayerPlan, window: bool = False) -> tuple[Element, ...]:
    """The attention half of a layer, residual included."""
    resident = np.asarray(batch.tokens) * arch.hidden / (plan.tp if plan.sequence_parallel else 1)
    project = _latent_projections if arch.kv_rank else _projections
    width = arch.heads * (arch.value_dim or arch.head_dim) / plan.tp
    return (
        norm("input_norm", resident, plan),
        *project(arch, batch, plan),
        *_rotary(arch, batch.tokens, plan),
        core_attention(arch, batch, plan, window),
        linear("projection", batch.tokens, arch.hidden, width, plan, "row"),
        residual("attention_residual", resident, plan),
    )


def _projections(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    kv_width = max(arch.kv_heads, plan.tp) * arch.head_dim
    qkv = (arch.heads * arch.head_dim + 2 * kv_width) / plan.tp
    return (linear("qkv", batch.tokens, qkv, arch.hidden, plan, "column"),)


def _latent_projections(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """Down to the latents on this rank's share of the tokens, up to the heads of this rank (DeepSeek-V2, 2024)."""
    tokens = np.asarray(batch.tokens)
    own = tokens / (plan.tp if plan.sequence_parallel else 1)
    query = arch.heads * (arch.nope_dim + arch.rope_dim) / plan.tp
    keys = arch.heads * (arch.nope_dim + (arch.value_dim or arch.head_dim)) / plan.tp
    down = linear("kv_down", own, arch.kv_rank + arch.rope_dim, arch.hidden, plan)
    up = linear("kv_up", tokens, keys, arch.kv_rank, plan, "column", arch.kv_rank + arch.rope_dim)
    kv = (down, norm("kv_latent_norm", own * arch.kv_rank, plan), up)
    if not arch.q_rank:
        return (linear("query", tokens, query, arch.hidden, plan, "column"), *kv)
    return (
        linear("q_down", own, arch.q_rank, arch.hidden, plan),
        norm("q_latent_norm", own * arch.q_rank, plan),
        linear("q_up", tokens, query, arch.q_rank, plan, "column", arch.q_rank),
        *kv,
    )


def _rotary(arch: Architecture, tokens: Num, plan: LayerPlan) -> tuple[Element, ...]:
    if arch.learned_positions:
        return ()
    kernels = 1 if plan.fused_rotary else UNFUSED_ROTARY_KERNELS
    turned = arch.rope_dim or arch.head_dim
    elements = np.asarray(tokens) * (arch.heads + (arch.kv_heads if not arch.kv_rank else 1)) * turned / plan.tp
    return (
        Element(
            "rotary",
            forward=(Streaming("rotary", 4.0 * elements * kernels, kernels),),
            dgrad=(Streaming("rotary_backward", 4.0 * elements * kernels, kernels),),
        ),
    )


def core_attention(arch: Architecture, batch: Batch, plan: LayerPlan, window: bool = False) -> Element:
    """Scores, softmax and values; one fused kernel, or batched GEMMs around a softmax over batch*heads*seq^2 scores."""
    if plan.attention == "unfused":
        return _unfused(arch, batch, plan)
    return _fused(arch, batch, plan, window)


def _fused(arch: Architecture, batch: Batch, plan: LayerPlan, window: bool) -> Element:
    heads = arch.heads / plan.tp
    kv_heads = heads if arch.kv_rank else max(arch.kv_heads / plan.tp, 1.0)
    value = arch.value_dim or arch.head_dim
    query = arch.nope_dim + arch.rope_dim if arch.kv_rank else arch.head_dim
    dim = (query + value) // 2
    count, seq_q, seq_k, causal = _extent(arch, batch, plan, window)
    if plan.cp > 1 and plan.context == "all-to-all":
        heads, kv_heads = heads / plan.cp, max(kv_heads / plan.cp, 1.0)
    shape = (count, heads, kv_heads, seq_q, seq_k, dim, causal)
    keys = ACTIVATION_BYTES * np.asarray(batch.tokens) * max(arch.kv_heads / plan.tp, 1.0) * (query + value)
    if plan.context == "all-to-all":
        both = (arch.heads / plan.tp) * (query + value)
        keys = keys + ACTIVATION_BYTES * np.asarray(batch.tokens) * both
    return Element(
        "attention",
        forward=(FlashAttention("attention", *shape, "forward", plan.attention, plan.attention_dtype),),
        dgrad=(FlashAttention("attention_backward", *shape, "backward", plan.attention, plan.attention_dtype),),
        part="core_attention",
        exchange="context" if plan.cp > 1 else "none",
        bytes=keys,
        bytes_back=2.0 * keys,
    )


def _extent(arch: Architecture, batch: Batch, plan: LayerPlan, window: bool) -> tuple[Num, Num, Num, bool]:
    """Sequences, queries, keys and causality of one kernel call.

    A window is a rectangle with as many pairs. Over cp ranks in a zigzag each rank has the same causal work: a ring
    step sees half a block of keys, a gathered call half of all keys; heads exchanged, the call is whole.
    """
    seq = batch.sequence
    whole = plan.cp == 1 or plan.context == "all-to-all"
    if window and whole:
        pairs = np.asarray(attended_pairs(seq, arch.window, arch.window_kind), dtype=float)
        return batch.micro_batch, seq, pairs / seq, False
    if whole:
        return batch.micro_batch, seq, seq, True
    reach = seq
    if window:
        reach = 2.0 * np.asarray(attended_pairs(seq, arch.window, arch.window_kind), dtype=float) / seq
    own = seq / plan.cp
    return batch.micro_batch, own, reach / 2 / (plan.cp if plan.context == "p2p" else 1), False


def _unfused(arch: Architecture, batch: Batch, plan: LayerPlan) -> Element:
    seq = batch.sequence
    count = batch.micro_batch * (arch.heads / plan.tp)
    scores = count * np.asarray(seq, dtype=float) ** 2
    passes = 1 if plan.fused_softmax else 3  # scale, mask and softmax apart
    query = arch.nope_dim + arch.rope_dim if arch.kv_rank else arch.head_dim
    value = arch.value_dim or arch.head_dim

    def dot(name: str) -> Kernel:
        return Gemm(name, seq, seq, query if "scores" in name else value, batch=count)

    def weigh(name: str) -> Kernel:
        return Gemm(name, seq, value if "values" in name else query, seq, batch=count)

    return Element(
        "attention",
        forward=(
            dot("scores"),
            Streaming("softmax", 4.0 * scores * passes, passes),
            *dropout("attention_dropout", scores, plan),
            weigh("values"),
        ),
        dgrad=(
            dot("values_dgrad"),
            weigh("values_wgrad"),
            *dropout("attention_dropout_backward", scores, plan),
            Streaming("softmax_backward", (6.0 + 4.0 * (passes - 1)) * scores, passes),
            weigh("scores_dgrad"),
            weigh("scores_wgrad"),
        ),
        part="core_attention",
    )
