"""Activations that one layer keeps for its backward, per micro-batch and rank, by operator.

Symbols: S tokens of the micro-batch on this rank (b·s/cp), s whole sequence, h hidden, a query heads, g key-value
heads, d head size (dv of values), f inner width, t tensor-parallel ranks, r = t with sequence parallelism, else 1; two
bytes an element unless `widths` says otherwise.

Without flash attention and with dropout the sum for a GPT layer is that of Korthikanti et al. 2022, "Reducing
Activation Recomputation in Large Transformer Models": S·h·(10 + 24/t + 5·a·s/(h·t)), or (S·h/t)·(34 + 5·a·s/h) with
sequence parallelism. Row statistics of norms are left out there and here (8 bytes a token). A window of attention
changes nothing: queries, keys and values stay whole, and an unfused map is masked, not cut.

Component names are `group.tensor`; latent attention and experts are in `latent` and `experts`.
"""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.memory.experts import expert_activations
from simcluster.memory.latent import latent_activations
from simcluster.memory.precision import Widths
from simcluster.shapes import Architecture, Num
from simcluster.workload.layers import LayerKind

MASK_BYTES = 1.0  # a dropout mask holds one byte an element
STATISTIC_BYTES = 4.0  # log-sum-exp of a row of the attention map, fp32
DENSE = LayerKind()
MIXED = Widths()


def norm_activations(
    arch: Architecture, tokens: Num, residual_shards: Num = 1, *, widths: Widths = MIXED
) -> dict[str, Num]:
    """Inputs of a layer's norms [bytes]; the first is the layer's input.

    In a parallel block attention and MLP read one residual stream, so its copy is kept once. Norms after attention and
    MLP (four per layer) keep their inputs as well.

    >>> norm_activations(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 10)
    {'norms.attention_input': 1280.0, 'norms.mlp_input': 1280.0}
    """
    stream = widths.norm * tokens * arch.hidden / residual_shards
    parts = {"norms.attention_input": stream}
    if not arch.parallel_block:
        parts["norms.mlp_input"] = stream
    if arch.norms_per_layer >= 4:
        parts |= {"norms.attention_output": stream, "norms.mlp_output": stream}
    return parts


def key_value_bytes(arch: Architecture, tokens: Num, tp: Num = 1, spread: Num = 1, core_bytes: float = 2.0) -> Num:
    """Keys and values of one layer on one rank [bytes]: 2S·max(g, t·x)(d + dv)/t; latent attention has a of them.

    spread x [ranks] is cp where context-parallel ranks exchange heads: each then holds one head at least.

    >>> key_value_bytes(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8192) / 8192
    4096.0
    """
    heads = arch.heads if arch.kv_rank else arch.kv_heads
    width = arch.head_dim + (arch.value_dim or arch.head_dim)
    return plain(core_bytes * tokens * np.maximum(heads, np.multiply(tp, spread)) * width / tp)


def _projections(arch: Architecture, tokens: Num, tp: Num, spread: Num, widths: Widths) -> dict[str, Num]:
    """Query, key, value and output of grouped attention; a query-key norm keeps its inputs besides."""
    heads, value = tokens * arch.heads / tp, arch.value_dim or arch.head_dim
    query = widths.core * heads * arch.head_dim
    both = key_value_bytes(arch, tokens, tp, spread, widths.core)
    parts = {"attention.query": query, "attention.key_value": both, "attention.output": widths.core * heads * value}
    if arch.qk_norm != "none":
        key = key_value_bytes(arch, tokens, tp, spread, widths.stream) * arch.head_dim / (arch.head_dim + value)
        parts["attention.qk_norm_input"] = widths.stream * heads * arch.head_dim + key
    return parts


def attention_activations(
    arch: Architecture,
    tokens: Num,
    tp: Num = 1,
    residual_shards: Num = 1,
    *,
    spread: Num = 1,
    dropout: bool = False,
    widths: Widths = MIXED,
) -> dict[str, Num]:
    """What attention keeps apart from its core [bytes]: inputs and outputs of the projections, query, key, value, mask.

    input 2Sh/r, query 2Sad/t, key and value 2S·max(g, t)(d + dv)/t, output 2Sa·dv/t, dropout mask Sh/r; a query-key
    norm adds its inputs. Where linears keep low-precision inputs, the output's copy for the projection is one more.

    >>> parts = attention_activations(Architecture("m", 2, 64, 4, 2, 16, 256, 100), 10, tp=2)
    >>> parts["attention.query"], parts["attention.key_value"], parts["attention.input"]
    (640.0, 640.0, 1280.0)
    """
    stream = tokens * arch.hidden / residual_shards
    parts: dict[str, Num] = {"attention.input": widths.inputs * stream}
    if arch.kv_rank:
        parts |= latent_activations(arch, tokens, tp, residual_shards, widths=widths)
    else:
        parts |= _projections(arch, tokens, tp, spread, widths)
    if widths.inputs < widths.stream and widths.inputs != widths.core:
        parts["attention.projection_input"] = parts["attention.output"] * (widths.inputs / widths.core)
    if dropout:
        parts["attention.dropout_mask"] = MASK_BYTES * stream
    return parts


