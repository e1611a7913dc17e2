"""Parameters that one rank of a pipeline stage holds.

Tensor parallelism divides the matrices (query, key and value by heads, the MLP by its inner width, embedding and head
by rows of the padded vocabulary); norms, routers, projections down to latents, biases of row-parallel layers and
learned positions are held by every rank. With fewer key-value heads than ranks, each rank still holds one head. Experts
are spread over ep and each cut over etp (NVIDIA/Megatron-LM).
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
    """Attention weights, biases and sinks of one layer on one rank [count].

    h·(a·d + max(g, t)·(d + dv))/t + a·dv·h/t, biases of the first divided likewise, the output's bias h on every rank.
    tp [ranks] is a scalar or an array; it divides the query heads. Latent attention: see `latent_parameters`.

    >>> attention_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    5242880.0
    """
    value = arch.value_dim or arch.head_dim
    outer = arch.heads * value * arch.hidden / tp + arch.out_bias * arch.hidden + arch.attention_sinks * arch.heads / tp
    if arch.kv_rank:
        return plain(latent_parameters(arch, tp) + outer)
    width = (arch.heads * arch.head_dim + np.maximum(arch.kv_heads, tp) * (arch.head_dim + value)) / tp
    return plain((arch.hidden + arch.qkv_bias) * width + outer)


def latent_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Projections of latent attention but its output, on one rank [count]: down on every rank, up divided by heads.

    h·(kvr + dr) + kvr·a·(dn + dv)/t, and h·qr + qr·a·d/t for the query or h·a·d/t where it is not factored.

    >>> lite = Architecture("v2-lite", 27, 2048, 16, 16, 192, 10944, 102400, kv_rank=512, nope_dim=128, rope_dim=64,
    ...                     value_dim=128)
    >>> latent_parameters(lite) == 2048 * 576 + 512 * 16 * 256 + 2048 * 16 * 192
    True
    """
    query, value = arch.heads * arch.head_dim, arch.value_dim or arch.head_dim
    down = (arch.hidden + arch.qkv_bias) * (arch.kv_rank + arch.rope_dim + arch.q_rank)
    up = arch.kv_rank * arch.heads * (arch.nope_dim + value) + (arch.q_rank or arch.hidden) * query
    return plain(down + up / np.asarray(tp, dtype=float))


def expert_parameters(arch: Architecture, ep: Num = 1, etp: Num = 1) -> Num:
    """Weights (and biases) of the experts that one rank holds: E/ep of them, each cut over etp [count].

    >>> mixtral = Architecture("m", 1, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
    >>> expert_parameters(mixtral, 8) == 3 * 4096 * 14336
    True
    """
    return plain(arch.experts / np.asarray(ep, dtype=float) * _mlp(arch, arch.expert_ffn, etp))


