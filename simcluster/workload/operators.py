"""The operators of one training step, layer by layer: embedding, layers of each kind, head and loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simcluster.shapes import Architecture, Num, Streaming
from simcluster.workload.attention import attention_elements, core_attention
from simcluster.workload.elements import Batch, Element, Kernel, LayerPlan, dropout, linear, norm, residual
from simcluster.workload.experts import expert_elements
from simcluster.workload.layers import LayerKind, layer_kind

__all__ = [
    "Batch",
    "Element",
    "Kernel",
    "LayerPlan",
    "core_attention",
    "embedding_elements",
    "further_token_elements",
    "head_elements",
    "layer_elements",
    "linear",
]

DENSE = LayerKind()


def layer_elements(arch: Architecture, batch: Batch, plan: LayerPlan, kind: LayerKind = DENSE) -> tuple[Element, ...]:
    """Elements of one transformer layer on one rank, in forward order.

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False)
    >>> layer = layer_elements(gpt, Batch(1, 2048), LayerPlan(tp=8, sequence_parallel=True))
    >>> [element.name for element in layer if element.part == "linear"]
    ['qkv', 'projection', 'ffn_up', 'ffn_down']
    """
    attention = attention_elements(arch, batch, plan, kind.attention == "window")
    if kind.mlp == "moe":
        return attention + expert_elements(arch, batch, plan)
    return attention + dense_elements(arch, batch, plan)


def dense_elements(arch: Architecture, batch: Batch, plan: LayerPlan) -> tuple[Element, ...]:
    """The MLP half of a layer, residual included."""
    tokens = batch.tokens
    resident = np.asarray(tokens) * arch.hidden / (plan.tp if plan.sequence_parallel else 1)
    up = (2 if arch.gated_ffn else 1) * arch.ffn / plan.tp
    return (
        norm("mlp_norm", resident, plan),
        linear("ffn_up", tokens, up, arch.hidden, plan, "column"),
        activation(arch, tokens, plan),
        linear("ffn_down", tokens, arch.hidden, arch.ffn / plan.tp, plan, "row"),
        residual("mlp_residual", resident, plan),
    )


def activation(arch: Architecture, tokens: Num, plan: LayerPlan) -> Element:
    """GeLU (4 bytes an element forward, 6 backward) or SwiGLU (6 and 10) on this rank's share of the FFN."""
    elements = np.asarray(tokens) * arch.ffn / plan.tp
    forward, backward = (6.0, 10.0) if arch.gated_ffn else (4.0, 6.0)
    extra = 0 if plan.fused_activation else 1  # an unfused bias or product is one more pass
    return Element(
        "ffn_activation",
        forward=(Streaming("activation", (forward + 4.0 * extra) * elements, 1 + extra),),
        dgrad=(Streaming("activation_backward", (backward + 4.0 * extra) * elements, 1 + extra),),
        part="activation",
    )


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
    return (lookup, Element("embedding_dropout", dropout("embedding_dropout", resident, plan)))


def further_token_elements(arch: Architecture, batch: Batch, plan: LayerPlan, padded_vocab: int) -> tuple[Element, ...]:
    """One depth of multi-token prediction: a 2h-by-h projection, a layer of the last kind, and the head again."""
    joined = 2 * arch.hidden
    project = linear("mtp_projection", batch.tokens, arch.hidden / plan.tp, joined, plan, "column", joined)
    layer = layer_elements(arch, batch, plan, layer_kind(arch, arch.layers))
    head = head_elements(arch, batch, replace(plan, dtype=plan.head_dtype), padded_vocab)
    return (project, *layer, *head)


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
