"""Exact parameter counts of a decoder-only transformer.

Symbols: h hidden, a heads, g kv_heads, d head_dim (of values dv), f ffn, V vocab, L layers, E experts, k top_k.
Weights of one layer:

    attention  h·a·d + h·g·(d + dv) + a·dv·h        (+ a·d + g·(d + dv) with qkv_bias, + h with out_bias, + a for sinks)
    latent     h·qr + qr·a·d (or h·a·d) + h·(kvr + dr) + kvr·a·(dn + dv) + a·dv·h, with a norm on each rank
    mlp        3·h·f gated, 2·h·f plain             (+ one bias for each matrix's output with mlp_bias)
    experts    h·E router (+ E), E MLPs of expert_ffn, one MLP of shared_ffn (+ h for its gate)
    norms      1 or 2 vectors of h for each norm    (+ the weights of a query and key norm)

The counts are those of the tensors in the published checkpoints (GPT-2: Radford et al. 2019; Llama: Touvron et al.
2023; Mixtral: Jiang et al. 2024; latent attention: DeepSeek-AI 2024; same terms as NVIDIA/Megatron-LM's parameter
accounting), so they are integers and compare with `==`.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.shapes import Architecture, Num
from simcluster.workload.layers import MlpKind, layer_kind, moe_layer_count

_VECTORS_PER_NORM = {"rmsnorm": 1, "layernorm": 2, "layernorm-nobias": 1, "nonparametric": 0}


@dataclass(frozen=True, slots=True)
class Matrix:
    """One weight matrix y[outputs] = x[inputs] w; in its layer once, or once for each expert."""

    name: str
    inputs: int
    outputs: int

    @property
    def weights(self) -> int:
        """Elements of the matrix."""
        return self.inputs * self.outputs


@dataclass(frozen=True, slots=True)
class LayerParameters:
    """Parameters of one transformer layer; matrices apart from biases and norms, because only matrices cost GEMMs.

    qkv           all matrices that make queries, keys and values (with latent attention: down and up)
    mlp_in        of the dense MLP; in a layer with experts: of its shared experts
    router        the router and, where there is one, the gate on the shared experts
    expert_in     of one expert; there are `experts` of them, each token runs `top_k`
    mlp_biases    of the dense or shared MLP and of the router
    """

    qkv: int
    attention_out: int
    mlp_in: int
    mlp_out: int
    attention_biases: int
    mlp_biases: int
    norms: int
    router: int = 0
    expert_in: int = 0
    expert_out: int = 0
    expert_biases: int = 0
    experts: int = 0
    top_k: int = 0

    @property
    def matmul(self) -> int:
        """Weights that take part in a GEMM for one token: of the experts only those that it reaches."""
        experts = self.top_k * (self.expert_in + self.expert_out)
        return self.qkv + self.attention_out + self.mlp_in + self.mlp_out + self.router + experts

    @property
    def attention(self) -> int:
        """Matrices and biases of attention."""
        return self.qkv + self.attention_out + self.attention_biases

    @property
    def mlp(self) -> int:
        """Matrices and biases of the MLP, the router and all experts."""
        expert = self.expert_in + self.expert_out + self.expert_biases
        return self.mlp_in + self.mlp_out + self.mlp_biases + self.router + self.experts * expert

    @property
    def idle(self) -> int:
        """Parameters of the experts that one token does not reach."""
        return (self.experts - self.top_k) * (self.expert_in + self.expert_out + self.expert_biases)

    @property
    def total(self) -> int:
        """All parameters of the layer."""
        return self.attention + self.mlp + self.norms


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Parameters of a whole model by component; biases are counted with their component, all norms under `norms`.

    head   0 with tied embeddings: the table is stored once and used twice
    idle   parameters of experts that one token does not reach; part of `mlp`
    mtp    layers that predict further tokens; in no total, as published counts leave them out
    """

    embedding: int
    positions: int
    attention: int
    mlp: int
    norms: int
    head: int
    idle: int = 0
    mtp: int = 0

    @property
    def total(self) -> int:
        """All parameters of the model."""
        return self.embedding + self.positions + self.attention + self.mlp + self.norms + self.head

    @property
    def active(self) -> int:
        """Parameters that one token meets: all but the experts it does not reach, both tables included."""
        return self.total - self.idle


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


