"""The operators of one training step, layer by layer, with the shapes that one rank runs.

A layer is a list of elements in forward order. An element holds the kernels of its forward, of its input gradient
(`dgrad`) and of its weight gradient (`wgrad`), and says whether a tensor-parallel exchange stands at its edge: a
`column` linear gathers its input (with sequence parallelism) and reduces its input gradient, a `row` linear reduces
its output and gathers its output gradient (Shoeybi et al. 2019; Korthikanti et al. 2022).

Bytes of memory-bound operators count each tensor read or written once, in 16-bit activations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from simcluster.shapes import Architecture, FlashAttention, Gemm, Num, Streaming

ACTIVATION_BYTES = 2.0
UNFUSED_NORM_KERNELS = 4
UNFUSED_ROTARY_KERNELS = 6

Kernel = Gemm | FlashAttention | Streaming


@dataclass(frozen=True, slots=True)
class Element:
    """One step of a layer: its kernels by pass, and the exchange at its edge.

    part       what recompute modes may drop: "linear", "core_attention", "norm", "activation", "loss", "other"
    exchange   "column", "row" or "none"
    weights    parameters of this element on one rank (their gradient is accumulated)
    """

    name: str
    forward: tuple[Kernel, ...]
    dgrad: tuple[Kernel, ...] = ()
    wgrad: tuple[Kernel, ...] = ()
    exchange: Literal["none", "column", "row"] = "none"
    part: str = "other"


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """How a framework executes a layer; all that changes the operators but not the mathematics.

    tp                  tensor-parallel degree
    sequence_parallel   norms, dropout and residuals run on 1/tp of the tokens
    attention           "unfused" or the name of a fused kernel
    """

    tp: int = 1
    sequence_parallel: bool = False
    attention: str = "flash-2"
    fused_softmax: bool = True
    fused_norm: bool = True
    fused_activation: bool = True
    fused_rotary: bool = True
    fused_cross_entropy: bool = True
    dropout: bool = False
    accumulate_in_gemm: bool = True
    dtype: str = "bf16"
    attention_dtype: str = "bf16"


@dataclass(frozen=True, slots=True)
class Batch:
    """Tokens that one rank sees in a chunk: `micro_batch` sequences of `sequence` tokens (arrays broadcast)."""

    micro_batch: Num
    sequence: Num
    tokens: Num = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tokens", self.micro_batch * self.sequence)


def linear(
    name: str, tokens: Num, out: Num, inner: Num, plan: LayerPlan, exchange: Literal["none", "column", "row"]
) -> Element:
    """A linear layer y[tokens, out] = x[tokens, inner] w[inner, out] as seen by one rank.

    >>> linear("qkv", 2048, 4608, 12288, LayerPlan(tp=8), "column").wgrad[0].k
    2048
    """
    wgrad: tuple[Kernel, ...] = (
        Gemm(f"{name}_wgrad", inner, out, tokens, 1, plan.dtype, plan.accumulate_in_gemm, "NT"),
    )
    if not plan.accumulate_in_gemm:
        wgrad += (Streaming(f"{name}_accumulate", 10.0 * np.asarray(inner) * out),)
    return Element(
        name,
        forward=(Gemm(name, tokens, out, inner, dtype=plan.dtype),),
        dgrad=(Gemm(f"{name}_dgrad", tokens, inner, out, dtype=plan.dtype, layout="NN"),),
        wgrad=wgrad,
        exchange=exchange,
        part="linear",
    )


def norm(name: str, elements: Num, plan: LayerPlan) -> Element:
    """A norm over `elements` activations: 4 bytes each forward, 6 backward and 6 to add the residual's gradient."""
    kernels = 1 if plan.fused_norm else UNFUSED_NORM_KERNELS
    return Element(
        name,
        forward=(Streaming(name, 4.0 * elements * kernels, kernels),),
        dgrad=(
            Streaming(f"{name}_backward", 6.0 * elements * kernels, kernels),
            Streaming(f"{name}_residual_grad", 6.0 * elements),
        ),
        part="norm",
    )


def residual(name: str, elements: Num, plan: LayerPlan) -> Element:
    """Bias, dropout and residual addition: fused one pass (6 bytes, 7 with the mask), else one kernel each."""
    mask = 1.0 if plan.dropout else 0.0
    if plan.fused_activation:
        forward: tuple[Kernel, ...] = (Streaming(name, (6.0 + mask) * elements),)
    else:
        forward = (Streaming(name, 6.0 * elements), *_dropout(f"{name}_dropout", elements, plan))
    return Element(name, forward, dgrad=_dropout(f"{name}_dropout_backward", elements, plan))


def _dropout(name: str, elements: Num, plan: LayerPlan) -> tuple[Kernel, ...]:
    return (Streaming(name, 5.0 * elements),) if plan.dropout else ()


def activation(arch: Architecture, tokens: Num, plan: LayerPlan) -> Element:
    """GeLU (4 bytes an element forward, 6 backward) or SwiGLU (6 and 10) on this rank's share of the FFN."""
    elements = np.asarray(tokens) * arch.ffn / plan.tp
    forward, backward = (6.0, 10.0) if arch.gated_ffn else (4.0, 6.0)
    extra = 0 if plan.fused_activation else 1  # an unfused bias or product is one more pass
    return Element(
        "activation",
        forward=(Streaming("activation", (forward + 4.0 * extra) * elements, 1 + extra),),
        dgrad=(Streaming("activation_backward", (backward + 4.0 * extra) * elements, 1 + extra),),
        part="activation",
    )


