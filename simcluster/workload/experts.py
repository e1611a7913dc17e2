"""A layer of experts as elements: router, dispatch, grouped GEMMs, combine, shared experts.

Each rank routes its own tokens (a share of 1/tp of them with sequence parallelism). Experts are spread over ep ranks
and, inside each, over etp; a rank computes for all tokens that are sent to its experts. Balanced routing gives every
rank tokens*top_k rows; `imbalance` is the busiest rank over the mean.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.shapes import Architecture, Gemm, Num, Streaming
from simcluster.workload.elements import (
    ACTIVATION_BYTES,
    Batch,
    Element,
    Kernel,
    LayerPlan,
    linear,
    norm,
    residual,
)

_ROUTER_KERNELS = 4  # softmax, top-k, sort, scatter of the routing map


def expert_elements(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """The expert half of a layer, residual included."""
    resident = np.asarray(batch.tokens) * arch.hidden / (plan.tp if plan.sequence_parallel else 1)
    routed = _routed_tokens(batch, plan)
    rows = routed * arch.top_k * plan.etp * plan.imbalance
    sent = ACTIVATION_BYTES * routed * arch.top_k * arch.hidden * plan.imbalance
    width = (2 if arch.gated_ffn else 1) * arch.expert_ffn / plan.etp
    inner = arch.expert_ffn / plan.etp
    return (
        norm("mlp_norm", resident, plan),
        _router(arch, routed, plan),
        _permutation("permute", routed * arch.hidden, arch.top_k),
        _grouped("experts_up", rows, width, arch.hidden, arch, plan, "dispatch", sent),
        _activation("experts_activation", arch, rows * inner),
        _grouped("experts_down", rows, arch.hidden, inner, arch, plan, "combine", sent),
        _permutation("unpermute", routed * arch.hidden, arch.top_k),
        *_shared(arch, batch, plan),
        residual("mlp_residual", resident, plan),
    )


def _routed_tokens(batch: Batch, plan: LayerPlan) -> Num:
    """Tokens that one rank routes: 1/tp of them with sequence parallelism, else split over etp ranks that hold them."""
    split = plan.tp if plan.sequence_parallel else min(plan.tp, plan.etp)
    return np.asarray(batch.tokens, dtype=float) / split


def _router(arch: Architecture, tokens: Num, plan: LayerPlan) -> Element:
    scores = tokens * arch.experts
    project = linear("router", tokens, arch.experts, arch.hidden, replace(plan, dtype=plan.head_dtype))
    choose = Streaming("routing", 20.0 * scores, _ROUTER_KERNELS)
    return Element(
        "router",
        forward=(*project.forward, choose),
        dgrad=(Streaming("routing_backward", 12.0 * scores, 2), *project.dgrad),
        wgrad=project.wgrad,
        part="router",
    )


def _permutation(name: str, elements: Num, top_k: int) -> Element:
    """Tokens sorted by expert, or put back and summed: 4 bytes for each of top_k copies, both ways."""
    traffic = 4.0 * top_k * elements
    return Element(name, (Streaming(name, traffic),), (Streaming(f"{name}_backward", traffic),))


def _activation(name: str, arch: Architecture, elements: Num) -> Element:
    forward, backward = (6.0, 10.0) if arch.gated_ffn else (4.0, 6.0)
    return Element(
        name,
        (Streaming(name, forward * elements),),
        (Streaming(f"{name}_backward", backward * elements),),
        part="activation",
    )


def _grouped(
    name: str, rows: Num, out: Num, inner: Num, arch: Architecture, plan: LayerPlan, exchange: str, sent: Num
) -> Element:
    """One grouped GEMM over the local experts (or one GEMM each, with as many kernels)."""
    local = arch.experts / plan.ep
    each = rows / local
    launches = 1 if plan.grouped_gemm else int(local)

    def many(gemm: Gemm) -> tuple[Kernel, ...]:
        if launches == 1:
            return (gemm,)
        waits = Streaming(f"{gemm.name}_launches", 0.0, launches - 1)
        return (gemm, waits)

    wgrad = Gemm(f"{name}_wgrad", inner, out, each, local, plan.dtype, plan.accumulate_in_gemm, "NT")
    accumulate: tuple[Kernel, ...] = ()
    if not plan.accumulate_in_gemm:
        accumulate = (Streaming(f"{name}_accumulate", 10.0 * local * np.asarray(inner) * out),)
    return Element(
        name,
        forward=many(Gemm(name, each, out, inner, local, plan.dtype)),
        dgrad=many(Gemm(f"{name}_dgrad", each, inner, out, local, plan.dtype, layout="NN")),
        wgrad=(*many(wgrad), *accumulate),
        exchange="dispatch" if exchange == "dispatch" else "combine",
        part="linear",
        bytes=sent,
        bytes_back=sent,
    )


def _shared(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """Experts that see every token: a dense MLP of their joint width."""
    if not arch.shared_ffn:
        return ()
    inner = arch.shared_ffn / plan.tp
    up = (2 if arch.gated_ffn else 1) * inner
    return (
        linear("shared_up", batch.tokens, up, arch.hidden, plan, "column"),
        _activation("shared_activation", arch, np.asarray(batch.tokens) * inner),
        linear("shared_down", batch.tokens, arch.hidden, inner, plan, "row"),
    )