def attention_matrices(arch: Architecture) -> tuple[Matrix, ...]:
    """Weight matrices of attention in the order in which a layer runs them.

    >>> from simcluster.shapes import Architecture
    >>> lite = Architecture("v2-lite", 27, 2048, 16, 16, 192, 10944, 102400, kv_rank=512, nope_dim=128, rope_dim=64,
    ...                     value_dim=128)
    >>> [(matrix.name, matrix.inputs, matrix.outputs) for matrix in attention_matrices(lite)]
    [('query', 2048, 3072), ('kv_down', 2048, 576), ('kv_up', 512, 4096), ('out', 2048, 2048)]
    """
    h, heads, value = arch.hidden, arch.heads, arch.value_dim or arch.head_dim
    query = heads * arch.head_dim
    out = Matrix("out", heads * value, h)
    if not arch.kv_rank:
        groups = arch.kv_heads
        key, values = Matrix("key", h, groups * arch.head_dim), Matrix("value", h, groups * value)
        return (Matrix("query", h, query), key, values, out)
    down_up = (Matrix("query_down", h, arch.q_rank), Matrix("query_up", arch.q_rank, query))
    latent = (
        Matrix("kv_down", h, arch.kv_rank + arch.rope_dim),
        Matrix("kv_up", arch.kv_rank, heads * (arch.nope_dim + value)),
    )
    return (*(down_up if arch.q_rank else (Matrix("query", h, query),)), *latent, out)


def mlp_matrices(arch: Architecture, inner: int) -> tuple[Matrix, ...]:
    """Weight matrices of one MLP of inner width `inner`: gate (if gated), up, down.

    >>> from simcluster.shapes import Architecture
    >>> [matrix.name for matrix in mlp_matrices(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 256)]
    ['gate', 'up', 'down']
    """
    gate = (Matrix("gate", arch.hidden, inner),) if arch.gated_ffn else ()
    return (*gate, Matrix("up", arch.hidden, inner), Matrix("down", inner, arch.hidden))


def layer_parameters(arch: Architecture, mlp: MlpKind | None = None) -> LayerParameters:
    """Parameters of one layer; a GPT layer with biases and LayerNorm has 12·h² + 13·h.

    mlp says which kind of layer is meant; needed only where the model has both (ValueError without it).

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt", 12, 768, 12, 12, 64, 3072, 50257, gated_ffn=False, norm="layernorm",
    ...                    qkv_bias=True, out_bias=True, mlp_bias=True)
    >>> layer_parameters(gpt).total == 12 * 768**2 + 13 * 768
    True
    """
    sparse = (mlp or _only_kind(arch)) == "moe"
    matrices = attention_matrices(arch)
    mlp_in, mlp_out, mlp_biases = _mlp(arch, arch.shared_ffn if sparse else arch.ffn)
    expert_in, expert_out, expert_biases = _mlp(arch, arch.expert_ffn) if sparse else (0, 0, 0)
    return LayerParameters(
        qkv=sum(matrix.weights for matrix in matrices[:-1]),
        attention_out=matrices[-1].weights,
        mlp_in=mlp_in,
        mlp_out=mlp_out,
        attention_biases=_attention_biases(arch, matrices),
        mlp_biases=mlp_biases + (sparse and arch.router_bias) * arch.experts,
        norms=_layer_norms(arch),
        router=sparse * arch.hidden * (arch.experts + arch.shared_gate),
        expert_in=expert_in,
        expert_out=expert_out,
        expert_biases=expert_biases,
        experts=sparse * arch.experts,
        top_k=sparse * arch.top_k,
    )


def _only_kind(arch: Architecture) -> MlpKind:
    sparse = moe_layer_count(arch)
    if 0 < sparse < arch.layers:
        raise ValueError(f"{arch.name} has dense layers and layers with experts: name one kind")
    return "moe" if sparse else "dense"


def _mlp(arch: Architecture, inner: int) -> tuple[int, int, int]:
    """Weights in, weights out and biases of one MLP; nothing for a width of 0."""
    matrices = mlp_matrices(arch, inner) if inner else ()
    biases = arch.mlp_bias * sum(matrix.outputs for matrix in matrices)
    return sum(matrix.weights for matrix in matrices[:-1]), sum(matrix.weights for matrix in matrices[-1:]), biases


def _attention_biases(arch: Architecture, matrices: tuple[Matrix, ...]) -> int:
    """Biases of query, key and value (of the down projections with latent attention), of the output, and the sinks."""
    biased = {"query_down", "kv_down"} if arch.kv_rank else {"query", "key", "value"}
    inputs = sum(matrix.outputs for matrix in matrices if matrix.name in biased)
    return arch.qkv_bias * inputs + arch.out_bias * arch.hidden + arch.attention_sinks * arch.heads


