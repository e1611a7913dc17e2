"""Parameters that one rank of a pipeline stage holds.

Tensor parallelism divides the matrices (query, key and value by heads, the MLP by its inner width, embedding and head
by rows of the padded vocabulary); norms, biases of row-parallel layers and learned positions are held by every rank.
With fewer key-value heads than ranks, each rank still holds one head (NVIDIA/Megatron-LM).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.workload.layers import LayerKind, layer_kind
from simcluster.workload.parameters import norm_parameters, padded_vocab


def attention_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Attention weights and biases of one layer on one rank [count].

    h·(a + 2·max(g, t))·d/t + a·d·h/t, biases of the first divided likewise, the output's bias h on every rank.
    tp [ranks] is a scalar or an array; it divides the query heads.

    >>> attention_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    5242880.0
    """
    qkv_width = (arch.heads + 2 * np.maximum(arch.kv_heads, tp)) * arch.head_dim / tp
    out = arch.heads * arch.head_dim * arch.hidden / tp
    return plain(arch.hidden * qkv_width + arch.qkv_bias * qkv_width + out + arch.out_bias * arch.hidden)


def _latent_parameters(arch: Architecture, tp: Num) -> Num:
    """Weights of latent attention: down-projections and norms on every rank, up-projections and output divided."""
    query, value = arch.nope_dim + arch.rope_dim, arch.value_dim or arch.head_dim
    down = arch.hidden * (arch.kv_rank + arch.rope_dim) + arch.kv_rank
    up = arch.kv_rank * arch.heads * (arch.nope_dim + value) / tp
    queries = arch.hidden * arch.heads * query / tp
    if arch.q_rank:
        queries = arch.hidden * arch.q_rank + arch.q_rank + arch.q_rank * arch.heads * query / tp
    return down + up + queries + arch.heads * value * arch.hidden / tp


def expert_parameters(arch: Architecture, ep: Num = 1, etp: Num = 1) -> Num:
    """Weights (and biases) of the experts that one rank holds: E/ep of them, each cut over etp [count].

    >>> mixtral = Architecture("m", 1, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
    >>> expert_parameters(mixtral, 8) == 3 * 4096 * 14336
    True
    """
    width = arch.expert_ffn * (2 if arch.gated_ffn else 1) / etp
    one = arch.hidden * width + arch.expert_ffn * arch.hidden / etp + arch.mlp_bias * (width + arch.hidden)
    return plain(arch.experts / np.asarray(ep, dtype=float) * one)


def router_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Router on every rank, shared experts cut over tp, their gate on every rank [count]."""
    shared = (3 if arch.gated_ffn else 2) * arch.hidden * arch.shared_ffn / tp
    gate = arch.shared_gate * arch.hidden
    return plain(arch.hidden * arch.experts + arch.router_bias * arch.experts + shared + gate)


def mlp_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """MLP weights and biases of one layer on one rank [count]: 3·h·f/t gated, 2·h·f/t plain.

    >>> mlp_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    22020096.0
    """
    width = arch.ffn * (2 if arch.gated_ffn else 1) / tp
    matrices = arch.hidden * width + arch.ffn * arch.hidden / tp
    return plain(matrices + arch.mlp_bias * (width + arch.hidden))


def layer_norm_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Norm weights of one layer on one rank [count]; a query-key norm over all heads is divided, one per head is not.

    >>> layer_norm_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    8192.0
    """
    full = (arch.heads + np.maximum(arch.kv_heads, tp)) * arch.head_dim / tp
    query_key = {"none": 0.0, "head": 2.0 * arch.head_dim, "full": full}[arch.qk_norm]
    return plain(arch.norms_per_layer * norm_parameters(arch) + query_key + 0.0 * np.asarray(tp))


def layer_parameters(
    arch: Architecture, tp: Num = 1, kind: LayerKind | None = None, ep: Num = 1, etp: Num = 1
) -> dict[str, Num]:
    """Parameters of one layer on one rank by component [count]; experts are a component of their own.

    kind is that of the layer, by default the first layer's.

    >>> sum(layer_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)).values())
    218112000.0
    """
    kind = kind or layer_kind(arch, 0)
    parts: dict[str, Num] = {"attention": attention_parameters(arch, tp)}
    if kind.mlp == "moe":
        parts["mlp"] = router_parameters(arch, tp)
        parts["experts"] = expert_parameters(arch, ep, etp)
    else:
        parts["mlp"] = mlp_parameters(arch, tp)
    parts["norms"] = layer_norm_parameters(arch, tp) + arch.attention_sinks * arch.heads / tp
    return parts


def vocabulary_rows(arch: Architecture, tp: Num = 1, multiple: int = 128) -> Num:
    """Rows of the embedding table on one rank: the vocabulary padded to a multiple of `multiple`·tp, over tp.

    >>> vocabulary_rows(Architecture("gpt", 12, 768, 12, 12, 64, 3072, 50257), 8)
    6400.0
    """
    return plain(padded_vocab(arch.vocab, tp, multiple) / tp)


def stage_parameters(
    arch: Architecture,
    chunks: Sequence[ChunkContents],
    tp: Num = 1,
    vocab_multiple: int = 128,
    ep: Num = 1,
    etp: Num = 1,
) -> dict[str, Num]:
    """Parameters of one rank of a pipeline stage by component [count].

    A tied table is held once where a stage has both embedding and head, and by both ends of the pipeline elsewhere.
    vocab_multiple 1 leaves the vocabulary unpadded at tp 1.

    >>> arch = Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000)
    >>> round(sum(stage_parameters(arch, [ChunkContents(20, embedding=True)], 8).values()) / 1e9, 3)
    2.173
    """
    kinds = Counter(layer_kind(arch, chunk.first + i) for chunk in chunks for i in range(chunk.layers))
    embedding, head = any(c.embedding for c in chunks), any(c.head for c in chunks)
    table = vocabulary_rows(arch, tp, vocab_multiple) * arch.hidden
    norm = norm_parameters(arch)
    parts: dict[str, Num] = dict.fromkeys(("attention", "mlp", "norms"), 0.0)
    for kind, layers in kinds.items():
        for name, count in layer_parameters(arch, tp, kind, ep, etp).items():
            parts[name] = parts.get(name, 0.0) + layers * count
    parts["embedding"] = embedding * (table + arch.learned_positions * arch.hidden + arch.embedding_norm * norm)
    own_head = head and not (arch.tied_embeddings and embedding)
    parts["head"] = own_head * table + head * arch.final_norm * norm
    return parts


def largest_matrix(arch: Architecture, tp: Num = 1) -> Num:
    """Elements of the largest weight of a layer on one rank; gate and up projection are one matrix [count].

    >>> largest_matrix(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 2)
    58720256.0
    """
    qkv = (arch.heads + 2 * np.maximum(arch.kv_heads, tp)) * arch.head_dim / tp
    return plain(arch.hidden * np.maximum(qkv, arch.ffn * (2 if arch.gated_ffn else 1) / tp))