def core_attention(arch: Architecture, batch: Batch, plan: LayerPlan) -> Element:
    """Scores, softmax and values; one fused kernel, or batched GEMMs around a softmax over batch*heads*seq^2 scores."""
    heads = arch.heads / plan.tp
    kv_heads = max(arch.kv_heads / plan.tp, 1.0)
    seq = batch.sequence
    if plan.attention != "unfused":
        shape = (batch.micro_batch, heads, kv_heads, seq, seq, arch.head_dim, True)
        dtype = plan.attention_dtype
        return Element(
            "attention",
            forward=(FlashAttention("attention", *shape, "forward", plan.attention, dtype),),
            dgrad=(FlashAttention("attention_backward", *shape, "backward", plan.attention, dtype),),
            part="core_attention",
        )
    count = batch.micro_batch * heads
    scores = count * np.asarray(seq, dtype=float) ** 2
    passes = 1 if plan.fused_softmax else 3  # scale, mask and softmax apart
    qk = Gemm("scores", seq, seq, arch.head_dim, batch=count)
    av = Gemm("values", seq, arch.head_dim, seq, batch=count)
    return Element(
        "attention",
        forward=(
            qk,
            Streaming("softmax", 4.0 * scores * passes, passes),
            *_dropout("attention_dropout", scores, plan),
            av,
        ),
        dgrad=(
            Gemm("values_dgrad", seq, seq, arch.head_dim, batch=count),
            Gemm("values_wgrad", seq, arch.head_dim, seq, batch=count),
            *_dropout("attention_dropout_backward", scores, plan),
            Streaming("softmax_backward", (6.0 + 4.0 * (passes - 1)) * scores, passes),
            Gemm("scores_dgrad", seq, arch.head_dim, seq, batch=count),
            Gemm("scores_wgrad", seq, arch.head_dim, seq, batch=count),
        ),
        part="core_attention",
    )


def _rotary(arch: Architecture, tokens: Num, plan: LayerPlan) -> tuple[Element, ...]:
    if arch.learned_positions:
        return ()
    kernels = 1 if plan.fused_rotary else UNFUSED_ROTARY_KERNELS
    elements = np.asarray(tokens) * (arch.heads + arch.kv_heads) * arch.head_dim / plan.tp
    return (
        Element(
            "rotary",
            forward=(Streaming("rotary", 4.0 * elements * kernels, kernels),),
            dgrad=(Streaming("rotary_backward", 4.0 * elements * kernels, kernels),),
        ),
    )


def layer_elements(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """Elements of one transformer layer on one rank, in forward order.

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False)
    >>> layer = layer_elements(gpt, Batch(1, 2048), LayerPlan(tp=8, sequence_parallel=True))
    >>> [element.name for element in layer if element.part == "linear"]
    ['qkv', 'projection', 'ffn_up', 'ffn_down']
    """
    tokens = batch.tokens
    resident = np.asarray(tokens) * arch.hidden / (plan.tp if plan.sequence_parallel else 1)
    kv_width = max(arch.kv_heads, plan.tp) * arch.head_dim
    qkv = (arch.heads * arch.head_dim + 2 * kv_width) / plan.tp
    up = (2 if arch.gated_ffn else 1) * arch.ffn / plan.tp
    attention = (
        norm("input_norm", resident, plan),
        linear("qkv", tokens, qkv, arch.hidden, plan, "column"),
        *_rotary(arch, tokens, plan),
        core_attention(arch, batch, plan),
        linear("projection", tokens, arch.hidden, arch.heads * arch.head_dim / plan.tp, plan, "row"),
        residual("attention_residual", resident, plan),
    )
    mlp = (
        norm("mlp_norm", resident, plan),
        linear("ffn_up", tokens, up, arch.hidden, plan, "column"),
        activation(arch, tokens, plan),
        linear("ffn_down", tokens, arch.hidden, arch.ffn / plan.tp, plan, "row"),
        residual("mlp_residual", resident, plan),
    )
    return attention + mlp


def embedding_elements(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """Token (and position) embedding of the first stage: a lookup forward, a scatter-add backward."""
    elements = np.asarray(batch.tokens) * arch.hidden
    passes = 2 if arch.learned_positions else 1
    resident = elements / (plan.tp if plan.sequence_parallel else 1)
    lookup = Element(
        "embedding",
        forward=(Streaming("embedding", 4.0 * elements * passes, passes),),
        dgrad=(),
        wgrad=(Streaming("embedding_scatter", 10.0 * elements * passes, passes),),
        exchange="row",
    )
    return (lookup, Element("embedding_dropout", _dropout("embedding_dropout", resident, plan)))


def head_elements(arch: Architecture, batch: Batch, plan: LayerPlan, padded_vocab: int) -> tuple[Element, ...]:
    """Final norm, output projection and cross entropy of the last stage, vocabulary split over tp."""
    resident = np.asarray(batch.tokens) * arch.hidden / (plan.tp if plan.sequence_parallel else 1)
    logits = np.asarray(batch.tokens) * (padded_vocab / plan.tp)
    forward, backward, kernels = (6.0, 4.0, 2) if plan.fused_cross_entropy else (24.0, 8.0, 5)
    loss = Element(
        "loss",
        forward=(Streaming("cross_entropy", forward * logits, kernels),),
        dgrad=(Streaming("cross_entropy_backward", backward * logits, 1),),
        part="loss",
    )
    output = linear("output", batch.tokens, padded_vocab / plan.tp, arch.hidden, plan, "column")
    return (norm("final_norm", resident, plan), output, loss)