def core_activations(
    arch: Architecture,
    tokens: Num,
    sequence: Num,
    tp: Num = 1,
    *,
    cp: Num = 1,
    kernel: str = "flash-2",
    dropout: bool = False,
    widths: Widths = MIXED,
) -> dict[str, Num]:
    """What softmax and its product with the values keep [bytes].

    Fused kernels keep one fp32 statistic for each row and head: 4Sa/t. Unfused attention keeps the softmax output, and
    with dropout a mask and the dropped output: (2 + 3)·S·s·a/t (Korthikanti et al. 2022). sequence [tokens] is the
    whole sequence; S of them lie on this rank. Over cp > 1 ranks attention is always fused.

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> core_activations(arch, 10, 10), core_activations(arch, 10, 10, kernel="unfused", dropout=True)
    ({'attention.statistics': 160.0}, {'attention.map': 2000.0})
    """
    rows = tokens * arch.heads / tp
    if kernel != "unfused":
        return {"attention.statistics": STATISTIC_BYTES * rows}
    per_element = widths.core + dropout * (MASK_BYTES + widths.core)
    if np.ndim(cp) == 0 and cp == 1:
        return {"attention.map": per_element * rows * sequence}
    fused = np.greater(cp, 1)
    statistics = {"attention.statistics": plain(fused * STATISTIC_BYTES * rows)}
    return statistics | {"attention.map": plain(~fused * per_element * rows * sequence)}


def mlp_activations(
    arch: Architecture,
    tokens: Num,
    tp: Num = 1,
    residual_shards: Num = 1,
    *,
    fused_activation: bool = True,
    widths: Widths = MIXED,
) -> dict[str, Num]:
    """What a dense MLP keeps [bytes]: its input 2Sh/r, gate and up 4Sf/t (plain: 2Sf/t), activation 2Sf/t.

    An unfused gated activation keeps the activated gate besides: 2Sf/t. A parallel block with a single norm shares the
    attention's input.

    >>> arch = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> sum(mlp_activations(arch, 10, tp=2).values()) == 2 * 10 * 64 + 6 * 10 * 256 / 2
    True
    """
    inner = tokens * arch.ffn / tp
    parts = {
        "mlp.up": widths.stream * inner * (2 if arch.gated_ffn else 1),
        "mlp.activation": widths.inputs * inner,
    }
    if not (arch.parallel_block and arch.norms_per_layer < 2):
        parts["mlp.input"] = widths.inputs * tokens * arch.hidden / residual_shards
    if arch.gated_ffn and not fused_activation:
        parts["mlp.activated_gate"] = widths.stream * inner
    return parts


def layer_activations(
    arch: Architecture,
    tokens: Num,
    sequence: Num,
    tp: Num = 1,
    *,
    kind: LayerKind = DENSE,
    cp: Num = 1,
    etp: Num = 1,
    context: str = "p2p",
    imbalance: Num = 1.0,
    sequence_parallel: bool = False,
    attention: str = "flash-2",
    dropout: bool = False,
    fused_activation: bool = True,
    widths: Widths = MIXED,
) -> dict[str, Num]:
    """Everything that one layer keeps without recompute, by component [bytes].

    tokens (on this rank), sequence (whole) [tokens], tp, cp, etp [ranks] and imbalance broadcast. context is how
    context-parallel ranks work: "p2p", "all-gather" (keys and values are gathered again in backward) or "all-to-all".

    >>> llama = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> round(sum(layer_activations(llama, 4096, 4096).values()) / 1e6, 3)
    539.492
    """
    shards = tp if sequence_parallel else 1
    spread = cp if context == "all-to-all" else 1
    parts = norm_activations(arch, tokens, shards, widths=widths)
    parts |= attention_activations(arch, tokens, tp, shards, spread=spread, dropout=dropout, widths=widths)
    parts |= core_activations(arch, tokens, sequence, tp, cp=cp, kernel=attention, dropout=dropout, widths=widths)
    if kind.mlp == "moe":
        options = {"sequence_parallel": sequence_parallel, "fused_activation": fused_activation}
        parts |= expert_activations(arch, tokens, tp, etp, imbalance=imbalance, widths=widths, **options)
    else:
        parts |= mlp_activations(arch, tokens, tp, shards, fused_activation=fused_activation, widths=widths)
    if dropout:
        parts[f"{'moe' if kind.mlp == 'moe' else 'mlp'}.dropout_mask"] = MASK_BYTES * tokens * arch.hidden / shards
    return parts


def embedding_activations(
    arch: Architecture, tokens: Num, residual_shards: Num = 1, *, dropout: bool = False, widths: Widths = MIXED
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
        parts["embedding.norm_input"] = widths.norm * stream
    return parts