def router_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Router on every rank, shared experts cut over tp, their gate on every rank [count].

    >>> router_parameters(Architecture("m", 1, 64, 4, 4, 16, 256, 100, experts=8, top_k=2, shared_ffn=32), 2)
    3584.0
    """
    gate = arch.shared_gate * arch.hidden
    return plain((arch.hidden + arch.router_bias) * arch.experts + gate + _mlp(arch, arch.shared_ffn, tp))


def mlp_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """MLP weights and biases of one layer on one rank [count]: 3·h·f/t gated, 2·h·f/t plain.

    >>> mlp_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    22020096.0
    """
    return plain(_mlp(arch, arch.ffn, tp))


def _mlp(arch: Architecture, inner: int, ranks: Num) -> Num:
    """One MLP cut over ranks; the bias of its output is on each of them, and there is none without width."""
    width = inner * (2 if arch.gated_ffn else 1) / ranks
    return arch.hidden * (width + inner / ranks) + arch.mlp_bias * (width + arch.hidden * (inner > 0))


def layer_norm_parameters(arch: Architecture, tp: Num = 1) -> Num:
    """Norm weights of one layer on one rank [count]; a query-key norm over all heads is divided, one per head is not.

    >>> layer_norm_parameters(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8)
    8192.0
    """
    full = (arch.heads + np.maximum(arch.kv_heads, tp)) * arch.head_dim / tp
    query_key = {"none": 0.0, "head": 2.0 * arch.head_dim, "full": full}[arch.qk_norm]
    vectors = norm_parameters(arch) / arch.hidden
    latents = vectors * (arch.q_rank + arch.kv_rank) if arch.kv_rank else 0.0
    return plain(arch.norms_per_layer * norm_parameters(arch) + latents + query_key + 0.0 * np.asarray(tp))


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
    parts["norms"] = layer_norm_parameters(arch, tp)
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
    Layers of multi-token prediction are apart, in `further_parameters`. vocab_multiple 1 leaves the vocabulary unpadded
    at tp 1.

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


def further_parameters(
    arch: Architecture,
    tp: Num = 1,
    vocab_multiple: int = 128,
    ep: Num = 1,
    etp: Num = 1,
    *,
    embedding_here: bool = True,
) -> dict[str, Num]:
    """Parameters of all depths of multi-token prediction on one rank of the stage with the head, by component [count].

    Each depth has a layer, a 2h-by-h projection cut over tp and three norms (component "mtp"); embedding and head are
    those of the model. A stage that does not hold the embedding needs one more copy of it, unless it is tied to the
    head (DeepSeek-AI 2024; NVIDIA/Megatron-LM).

    >>> small = Architecture("m", 2, 64, 4, 4, 16, 256, 128, mtp_depth=1)
    >>> further_parameters(small, embedding_here=False)
    {'attention': 16384.0, 'mlp': 49152.0, 'norms': 128.0, 'mtp': 8384.0, 'embedding': 8192.0}
    """
    parts: dict[str, Num] = {}
    for depth in range(arch.mtp_depth):
        own: dict[str, Num] = {"mtp": 2 * arch.hidden**2 / tp + 3 * norm_parameters(arch)}
        for name, count in (layer_parameters(arch, tp, layer_kind(arch, arch.layers + depth), ep, etp) | own).items():
            parts[name] = parts.get(name, 0.0) + count
    if parts and not embedding_here and not arch.tied_embeddings:
        parts["embedding"] = vocabulary_rows(arch, tp, vocab_multiple) * arch.hidden
    return parts


def largest_matrix(
    arch: Architecture,
    tp: Num = 1,
    kind: LayerKind | None = None,
    ep: Num = 1,
    etp: Num = 1,
    *,
    grouped: bool = True,
) -> Num:
    """Elements of the largest weight of a layer on one rank [count].

    Gate and up projection are one matrix; so are those of all experts of a rank if its GEMM is grouped. kind is that of
    the layer, by default the first layer's.

    >>> largest_matrix(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 2)
    58720256.0
    """
    kind = kind or layer_kind(arch, 0)
    gates, value = 2 if arch.gated_ffn else 1, arch.value_dim or arch.head_dim
    heads: Num = arch.heads / np.asarray(tp, dtype=float)
    sizes: list[Num] = [arch.hidden * heads * value]
    if arch.kv_rank:
        sizes += [(arch.q_rank or arch.hidden) * heads * arch.head_dim, arch.kv_rank * heads * (arch.nope_dim + value)]
    else:
        keys = np.maximum(arch.kv_heads, tp) * (arch.head_dim + value) / tp
        sizes.append(arch.hidden * (heads * arch.head_dim + keys))
    if kind.mlp == "moe":
        local = arch.experts / np.asarray(ep, dtype=float) if grouped else 1.0
        sizes += [local * arch.hidden * arch.expert_ffn * gates / etp, arch.hidden * arch.shared_ffn * gates / tp]
    else:
        sizes.append(arch.hidden * arch.ffn * gates / tp)
    return plain(np.maximum.reduce(np.broadcast_arrays(*sizes)))
