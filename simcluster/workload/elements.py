"""Elements: the steps that layers are made of, with the kernels that one rank runs and the exchanges at their edges.

An element holds the kernels of its forward, of its input gradient (`dgrad`) and of its weight gradient (`wgrad`), and
says which exchange stands at its edge:

    column    a linear that gathers its input (with sequence parallelism) and reduces its input gradient
    row       a linear that reduces its output and gathers its output gradient
    dispatch  tokens travel to their experts before it, their gradients back after it
    combine   results travel back from the experts after it
    context   attention that needs keys and values of other context-parallel ranks

(Shoeybi et al. 2019; Korthikanti et al. 2022; Lepikhin et al. 2021; Liu et al. 2023.) Bytes of memory-bound operators
count each tensor read or written once, in 16-bit activations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

import numpy as np

from simcluster.shapes import FlashAttention, Gemm, Num, Streaming

ACTIVATION_BYTES = 2.0
UNFUSED_NORM_KERNELS = 4

Kernel = Gemm | FlashAttention | Streaming
Exchange: TypeAlias = Literal["none", "column", "row", "dispatch", "combine", "context"]


@dataclass(frozen=True, slots=True)
class Element:
    """One step of a layer: its kernels by pass, and the exchange at its edge.

    part       what recompute modes may drop: "linear", "core_attention", "norm", "activation", "loss", "other"
    width      values of each token that a column or row exchange carries, 0 for the hidden size
    bytes      bytes that a rank sends in a dispatch, combine or context exchange; `bytes_back` in backward
    """

    name: str
    forward: tuple[Kernel, ...]
    dgrad: tuple[Kernel, ...] = ()
    wgrad: tuple[Kernel, ...] = ()
    exchange: Exchange = "none"
    part: str = "other"
    width: Num = 0
    bytes: Num = 0.0
    bytes_back: Num = 0.0


@dataclass(frozen=True, slots=True)
class LayerPlan:
    """How a framework executes a layer; all that changes the operators but not the mathematics.

    tp, cp              tensor- and context-parallel degrees
    ep, etp             expert-parallel degree, tensor-parallel degree inside experts
    context             how context-parallel ranks share keys and values: "p2p", "all-gather" or "all-to-all"
    imbalance           tokens of the busiest expert rank over the mean, >= 1
    sequence_parallel   norms, dropout and residuals run on 1/tp of the tokens
    attention           "unfused" or the name of a fused kernel
    """

    tp: int = 1
    cp: int = 1
    ep: int = 1
    etp: int = 1
    context: str = "p2p"
    imbalance: float = 1.0
    grouped_gemm: bool = True
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
    head_dtype: str = "bf16"


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: `micro_batch` sequences of `sequence` tokens over `cp` ranks (arrays broadcast).

    tokens   on one context-parallel rank
    """

    micro_batch: Num
    sequence: Num
    cp: int = 1
    tokens: Num = field(init=False)

    def __post_init__(self) -> None:
        tokens = self.micro_batch * self.sequence
        object.__setattr__(self, "tokens", tokens if self.cp == 1 else tokens / self.cp)


def widened(element: Element, factor: float) -> Element:
    """The element with activations `factor` times as many bytes (32-bit training: 2)."""

    def wide(kernels: tuple[Kernel, ...]) -> tuple[Kernel, ...]:
        return tuple(replace(k, bytes=k.bytes * factor) if isinstance(k, Streaming) else k for k in kernels)

    return replace(
        element,
        forward=wide(element.forward),
        dgrad=wide(element.dgrad),
        wgrad=wide(element.wgrad),
        bytes=element.bytes * factor,
        bytes_back=element.bytes_back * factor,
    )


def linear(
    name: str, tokens: Num, out: Num, inner: Num, plan: LayerPlan, exchange: Exchange = "none", width: Num = 0
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
        width=width,
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
        forward = (Streaming(name, 6.0 * elements), *dropout(f"{name}_dropout", elements, plan))
    return Element(name, forward, dgrad=dropout(f"{name}_dropout_backward", elements, plan))


def dropout(name: str, elements: Num, plan: LayerPlan) -> tuple[Kernel, ...]:
    """A dropout kernel (5 bytes an element: read, write, mask), if dropout is executed."""
    return (Streaming(name, 5.0 * elements),) if plan.dropout else ()
