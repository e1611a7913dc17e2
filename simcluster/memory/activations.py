"""Activations that one layer keeps for its backward, per micro-batch and rank, by operator.

Symbols: S tokens of the micro-batch on this rank (b·s/cp), s whole sequence, h hidden, a query heads, g key-value
heads, d head size, f inner width, t tensor-parallel ranks, r = t with sequence parallelism, else 1; two bytes
an element.

Without flash attention and with dropout the sum for a GPT layer is that of Korthikanti et al. 2022, "Reducing
Activation Recomputation in Large Transformer Models": S·h·(10 + 24/t + 5·a·s/(h·t)), or (S·h/t)·(34 + 5·a·s/h) with
sequence parallelism. Row statistics of norms are left out there and here (8 bytes a token).

Component names are `group.tensor`; a further operator (experts, low-rank attention) is a further function that returns
such names.
"""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Architecture, Num

MASK_BYTES = 1.0  # a dropout mask holds one byte an element
STATISTIC_BYTES = 4.0  # log-sum-exp of a row of the attention map, fp32


def norm_activations(
    arch: Architecture, tokens: Num, residual_shards: Num = 1, element_bytes: float = 2.0
) -> dict[str, Num]:
    """Inputs of a layer's norms [bytes]; the first is the layer's input.

    In a parallel block attention and MLP read one residual stream, so its copy is kept once. Norms after attention and
    MLP (four per layer) keep their inputs as well.

    >>> norm_activations(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 10)
    {'norms.attention_input': 1280.0, 'norms.mlp_input': 1280.0}
    """
    stream = element_bytes * tokens * arch.hidden / residual_shards
    parts = {"norms.attention_input": stream}
    if not arch.parallel_block:
        parts["norms.mlp_input"] = stream
    if arch.norms_per_layer >= 4:
        parts |= {"norms.attention_output": stream, "norms.mlp_output": stream}
    return parts


def attention_activations(
    arch: Architecture,
    tokens: Num,
    tp: Num = 1,
    residual_shards: Num = 1,
    *,
    dropout: bool = False,
    element_bytes: float = 2.0,
) -> dict[str, Num]:
    """What attention keeps apart from its core [bytes]: inputs and outputs of the projections, query, key, value, mask.

    input 2Sh/r, query 2Sad/t, key and value 4S·max(g, t)d/t, output 2Sad/t, dropout mask Sh/r; a query-key norm adds
    its inputs.

    >>> parts = attention_activations(Architecture("m", 2, 64, 4, 2, 16, 256, 100), 10, tp=2)
    >>> parts["attention.query"], parts["attention.key_value"], parts["attention.input"]
    (640.0, 640.0, 1280.0)
    """
    stream = tokens * arch.hidden / residual_shards
    query = element_bytes * tokens * arch.heads * arch.head_dim / tp
    key = plain(element_bytes * tokens * np.maximum(arch.kv_heads, tp) * arch.head_dim / tp)
    parts = {
        "attention.input": element_bytes * stream,
        "attention.query": query,
        "attention.key_value": 2 * key,
        "attention.output": query,
    }
    if arch.qk_norm != "none":
        parts["attention.qk_norm_input"] = query + key
    if dropout:
        parts["attention.dropout_mask"] = MASK_BYTES * stream
    return parts


def core_activations(
    arch: Architecture,
    tokens: Num,
    sequence: Num,
    tp: Num = 1,
    *,
    kernel: str = "flash-2",
    dropout: bool = False,
    element_bytes: float = 2.0,
) -> dict[str, Num]:
    """What softmax and its product with the values keep [bytes].

    Fused kernels keep one fp32 statistic for each row and head: 4Sa/t. Unfused attention keeps the softmax output, and
    with dropout a mask and the dropped output: (2 + 3)·S·s·a/t (Korthikanti et al. 2022). sequence [tokens] is the
    whole sequence; S of them lie on this rank.

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> core_activations(arch, 10, 10), core_activations(arch, 10, 10, kernel="unfused", dropout=True)
    ({'attention.statistics': 160.0}, {'attention.map': 2000.0})
    """
    rows = tokens * arch.heads / tp
    if kernel != "unfused":
        return {"attention.statistics": STATISTIC_BYTES * rows}
    per_element = element_bytes + dropout * (MASK_BYTES + element_bytes)
    return {"attention.map": per_element * rows * sequence}


def mlp_activations(
    arch: Architecture,
    tokens: Num,
    tp: Num = 1,
    residual_shards: Num = 1,
    *,
    dropout: bool = False,
    fused_activation: bool = True,
    element_bytes: float = 2.0,
) -> dict[str, Num]:
    """What a dense MLP keeps [bytes]: its input 2Sh/r, gate and up 4Sf/t (plain: 2Sf/t), activation 2Sf/t, mask Sh/r.

    An unfused gated activation keeps the activated gate besides: 2Sf/t. A parallel block with a single norm shares the
    attention's input.

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> sum(mlp_activations(arch, 10, tp=2).values()) == 2 * 10 * 64 + 6 * 10 * 256 / 2
    True
    """
    stream = tokens * arch.hidden / residual_shards
    inner = element_bytes * tokens * arch.ffn / tp
    parts = {"mlp.up": inner * (2 if arch.gated_ffn else 1), "mlp.activation": inner}
    if not (arch.parallel_block and arch.norms_per_layer < 2):
        parts["mlp.input"] = element_bytes * stream
    if arch.gated_ffn and not fused_activation:
        parts["mlp.activated_gate"] = inner
    if dropout:
        parts["mlp.dropout_mask"] = MASK_BYTES * stream
    return parts


def layer_activations(
    arch: Architecture,
    tokens: Num,
    sequence: Num,
    tp: Num = 1,
    *,
    sequence_parallel: bool = False,
    attention: str = "flash-2",
    dropout: bool = False,
    fused_norm: bool = True,
    fused_activation: bool = True,
    element_bytes: float = 2.0,
) -> dict[str, Num]:
    """Everything that one dense layer keeps without recompute, by component [bytes].

    tokens, sequence [tokens] and tp [ranks] broadcast. A norm that is not fused keeps its input in fp32.

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> round(sum(layer_activations(llama, 4096, 4096).values()) / 1e6, 3)
    539.492
    """
    shards = tp if sequence_parallel else 1
    norm_bytes = element_bytes if fused_norm else max(element_bytes, 4.0)
    core = core_activations(arch, tokens, sequence, tp, kernel=attention, dropout=dropout, element_bytes=element_bytes)
    mlp = mlp_activations(
        arch,
        tokens,
        tp,
        shards,
        dropout=dropout,
        fused_activation=fused_activation,
        element_bytes=element_bytes,
    )
    return (
        norm_activations(arch, tokens, shards, norm_bytes)
        | attention_activations(arch, tokens, tp, shards, dropout=dropout, element_bytes=element_bytes)
        | core
        | mlp
    )


def embedding_activations(
    arch: Architecture, tokens: Num, residual_shards: Num = 1, *, dropout: bool = False, element_bytes: float = 2.0
) -> dict[str, Num]:
    """What the embedding keeps for each micro-batch [bytes]: a dropout mask Sh/r and the input of its norm.

    >>> embedding_activations(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 10, dropout=True)
    {'embedding.dropout_mask': 640.0}
    """
    stream = tokens * arch.hidden / residual_shards
    parts: dict[str, Num] = {}
    if dropout:
        parts["embedding.dropout_mask"] = MASK_BYTES * stream
    if arch.embedding_norm:
        parts["embedding.norm_input"] = element_bytes * stream
    return parts
