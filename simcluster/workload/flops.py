"""Model FLOPs, executed FLOPs, MFU and HFU, each with its convention.

One multiply-add is 2 FLOP. With P the weights that take part in GEMMs for one token (`matmul_parameters`: of E experts
the k that it reaches), L layers, a heads with queries of dimension d and values of dv, and sequences of s tokens, a
trained token costs 3 forward passes (forward, input gradients, weight gradients):

    6·P + 3·L·X,   X = 2·s·a·(d + dv) when every token attends to every other (full), s·a·(d + dv) for the causal half

Published MFU figures differ by that factor of attention, so every function here takes the convention and no default
exists. Korthikanti et al. 2022 (arXiv 2205.05198), Narayanan et al. 2021 (arXiv 2104.04473) and PaLM (Chowdhery et al.
2022, arXiv 2204.02311) count full attention; NVIDIA/Megatron-LM of 2026 counts the causal half. In layers with a
window w both conventions count only the pairs inside it: full s·min(s, w) of them (or whole blocks of w), causal the
exact number with a token's pair with itself counted half, which is s²/2 without a window.

Layers that predict further tokens (`mtp_depth`) are trained with the others, so they count: each is one more layer, a
2h x h projection and one more head, as NVIDIA/Megatron-LM counts them; with mtp_depth 0 they are left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import InputError, Problem
from simcluster.shapes import Architecture, Num
from simcluster.workload.layers import (
    AttentionKind,
    MlpKind,
    attended_pairs,
    layer_kind,
    layer_kinds,
    window_layer_count,
)
from simcluster.workload.parameters import (
    Matrix,
    attention_matrices,
    layer_parameters,
    matmul_parameters,
    mlp_matrices,
    mtp_kinds,
    mtp_matmul_parameters,
)

_SECONDS_PER_DAY = 86400.0


class AttentionFlops(str, Enum):
    """How the core of attention is counted: all s² pairs of tokens, or the causal half of them."""

    FULL = "full"
    CAUSAL = "causal"


@dataclass(frozen=True, slots=True)
class StepFlops:
    """FLOPs of one optimizer step over all GPUs; `model` without, `executed` with recomputation [FLOP]."""

    model: Num
    executed: Num
    attention: AttentionFlops

    def mfu(self, step_time_s: Num, gpus: Num, peak_flops: Num) -> Num:
        """Model FLOPs utilisation; see `mfu`."""
        return mfu(self.model, step_time_s, gpus, peak_flops)

    def hfu(self, step_time_s: Num, gpus: Num, peak_flops: Num) -> Num:
        """Hardware FLOPs utilisation; see `hfu`."""
        return hfu(self.executed, step_time_s, gpus, peak_flops)


def core_attention_flops(arch: Architecture, seq: Num, attention: AttentionFlops, kind: AttentionKind = "full") -> Num:
    """Forward FLOPs of QKᵀ and AV for one token in one layer [FLOP]; seq [tokens] is a scalar or an array.

    kind "window" is a layer that the architecture's window limits.

    >>> from simcluster.shapes import Architecture
    >>> core_attention_flops(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 1024, AttentionFlops.FULL)
    262144
    """
    width = arch.heads * (arch.head_dim + (arch.value_dim or arch.head_dim))
    if kind == "full" or arch.window == 0:
        return seq * width * {AttentionFlops.FULL: 2, AttentionFlops.CAUSAL: 1}[attention]
    causal = attention is AttentionFlops.CAUSAL
    pairs = attended_pairs(seq, arch.window, arch.window_kind, causal=causal) - (0.5 * seq if causal else 0.0)
    each = 2.0 * width * pairs / np.maximum(seq, 1)
    return each if isinstance(each, np.ndarray) else float(each)


def attention_flops_per_token(arch: Architecture, seq: Num, attention: AttentionFlops) -> Num:
    """Forward FLOPs of the core of attention for one token in all layers, those that predict further tokens included.

    seq [tokens] is a scalar or an array.

    >>> from simcluster.shapes import Architecture
    >>> arch = Architecture("m", 4, 64, 4, 4, 16, 256, 100, window=256, full_every=2)
    >>> attention_flops_per_token(arch, 1024, AttentionFlops.FULL) == 2 * 262144 + 2 * 65536
    True
    """
    kinds = [layer_kind(arch, arch.layers + depth).attention for depth in range(arch.mtp_depth)]
    windows = window_layer_count(arch) + kinds.count("window")
    full = (arch.layers + arch.mtp_depth - windows) * core_attention_flops(arch, seq, attention)
    return full + windows * core_attention_flops(arch, seq, attention, "window") if windows else full


def forward_flops_per_token(arch: Architecture, seq: Num, attention: AttentionFlops, vocab: Num | None = None) -> Num:
    """Forward FLOPs for one token, head included [FLOP].

    seq [tokens] and vocab [count, default: the architecture's] broadcast.

    >>> from simcluster.shapes import Architecture
    >>> llama = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> forward_flops_per_token(llama, 4096, AttentionFlops.CAUSAL) / 1e9
    14.287896576
    """
    weights = matmul_parameters(arch, vocab) + mtp_matmul_parameters(arch, vocab)
    return 2 * weights + attention_flops_per_token(arch, seq, attention)


def model_flops_per_token(arch: Architecture, seq: Num, attention: AttentionFlops, vocab: Num | None = None) -> Num:
    """FLOPs that training one token takes without recomputation: 3 times the forward pass [FLOP].

    >>> from simcluster.shapes import Architecture
    >>> llama = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
    >>> round(model_flops_per_token(llama, 8192, AttentionFlops.FULL) / 1e9, 3)
    57.913
    """
    return 3 * forward_flops_per_token(arch, seq, attention, vocab)


def model_flops_per_step(
    arch: Architecture, seq: Num, global_batch: Num, attention: AttentionFlops, vocab: Num | None = None
) -> Num:
    """Model FLOPs of one step over `global_batch` sequences of `seq` tokens, all GPUs together [FLOP].

    For a GPT (h = a·d, f = 4·h) and full attention this equals 72·B·L·s·h²·(1 + s/(6h) + V/(12hL)).

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt-3", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False)
    >>> round(model_flops_per_step(gpt, 2048, 64, AttentionFlops.FULL) / 1e15, 4)
    141.0915
    """
    return model_flops_per_token(arch, seq, attention, vocab) * _tokens(seq, global_batch)


def model_flops_of_lengths(arch: Architecture, lengths: NDArray[np.integer], attention: AttentionFlops) -> float:
    """Model FLOPs of a packed batch: documents of these lengths [tokens] that do not attend to each other [FLOP].

    B·s² becomes Σ lenᵢ² and B·s becomes Σ lenᵢ, as NVIDIA/Megatron-LM counts them.

    >>> import numpy as np
    >>> from simcluster.shapes import Architecture
    >>> tiny = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> packed = model_flops_of_lengths(tiny, np.array([512, 512]), AttentionFlops.FULL)
    >>> packed == model_flops_per_step(tiny, 512, 2, AttentionFlops.FULL)
    True
    """
    each = np.asarray(lengths, dtype=np.float64)
    return float(np.sum(each * model_flops_per_token(arch, each, attention)))


_MODES: Mapping[str, tuple[str, ...]] = MappingProxyType({"none": (), "selective": ("core_attn",), "full": ("layer",)})
RECOMPUTE_MODES = tuple(_MODES)
RECOMPUTE_MODULES = (
    *("core_attn", "attention", "mla_up_proj", "mlp", "moe", "shared_experts"),
    *("layernorm", "mlp_act", "moe_act", "every-other-matmul", "layer"),
)
_CONTAINS = MappingProxyType(
    {
        "layer": frozenset(RECOMPUTE_MODULES) - {"layer"},
        "attention": frozenset({"core_attn", "mla_up_proj"}),
        "moe": frozenset({"shared_experts"}),
    }
)


def recompute_modules(recompute: str | Collection[str]) -> tuple[str, ...]:
    """Modules that are run again in the backward pass, without those that another of them contains.

    recompute is "none", "selective" (the core of attention), "full" (whole layers), or names of `RECOMPUTE_MODULES`.
    Raises InputError with every unknown name.

    >>> recompute_modules("selective")
    ('core_attn',)
    >>> recompute_modules(["attention", "core_attn", "layernorm"])
    ('attention', 'layernorm')
    """
    if isinstance(recompute, str):
        if recompute not in _MODES:
            raise InputError(_unknown("recompute", recompute, RECOMPUTE_MODES))
        return _MODES[recompute]
    problems = [
        _unknown("recompute module", name, RECOMPUTE_MODULES) for name in recompute if name not in RECOMPUTE_MODULES
    ]
    if problems:
        raise InputError(problems)
    covered = {inner for name in recompute for inner in _CONTAINS.get(name, ())}
    return tuple(name for name in dict.fromkeys(recompute) if name not in covered)


def recompute_flops_per_token(
    arch: Architecture,
    seq: Num,
    attention: AttentionFlops,
    recompute: str | Collection[str],
    layers: Num | None = None,
) -> Num:
    """FLOPs that recomputation adds for one token [FLOP]; the head is never recomputed.

    layers [count] is how many of the layers recompute (all by default; may be an array); where layers differ in kind
    they cost the mean of all. What a fused attention kernel recomputes inside its own backward pass is a property of
    that kernel and is not counted.

    >>> from simcluster.shapes import Architecture
    >>> tiny = Architecture("m", 2, 64, 4, 4, 16, 256, 100)
    >>> recompute_flops_per_token(tiny, 1024, AttentionFlops.FULL, "selective")
    524288
    """
    forward = _forward_by_module(arch, seq, attention)
    every: Num = forward["core_attn"] * 0  # keeps the shape of seq when nothing is recomputed
    for name in recompute_modules(recompute):
        every = every + forward.get(name, 0)  # norms and activations run no GEMM
    return every if layers is None else layers * every / (arch.layers + arch.mtp_depth)


def _forward_by_module(arch: Architecture, seq: Num, attention: AttentionFlops) -> dict[str, Num]:
    """Forward FLOPs for one token in all layers, by the module that recomputation may run again."""
    core = attention_flops_per_token(arch, seq, attention)
    kinds = [kind.mlp for kind in layer_kinds(arch)] + list(mtp_kinds(arch))
    linear = every_other = 0
    halves = dict.fromkeys(("dense", "moe"), 0)
    for kind, count in Counter(kinds).items():
        layer = layer_parameters(arch, kind)
        linear += count * 2 * (layer.qkv + layer.attention_out)
        halves[kind] += count * 2 * (layer.matmul - layer.qkv - layer.attention_out)
        every_other += count * 2 * _every_other_matmul(arch, kind)
    shared = kinds.count("moe") * 2 * (3 if arch.gated_ffn else 2) * arch.hidden * arch.shared_ffn
    return {
        "core_attn": core,
        "attention": core + linear,
        "mla_up_proj": len(kinds) * 2 * _latent_up(arch),
        "mlp": halves["dense"],
        "moe": halves["moe"],
        "shared_experts": shared,
        "every-other-matmul": every_other,
        "layer": core + linear + sum(halves.values()),
    }


def _latent_up(arch: Architecture) -> int:
    """Weights that unfold the latents of query, key and value; 0 without latent attention."""
    if not arch.kv_rank:
        return 0
    return arch.heads * (arch.q_rank * arch.head_dim + arch.kv_rank * (arch.nope_dim + arch.value_dim))


def step_flops(
    arch: Architecture,
    seq: Num,
    global_batch: Num,
    attention: AttentionFlops,
    recompute: str | Collection[str] = "none",
    *,
    recompute_layers: Num | None = None,
    vocab: Num | None = None,
) -> StepFlops:
    """Model and executed FLOPs of one step, all GPUs together.

    seq [tokens], global_batch [sequences], recompute_layers and vocab [count] broadcast.

    >>> from simcluster.shapes import Architecture
    >>> gpt = Architecture("gpt-3", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False)
    >>> step = step_flops(gpt, 2048, 64, AttentionFlops.FULL, "selective")
    >>> round(step.mfu(13.75, 64, 312e12), 3), round(step.hfu(13.75, 64, 312e12), 3)
    (0.514, 0.518)
    """
    model = model_flops_per_step(arch, seq, global_batch, attention, vocab)
    again = recompute_flops_per_token(arch, seq, attention, recompute, recompute_layers)
    return StepFlops(model, model + again * _tokens(seq, global_batch), attention)


def mfu(model_flops: Num, step_time_s: Num, gpus: Num, peak_flops: Num) -> Num:
    """Model FLOPs utilisation (PaLM, Chowdhery et al. 2022): model FLOPs over gpus·peak·time, in [0, 1].

    model_flops [FLOP], step_time_s [s] > 0, gpus [count] and peak_flops [FLOP/s of one GPU, dense] broadcast.

    >>> mfu(50e12, 1.0, 1, 100e12)
    0.5
    """
    return model_flops / (step_time_s * gpus * peak_flops)


def hfu(executed_flops: Num, step_time_s: Num, gpus: Num, peak_flops: Num) -> Num:
    """Hardware FLOPs utilisation: as `mfu`, with recomputation in the FLOPs.

    >>> hfu(60e12, 1.0, 1, 100e12)
    0.6
    """
    return mfu(executed_flops, step_time_s, gpus, peak_flops)


def korthikanti_model_flops(global_batch: Num, seq: Num, layers: Num, hidden: Num, vocab: Num) -> Num:
    """Model FLOPs of a GPT step by the closed form of Korthikanti et al. 2022 (f = 4·h, full attention) [FLOP].

    72·B·L·s·h²·(1 + s/(6h) + V/(12hL)); all arguments [count] broadcast.

    >>> round(korthikanti_model_flops(64, 2048, 96, 12288, 51200) / 1e15, 4)
    141.0915
    """
    body = 72.0 * global_batch * layers * seq * hidden**2
    return body * (1 + seq / (6 * hidden) + vocab / (12 * hidden * layers))


def korthikanti_hardware_flops(global_batch: Num, seq: Num, layers: Num, hidden: Num, vocab: Num) -> Num:
    """FLOPs behind the HFU that Korthikanti et al. 2022 print for selective recomputation [FLOP].

    72·B·L·s·h²·(1 + s/(3h) + V/(12hL)): it counts attention three times more where the backward pass runs it once more.
    Use it to reproduce their column only; `step_flops` gives what is executed.

    >>> round(korthikanti_hardware_flops(64, 2048, 96, 12288, 51200) / (64 * 312e12 * 13.75), 3)
    0.528
    """
    body = 72.0 * global_batch * layers * seq * hidden**2
    return body * (1 + seq / (3 * hidden) + vocab / (12 * hidden * layers))


def narayanan_flops(global_batch: Num, seq: Num, layers: Num, hidden: Num, vocab: Num) -> Num:
    """FLOPs of a GPT step with full recomputation (Narayanan et al. 2021, equation 3) [FLOP].

    96·B·L·s·h²·(1 + s/(6h) + V/(16hL)); the TFLOP/s of that paper and of Megatron-LM's logs until 2023 count this.

    >>> round(narayanan_flops(1536, 2048, 96, 12288, 51200) / 1e18, 3)
    4.511
    """
    body = 96.0 * global_batch * layers * seq * hidden**2
    return body * (1 + seq / (6 * hidden) + vocab / (16 * hidden * layers))


def narayanan_training_days(parameters: Num, tokens: Num, gpus: Num, flops_per_gpu: Num) -> Num:
    """Days of a run with full recomputation, 8·T·P/(n·X) (Narayanan et al. 2021, equation 4) [days].

    flops_per_gpu [FLOP/s] is the achieved rate, recomputation included.

    >>> round(narayanan_training_days(175e9, 300e9, 1024, 140e12), 1)
    33.9
    """
    return 8.0 * tokens * parameters / (gpus * flops_per_gpu) / _SECONDS_PER_DAY


def palm_flops_per_token(parameters: Num, layers: Num, heads: Num, head_dim: Num, seq: Num) -> Num:
    """FLOPs per trained token as PaLM's MFU counts them: 6·N + 12·L·a·d·s, N all parameters (Chowdhery et al. 2022).

    >>> round(palm_flops_per_token(540.35e9, 118, 48, 256, 2048) * 238.3e3 / (6144 * 275e12), 4)
    0.4623
    """
    return 6.0 * parameters + 12.0 * layers * heads * head_dim * seq


def every_other_matrices(arch: Architecture, mlp: MlpKind) -> tuple[tuple[Matrix, bool], ...]:
    """Matrices of a layer, grouped ones over experts apart, and whether pytorch/torchtitan keeps their results.

    It keeps the first, third, … product of a layer in the order in which they run (of a Llama layer q, v, the MLP's
    gate and down), of grouped products over experts none; the last product of a layer is needed by no backward.

    >>> llama = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
    >>> [matrix.name for matrix, kept in every_other_matrices(llama, "dense") if not kept]
    ['key', 'out', 'up']
    """
    router = (Matrix("router", arch.hidden, arch.experts),) if mlp == "moe" else ()
    inner = arch.shared_ffn if mlp == "moe" else arch.ffn
    last: tuple[Matrix, ...] = mlp_matrices(arch, inner) if inner else ()
    matrices: tuple[Matrix, ...] = (*attention_matrices(arch), *router, *last)
    return tuple((matrix, index % 2 == 0 or matrix.name == "down") for index, matrix in enumerate(matrices))


def _every_other_matmul(arch: Architecture, mlp: MlpKind) -> int:
    """Weights of the matrices whose results that policy does not keep, for one token."""
    layer = layer_parameters(arch, mlp)
    dropped = sum(matrix.weights for matrix, kept in every_other_matrices(arch, mlp) if not kept)
    return dropped + layer.top_k * layer.expert_in


def _tokens(seq: Num, global_batch: Num) -> Num:
    return 1.0 * seq * global_batch  # floats: FLOPs of a large step overflow 64-bit integers


def _unknown(what: str, name: str, known: Collection[str]) -> Problem:
    close = get_close_matches(str(name), known, n=1)
    advice = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
    return Problem(f"unknown {what} {name!r}", advice)
