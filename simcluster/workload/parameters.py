"""Exact parameter counts of a decoder-only transformer.

Symbols: h hidden, a heads, g kv_heads, d head_dim, f ffn, V vocab, L layers. Weights of one layer:

    attention  h·a·d + 2·h·g·d + a·d·h              (+ a·d + 2·g·d with qkv_bias, + h with out_bias)
    mlp        3·h·f gated, 2·h·f plain             (+ one bias for each matrix's output with mlp_bias)
    norms      1 or 2 vectors of h for each norm    (+ the weights of a query and key norm)

The counts are those of the tensors in the published checkpoints (GPT-2: Radford et al. 2019; Llama: Touvron et al.
2023; same terms as NVIDIA/Megatron-LM's parameter accounting), so they are integers and compare with `==`.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.shapes import Architecture, Num

_VECTORS_PER_NORM = {"rmsnorm": 1, "layernorm": 2, "layernorm-nobias": 1, "nonparametric": 0}


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """Parameters of one transformer layer; matrices apart from biases and norms, because only matrices cost GEMMs."""

    qkv: int
    attention_out: int
    mlp_in: int
    mlp_out: int
    attention_biases: int
    mlp_biases: int
    norms: int

    @property
    def matmul(self) -> int:
        """Weights that take part in a GEMM for every token."""
        return self.qkv + self.attention_out + self.mlp_in + self.mlp_out

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.matmul + self.attention_biases + self.mlp_biases + self.norms


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a whole model by component; biases are counted with their component, all norms under `norms`.

    `head` is 0 with tied embeddings: the table is stored once and used twice.
    """

    embedding: int
    positions: int
    attention: int
    mlp: int
    norms: int
    head: int

    @property
    def total(self) -> int:
        """All parameters of the model."""
        return self.embedding + self.positions + self.attention + self.mlp + self.norms + self.head


def padded_vocab(vocab: Num, tp: Num = 1, multiple: int = 128) -> Num:
    """Rows of the vocabulary after padding to a multiple of `multiple`·tp (NVIDIA/Megatron-LM's default is 128).

    vocab, tp [count] are scalars or arrays that broadcast; the result has their common shape.

    >>> padded_vocab(50257, tp=8)
    51200
    >>> padded_vocab(32000, tp=1)
    32000
    """
    step = multiple * tp
    return -(-vocab // step) * step


def norm_parameters(arch: Architecture) -> int:
    """Weights of one norm over the hidden size: h for RMSNorm, 2·h for LayerNorm, 0 without parameters.

    >>> from simcluster.shapes import Architecture
    >>> norm_parameters(Architecture("m", 2, 64, 4, 4, 16, 256, 100, norm="layernorm"))
    128
    """
    return _VECTORS_PER_NORM[arch.norm] * arch.hidden


def layer_parameters(arch: Architecture) -> LayerParameters:
    """Parameters of one layer; a GPT layer with biases and LayerNorm has 12·h² + 13·h.

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt", 12, 768, 12, 12, 64, 3072, 50257, gated_ffn=False, norm="layernorm",
    ...                    qkv_bias=True, out_bias=True, mlp_bias=True)
    >>> layer_parameters(gpt).total == 12 * 768**2 + 13 * 768
    True
    """
    query, key_value = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    qkv_width = query + 2 * key_value
    mlp_width = arch.ffn * (2 if arch.gated_ffn else 1)
    query_key_norm = {"none": 0, "head": 2 * arch.head_dim, "full": query + key_value}[arch.qk_norm]
    return LayerParameters(
        qkv=arch.hidden * qkv_width,
        attention_out=query * arch.hidden,
        mlp_in=arch.hidden * mlp_width,
        mlp_out=arch.ffn * arch.hidden,
        attention_biases=arch.qkv_bias * qkv_width + arch.out_bias * arch.hidden,
        mlp_biases=arch.mlp_bias * (mlp_width + arch.hidden),
        norms=arch.norms_per_layer * norm_parameters(arch) + query_key_norm,
    )


def count_parameters(arch: Architecture, vocab: int | None = None) -> ParameterCount:
    """Exact parameters of a model by component.

    vocab [count] replaces the architecture's vocabulary, for instance by the padded one.

    >>> from simcluster.shapes import Architecture
    >>> llama = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> count_parameters(llama).total
    6738415616
    """
    layer = layer_parameters(arch)
    table = arch.hidden * (arch.vocab if vocab is None else vocab)
    outer_norms = norm_parameters(arch) * (arch.final_norm + arch.embedding_norm)
    return ParameterCount(
        embedding=table,
        positions=arch.hidden * arch.learned_positions,
        attention=arch.layers * (layer.qkv + layer.attention_out + layer.attention_biases),
        mlp=arch.layers * (layer.mlp_in + layer.mlp_out + layer.mlp_biases),
        norms=arch.layers * layer.norms + outer_norms,
        head=0 if arch.tied_embeddings else table,
    )


def head_parameters(arch: Architecture, vocab: Num | None = None) -> Num:
    """Weights h·V of the output projection's GEMM, tied or not; vocab may be an array.

    >>> from simcluster.shapes import Architecture
    >>> head_parameters(Architecture("m", 2, 64, 4, 4, 16, 256, 100), vocab=128)
    8192
    """
    return arch.hidden * (arch.vocab if vocab is None else vocab)


def matmul_parameters(arch: Architecture, vocab: Num | None = None) -> Num:
    """Weights that take part in GEMMs for one token: all matrices of the layers and the head, tied or not.

    Neither the embedding lookup nor positions, norms and biases count. vocab [count] replaces the architecture's and
    may be an array.

    >>> from simcluster.shapes import Architecture
    >>> matmul_parameters(Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000))
    6607077376
    """
    return arch.layers * layer_parameters(arch).matmul + head_parameters(arch, vocab)
