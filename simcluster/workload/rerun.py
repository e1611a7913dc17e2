"""What recomputation runs again in the backward pass: parts and elements of a layer, by the module that a framework
recomputes, with the share of their work.

Modules carry the names of NVIDIA/Megatron-LM; "every-other-matmul" is the op-level policy of pytorch/torchtitan. What a
module costs in FLOPs is in `workload.flops`, what it saves in `memory.recompute`; tests hold the three together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from simcluster.shapes import Architecture
from simcluster.workload.flops import every_other_matrices
from simcluster.workload.layers import layer_kinds

_ATTENTION = (
    *("qkv", "query", "q_down", "q_latent_norm", "q_up", "kv_down", "kv_latent_norm", "kv_up"),
    *("rotary", "core_attention", "projection"),
)
_SHARED = ("shared_up", "shared_activation", "shared_down")
_EXPERTS = ("router", "permute", "experts_up", "experts_activation", "experts_down", "unpermute")
_MODULES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "core_attn": ("core_attention",),
        "attention": _ATTENTION,
        "mla_up_proj": ("q_up", "kv_up"),
        "layernorm": ("norm",),
        "mlp_act": ("activation",),
        "moe_act": ("experts_activation",),
        "mlp": ("ffn_up", "ffn_activation", "ffn_down"),
        "moe": (*_EXPERTS, *_SHARED),
        "shared_experts": _SHARED,
    }
)
MODULES = (*_MODULES, "every-other-matmul")
# Matrix of the parameter list -> element of the operator list that multiplies by it; a gate shares its element with
# the other half of the MLP, and query, key and value theirs.
_OF_LATENT = {"query": "query", "query_down": "q_down", "query_up": "q_up", "kv_down": "kv_down", "kv_up": "kv_up"}


def rerun_shares(modules: Iterable[str], arch: Architecture) -> dict[str, float]:
    """Share of each part or element of a layer that the backward runs again; names outside `MODULES` add nothing.

    >>> llama = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
    >>> rerun_shares(["core_attn", "layernorm"], llama)
    {'core_attention': 1.0, 'norm': 1.0}
    >>> shares = rerun_shares(["every-other-matmul"], llama)
    >>> round(shares["qkv"], 4), shares["projection"], shares["ffn_up"]
    (0.1667, 1.0, 0.5)
    """
    shares: dict[str, float] = {}
    for module in modules:
        each = _every_other(arch) if module == "every-other-matmul" else dict.fromkeys(_MODULES.get(module, ()), 1.0)
        for name, share in each.items():
            shares[name] = max(share, shares.get(name, 0.0))
    return shares


def _every_other(arch: Architecture) -> dict[str, float]:
    """Every other product is kept, of grouped products over experts none; cheap operators run again."""
    shares = dict.fromkeys(("norm", "rotary", "activation"), 1.0)
    for mlp in dict.fromkeys(kind.mlp for kind in layer_kinds(arch)):
        whole: dict[str, float] = {}
        again: dict[str, float] = {}
        for matrix, kept in every_other_matrices(arch, mlp):
            name = _element(matrix.name, arch, mlp)
            whole[name] = whole.get(name, 0.0) + matrix.weights
            again[name] = again.get(name, 0.0) + (0.0 if kept else matrix.weights)
        shares |= {name: again[name] / whole[name] for name in whole if again[name]}
        shares |= dict.fromkeys(("permute", "experts_up"), 1.0) if mlp == "moe" else {}
    return shares


def _element(matrix: str, arch: Architecture, mlp: str) -> str:
    if matrix == "out":
        return "projection"
    if matrix in ("gate", "up", "down"):
        return ("shared_" if mlp == "moe" else "ffn_") + ("down" if matrix == "down" else "up")
    return matrix if matrix == "router" else _OF_LATENT[matrix] if arch.kv_rank else "qkv"