def _layer_norms(arch: Architecture) -> int:
    query, key = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim
    query_key_norm = {"none": 0, "head": 2 * arch.head_dim, "full": query + key}[arch.qk_norm]
    ranks = _VECTORS_PER_NORM[arch.norm] * (arch.q_rank + arch.kv_rank) if arch.kv_rank else 0
    return arch.norms_per_layer * norm_parameters(arch) + query_key_norm + ranks


def count_parameters(arch: Architecture, vocab: int | None = None) -> ParameterCount:
    """Exact parameters of a model by component.

    vocab [count] replaces the architecture's vocabulary, for instance by the padded one.

    >>> from simcluster.shapes import Architecture
    >>> llama = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> count_parameters(llama).total
    6738415616
    >>> mixtral = Architecture("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
    >>> count_parameters(mixtral).total, count_parameters(mixtral).active
    (46702792704, 12879925248)
    """
    sparse = moe_layer_count(arch)
    parts = ((arch.layers - sparse, layer_parameters(arch, "dense")), (sparse, layer_parameters(arch, "moe")))
    table = arch.hidden * (arch.vocab if vocab is None else vocab)
    outer_norms = norm_parameters(arch) * (arch.final_norm + arch.embedding_norm)
    return ParameterCount(
        embedding=table,
        positions=arch.hidden * arch.learned_positions,
        attention=sum(count * layer.attention for count, layer in parts),
        mlp=sum(count * layer.mlp for count, layer in parts),
        norms=sum(count * layer.norms for count, layer in parts) + outer_norms,
        head=0 if arch.tied_embeddings else table,
        idle=sum(count * layer.idle for count, layer in parts),
        mtp=_mtp(arch),
    )


def mtp_kinds(arch: Architecture) -> tuple[MlpKind, ...]:
    """Kind of the MLP of each layer that predicts a further token.

    >>> from simcluster.shapes import Architecture
    >>> mtp_kinds(Architecture("m", 4, 64, 4, 4, 16, 256, 100, experts=8, top_k=2, expert_ffn=32, mtp_depth=1))
    ('moe',)
    """
    return tuple(layer_kind(arch, arch.layers + depth).mlp for depth in range(arch.mtp_depth))


def _mtp(arch: Architecture) -> int:
    """Each depth has a layer, a 2h x h projection, norms of its two inputs and one before the shared head."""
    each = 2 * arch.hidden**2 + 3 * norm_parameters(arch)
    return sum(each + layer_parameters(arch, kind).total for kind in mtp_kinds(arch))


def head_parameters(arch: Architecture, vocab: Num | None = None) -> Num:
    """Weights h·V of the output projection's GEMM, tied or not; vocab may be an array.

    >>> from simcluster.shapes import Architecture
    >>> head_parameters(Architecture("m", 2, 64, 4, 4, 16, 256, 100), vocab=128)
    8192
    """
    return arch.hidden * (arch.vocab if vocab is None else vocab)


def matmul_parameters(arch: Architecture, vocab: Num | None = None) -> Num:
    """Weights that take part in GEMMs for one token: matrices of the layers (k experts of E) and the head, tied or not.

    Neither the embedding lookup nor positions, norms, biases and multi-token prediction count. vocab [count] replaces
    the architecture's and may be an array.

    >>> from simcluster.shapes import Architecture
    >>> matmul_parameters(Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000))
    6607077376
    """
    sparse = moe_layer_count(arch)
    dense = (arch.layers - sparse) * layer_parameters(arch, "dense").matmul
    return dense + sparse * layer_parameters(arch, "moe").matmul + head_parameters(arch, vocab)


def mtp_matmul_parameters(arch: Architecture, vocab: Num | None = None) -> Num:
    """Weights that take part in GEMMs for one token in the layers of multi-token prediction: each depth runs a layer,
    the 2h x h projection and the head once more (DeepSeek-AI 2024; NVIDIA/Megatron-LM counts the same).

    >>> from simcluster.shapes import Architecture
    >>> mtp_matmul_parameters(Architecture("m", 2, 64, 4, 4, 16, 256, 100, mtp_depth=1)) == 16384 + 49152 + 8192 + 6400
    True
    """
    each = 2 * arch.hidden**2 + head_parameters(arch, vocab)
    layers = sum(layer_parameters(arch, kind).matmul for kind in mtp_kinds(arch))
    return layers + arch.mtp_depth * each
