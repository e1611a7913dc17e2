"""Parameter counts against the integers of published checkpoints and against closed forms."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.shapes import Architecture
from simcluster.workload.layers import kind_counts, layer_kinds, moe_layer_count, window_layer_count
from simcluster.workload.parameters import (
    count_parameters,
    head_parameters,
    layer_parameters,
    matmul_parameters,
    mtp_matmul_parameters,
    norm_parameters,
    padded_vocab,
)

GPT = {"gated_ffn": False, "norm": "layernorm", "qkv_bias": True, "out_bias": True, "mlp_bias": True}
TIED_GPT = {**GPT, "tied_embeddings": True}


def gpt(layers, hidden, heads, vocab, positions, **more):
    head_dim = hidden // heads
    options = {**TIED_GPT, "learned_positions": positions, **more}
    return Architecture("gpt", layers, hidden, heads, heads, head_dim, 4 * hidden, vocab, **options)


def llama(layers, hidden, heads, kv_heads, ffn, vocab, **more):
    head_dim = more.pop("head_dim", hidden // heads)
    return Architecture("llama", layers, hidden, heads, kv_heads, head_dim, ffn, vocab, **more)


def experts(number, top_k, width, **more):
    return {"experts": number, "top_k": top_k, "expert_ffn": width, **more}


def latent(heads, query, layers, hidden, ffn, vocab, **more):
    """Latent attention as DeepSeek has it: rank 512 for keys and values, heads of 128 + 64."""
    ranks = {"q_rank": query, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64, "value_dim": 128}
    return Architecture("mla", layers, hidden, heads, heads, 192, ffn, vocab, **ranks, **more)


OSS = {"qkv_bias": True, "out_bias": True, "mlp_bias": True, "router_bias": True, "attention_sinks": True}

# Sums over the tensors of the published checkpoints (or, for models without one, of the published architecture).
CHECKPOINTS = {
    "gpt-2 small": (gpt(12, 768, 12, 50257, 1024), 124_439_808),
    "gpt-2 xl": (gpt(48, 1600, 25, 50257, 1024), 1_557_611_200),
    "gpt-3 175b": (gpt(96, 12288, 96, 50257, 2048), 174_604_259_328),
    "gpt-3 175b padded": (gpt(96, 12288, 96, 51200, 2048), 174_615_846_912),
    "megatron 22b": (gpt(48, 6144, 64, 51200, 2048), 22_074_273_792),
    "megatron 530b": (gpt(105, 20480, 128, 51200, 2048), 529_600_819_200),
    "megatron 1t": (gpt(128, 25600, 160, 51200, 2048), 1_008_038_758_400),
    "bloom 176b": (gpt(70, 14336, 112, 250880, 0, embedding_norm=True), 176_247_271_424),
    "opt 6.7b": (gpt(32, 4096, 32, 50272, 2050), 6_658_473_984),
    "gpt-neox 20b": (gpt(44, 6144, 64, 50432, 0, tied_embeddings=False), 20_554_567_680),
    "falcon 7b": (
        llama(
            32, 4544, 71, 1, 18176, 65024, norm="layernorm", norms_per_layer=1, gated_ffn=False, tied_embeddings=True
        ),
        6_921_720_704,
    ),
    "mpt 7b": (
        llama(32, 4096, 32, 32, 16384, 50432, norm="layernorm-nobias", gated_ffn=False, tied_embeddings=True),
        6_649_286_656,
    ),
    "llama 1/2 7b": (llama(32, 4096, 32, 32, 11008, 32000), 6_738_415_616),
    "llama 1/2 13b": (llama(40, 5120, 40, 40, 13824, 32000), 13_015_864_320),
    "llama 1 33b": (llama(60, 6656, 52, 52, 17920, 32000), 32_528_943_616),
    "llama 1 65b": (llama(80, 8192, 64, 64, 22016, 32000), 65_285_660_672),
    "llama 2 70b": (llama(80, 8192, 64, 8, 28672, 32000), 68_976_648_192),
    "llama 3 8b": (llama(32, 4096, 32, 8, 14336, 128256), 8_030_261_248),
    "llama 3 70b": (llama(80, 8192, 64, 8, 28672, 128256), 70_553_706_496),
    "llama 3.1 405b": (llama(126, 16384, 128, 8, 53248, 128256), 405_853_388_800),
    "llama 3.2 1b": (llama(16, 2048, 32, 8, 8192, 128256, tied_embeddings=True), 1_235_814_400),
    "mistral 7b": (llama(32, 4096, 32, 8, 14336, 32000), 7_241_732_096),
    "qwen 2.5 7b": (llama(28, 3584, 28, 4, 18944, 152064, qkv_bias=True), 7_615_616_512),
    "qwen 2.5 72b": (llama(80, 8192, 64, 8, 29568, 152064, qkv_bias=True), 72_706_203_648),
    "qwen 3 32b": (llama(64, 5120, 64, 8, 25600, 151936, head_dim=128, qk_norm="head"), 32_762_123_264),
    "gemma 2 9b": (
        llama(42, 3584, 16, 8, 14336, 256000, head_dim=256, norms_per_layer=4, tied_embeddings=True),
        9_241_705_984,
    ),
    "olmo 7b": (llama(32, 4096, 32, 32, 11008, 50304, norm="nonparametric"), 6_888_095_744),
    "olmo 2 13b": (llama(40, 5120, 40, 40, 13824, 100352, qk_norm="full"), 13_716_198_400),
    "command-r+ 104b": (
        llama(
            64,
            12288,
            96,
            8,
            33792,
            256000,
            norm="layernorm-nobias",
            norms_per_layer=1,
            qk_norm="full",
            tied_embeddings=True,
        ),
        103_810_674_688,
    ),
    "palm 540b without norms": (
        llama(
            118,
            18432,
            48,
            1,
            73728,
            256000,
            head_dim=256,
            norm="nonparametric",
            tied_embeddings=True,
            parallel_block=True,
        ),
        540_354_281_472,
    ),
}

MIXTURES = {
    # total and active parameters, both tables counted
    "mixtral 8x7b": (
        llama(32, 4096, 32, 8, 14336, 32000, **experts(8, 2, 14336)),
        46_702_792_704,
        12_879_925_248,
    ),
    "mixtral 8x22b, vocabulary of v0.3": (
        llama(56, 6144, 48, 8, 16384, 32768, **experts(8, 2, 16384)),
        140_630_071_296,
        39_161_468_928,
    ),
    "qwen 3 30b-a3b": (
        llama(48, 2048, 32, 4, 6144, 151936, head_dim=128, qk_norm="head", **experts(128, 8, 768)),
        30_532_122_624,
        3_353_032_704,
    ),
    "qwen 3 235b-a22b": (
        llama(94, 4096, 64, 4, 12288, 151936, head_dim=128, qk_norm="head", **experts(128, 8, 1536)),
        235_093_634_560,
        22_190_763_520,
    ),
    "deepseek v2": (
        latent(128, 1536, 60, 5120, 12288, 102400, **experts(160, 6, 1536, shared_ffn=3072, dense_layers=1)),
        235_741_434_880,
        21_375_800_320,
    ),
    "deepseek v2-lite": (
        latent(16, 0, 27, 2048, 10944, 102400, **experts(64, 6, 1408, shared_ffn=2816, dense_layers=1)),
        15_706_484_224,
        2_661_150_208,
    ),
    "deepseek v3": (
        latent(
            128,
            1536,
            61,
            7168,
            18432,
            129280,
            mtp_depth=1,
            **experts(256, 8, 2048, shared_ffn=2048, dense_layers=3, router_bias=True),
        ),
        671_026_419_200,
        37_552_297_472,
    ),
}
MIXTURE_TOTALS = {
    "dbrx": (llama(40, 6144, 48, 8, 1, 100352, norm="layernorm-nobias", **experts(16, 4, 10752)), 131_596_523_520),
    "gpt-oss 20b": (llama(24, 2880, 64, 8, 2880, 201088, head_dim=64, **experts(32, 4, 2880), **OSS), 20_914_757_184),
    "gpt-oss 120b": (
        llama(36, 2880, 64, 8, 2880, 201088, head_dim=64, **experts(128, 4, 2880), **OSS),
        116_829_156_672,
    ),
    "qwen 2 57b-a14b": (
        llama(
            28,
            3584,
            28,
            4,
            18944,
            151936,
            head_dim=128,
            qkv_bias=True,
            **experts(64, 8, 2560, shared_ffn=20480, shared_gate=True),
        ),
        57_408_658_944,
    ),
    "olmoe 1b-7b": (llama(16, 2048, 16, 16, 1024, 50304, qk_norm="full", **experts(64, 8, 1024)), 6_919_161_856),
}

MATMUL = {
    "llama 1/2 7b": 6_607_077_376,
    "llama 1/2 13b": 12_851_609_600,
    "llama 3 8b": 7_504_658_432,
    "llama 3 70b": 69_501_714_432,
    "llama 3.1 405b": 403_747_897_344,
}


@pytest.mark.parametrize("model", CHECKPOINTS)
def test_totals_are_the_published_integers(model):
    arch, published = CHECKPOINTS[model]
    assert count_parameters(arch).total == published


@pytest.mark.parametrize("model", MATMUL)
def test_matmul_parameters_are_the_worked_integers(model):
    assert matmul_parameters(CHECKPOINTS[model][0]) == MATMUL[model]


@pytest.mark.parametrize("model", MIXTURES)
def test_experts_give_the_published_totals_and_the_worked_active_parameters(model):
    arch, total, active = MIXTURES[model]
    count = count_parameters(arch)
    assert (count.total, count.active) == (total, active)
    assert count.idle == total - active


@pytest.mark.parametrize("model", MIXTURE_TOTALS)
def test_experts_give_the_published_totals(model):
    arch, total = MIXTURE_TOTALS[model]
    assert count_parameters(arch).total == total


def test_deepseek_v3_runs_the_worked_weights_for_a_token():
    assert matmul_parameters(MIXTURES["deepseek v3"][0]) == 36_624_596_992


def test_multi_token_prediction_is_counted_apart():
    """The report of DeepSeek-V3 gives 11.5e9 parameters of the module without the shared tables, cut from 11.6e9."""
    v3 = MIXTURES["deepseek v3"][0]
    count, without = count_parameters(v3), count_parameters(replace(v3, mtp_depth=0))
    assert count.total == without.total
    assert without.mtp == 0
    assert count.mtp == pytest.approx(11.5e9, rel=0.01)
    layer, h = layer_parameters(v3, "moe"), 7168
    assert count.mtp == layer.total + 2 * h * h + 3 * h
    assert mtp_matmul_parameters(v3) == layer.matmul + 2 * h * h + h * 129280
    assert mtp_matmul_parameters(v3, np.array([129280, 130000])).shape == (2,)


def test_a_model_with_two_kinds_of_layers_needs_the_kind_named():
    v3 = MIXTURES["deepseek v3"][0]
    with pytest.raises(ValueError, match="name one kind"):
        layer_parameters(v3)
    assert layer_parameters(v3, "dense").mlp == 3 * 7168 * 18432
    mixtral = MIXTURES["mixtral 8x7b"][0]
    assert layer_parameters(mixtral) == layer_parameters(mixtral, "moe")


def test_kinds_of_layers():
    scout = llama(8, 64, 4, 4, 256, 100, **experts(4, 1, 32, moe_every=2), window=16, full_every=4)
    assert [kind.mlp for kind in layer_kinds(scout)] == ["dense", "moe"] * 4
    assert [kind.attention for kind in layer_kinds(scout)] == (["window"] * 3 + ["full"]) * 2


def test_a_replaced_vocabulary_gives_the_padded_model():
    assert count_parameters(CHECKPOINTS["gpt-3 175b"][0], vocab=51200).total == 174_615_846_912


def test_tied_embeddings_store_one_table_but_run_the_head():
    tied, untied = (llama(2, 64, 4, 4, 256, 1000, tied_embeddings=tied) for tied in (True, False))
    assert count_parameters(untied).total - count_parameters(tied).total == 64 * 1000
    assert count_parameters(tied).head == 0
    assert matmul_parameters(tied) == matmul_parameters(untied)


def test_norms_by_kind():
    sizes = {norm: norm_parameters(llama(2, 64, 4, 4, 256, 100, norm=norm)) for norm in ("rmsnorm", "layernorm")}
    assert sizes == {"rmsnorm": 64, "layernorm": 128}
    without = llama(2, 64, 4, 4, 256, 100, final_norm=False)
    assert count_parameters(without).norms == 2 * 2 * 64


@pytest.mark.parametrize(
    ("vocab", "tp", "padded"), [(50257, 8, 51200), (50257, 1, 50304), (32000, 8, 32768), (1, 1, 128)]
)
def test_padded_vocabulary_of_megatron(vocab, tp, padded):
    assert padded_vocab(vocab, tp) == padded


def test_vocabulary_broadcasts():
    padded = padded_vocab(np.array([50257, 128256]), np.array([[1], [8]]))
    assert padded.tolist() == [[50304, 128256], [51200, 129024]]
    arch = CHECKPOINTS["llama 3 8b"][0]
    each = [[matmul_parameters(arch, int(vocab)) for vocab in row] for row in padded]
    assert np.array_equal(matmul_parameters(arch, padded), each)
    assert np.array_equal(head_parameters(arch, padded), 4096 * padded)


@given(st.integers(1, 200), st.integers(1, 128), st.integers(1, 64), st.integers(1, 300_000), st.integers(0, 8192))
def test_gpt_closed_form(layers, heads, head_dim, vocab, positions):
    """L(12h² + 13h) + Vh + sh + 2h of Narayanan et al. 2021."""
    h = heads * head_dim
    expected = layers * (12 * h**2 + 13 * h) + vocab * h + positions * h + 2 * h
    assert count_parameters(gpt(layers, h, heads, vocab, positions)).total == expected


widths = st.integers(1, 20_000)
GROUPS = {
    "experts": {
        "experts": st.integers(8, 300),
        "top_k": st.integers(1, 8),
        "expert_ffn": widths,
        "shared_ffn": st.just(0) | widths,
        "shared_gate": st.booleans(),
        "dense_layers": st.integers(0, 10),
        "moe_every": st.integers(1, 5),
        "router_bias": st.booleans(),
    },
    "latent": {
        "q_rank": st.just(0) | widths,
        "kv_rank": widths,
        "nope_dim": st.integers(0, 256),
        "rope_dim": st.integers(1, 256),
    },
    "values": {"value_dim": st.integers(1, 256)},
    "windows": {"window": widths, "full_every": st.integers(0, 8)},
    "further": {"mtp_depth": st.integers(0, 3), "attention_sinks": st.booleans()},
}
FIELDS = {
    "name": st.just("drawn"),
    "layers": st.integers(1, 60),
    "hidden": widths,
    "heads": st.integers(1, 128),
    "kv_heads": st.integers(1, 128),
    "head_dim": st.integers(1, 256),
    "ffn": st.integers(1, 80_000),
    "vocab": st.integers(1, 300_000),
    "gated_ffn": st.booleans(),
    "tied_embeddings": st.booleans(),
    "learned_positions": st.integers(0, 8192),
    "norm": st.sampled_from(["rmsnorm", "layernorm", "layernorm-nobias", "nonparametric"]),
    "norms_per_layer": st.integers(0, 4),
    "final_norm": st.booleans(),
    "embedding_norm": st.booleans(),
    "qkv_bias": st.booleans(),
    "out_bias": st.booleans(),
    "mlp_bias": st.booleans(),
    "qk_norm": st.sampled_from(["none", "head", "full"]),
}


@st.composite
def architectures(draw) -> Architecture:
    groups = draw(st.sets(st.sampled_from(sorted(GROUPS))))
    fields = draw(st.fixed_dictionaries(FIELDS | {k: v for name in groups for k, v in GROUPS[name].items()}))
    if fields.get("kv_rank"):
        fields["head_dim"] = fields["nope_dim"] + fields["rope_dim"]
    return Architecture(**fields)


def attention_matrices(arch: Architecture) -> list[tuple[int, int]]:
    """Shapes of the weights of attention, one projection each."""
    h, a, g, d = arch.hidden, arch.heads, arch.kv_heads, arch.head_dim
    dv = arch.value_dim if arch.value_dim else d
    if arch.kv_rank == 0:
        return [(h, a * d), (h, g * d), (h, g * dv), (a * dv, h)]
    query = [(h, arch.q_rank), (arch.q_rank, a * d)] if arch.q_rank else [(h, a * d)]
    down, up = (h, arch.kv_rank + arch.rope_dim), (arch.kv_rank, a * (arch.nope_dim + dv))
    return [*query, down, up, (a * dv, h)]


def attention_vectors(arch: Architecture) -> list[tuple[int, ...]]:
    a, g, d = arch.heads, arch.kv_heads, arch.head_dim
    dv = arch.value_dim if arch.value_dim else d
    biased = [(a * d,), (g * d,), (g * dv,)]
    if arch.kv_rank:
        biased = [(arch.q_rank,), (arch.kv_rank + arch.rope_dim,)]
    found = biased * arch.qkv_bias + [(arch.hidden,)] * arch.out_bias + [(a,)] * arch.attention_sinks
    found += {"none": [], "head": [(d,), (d,)], "full": [(a * d,), (g * d,)]}[arch.qk_norm]
    return found + norm_vectors(arch, arch.hidden) * arch.norms_per_layer + rank_norms(arch)


def rank_norms(arch: Architecture) -> list[tuple[int]]:
    return norm_vectors(arch, arch.q_rank) + norm_vectors(arch, arch.kv_rank) if arch.kv_rank else []


def norm_vectors(arch: Architecture, width: int) -> list[tuple[int]]:
    return [(width,)] * {"rmsnorm": 1, "layernorm": 2, "layernorm-nobias": 1, "nonparametric": 0}[arch.norm]


def mlp_tensors(arch: Architecture, width: int) -> tuple[list, list]:
    """Matrices and biases of one MLP."""
    h, ups = arch.hidden, 2 if arch.gated_ffn else 1
    if width == 0:
        return [], []
    return [(h, width)] * ups + [(width, h)], ([(width,)] * ups + [(h,)]) * arch.mlp_bias


def layer_tensors(arch: Architecture, index: int) -> tuple[list, list]:
    """Matrices that every token meets, and everything else but idle experts is in the second list."""
    matrices, others = attention_matrices(arch), attention_vectors(arch)
    has_experts = arch.experts > 0 and index >= arch.dense_layers
    if not (has_experts and (index - arch.dense_layers + 1) % arch.moe_every == 0):
        dense, biases = mlp_tensors(arch, arch.ffn)
        return matrices + dense, others + biases
    expert, expert_biases = mlp_tensors(arch, arch.expert_ffn)
    shared, shared_biases = mlp_tensors(arch, arch.shared_ffn)
    router = [(arch.hidden, arch.experts)] + [(arch.hidden, 1)] * arch.shared_gate
    idle = (expert + expert_biases) * (arch.experts - arch.top_k)
    others += shared_biases + [(arch.experts,)] * arch.router_bias + expert_biases * arch.top_k
    return matrices + router + shared + expert * arch.top_k, others + idle


def elements(shapes) -> int:
    return sum(math.prod(shape) for shape in shapes)


@given(architectures())
def test_counts_equal_the_tensors(arch):
    """Independent oracle: the tensors that a framework would create, one by one."""
    h = arch.hidden
    table = (arch.vocab, h)
    outer = [table] * (1 if arch.tied_embeddings else 2) + [(arch.learned_positions, h)]
    outer += norm_vectors(arch, h) * (arch.final_norm + arch.embedding_norm)
    layers = [layer_tensors(arch, index) for index in range(arch.layers)]
    further = [layer_tensors(arch, arch.layers + depth) for depth in range(arch.mtp_depth)]
    assert count_parameters(arch).total == sum(elements(m) + elements(o) for m, o in layers) + elements(outer)
    assert matmul_parameters(arch) == sum(elements(m) for m, _ in layers) + elements([table])
    extra = [(2 * h, h)] + norm_vectors(arch, h) * 3
    assert count_parameters(arch).mtp == sum(elements(m) + elements(o) + elements(extra) for m, o in further)
    assert mtp_matmul_parameters(arch) == sum(elements(m) + 2 * h * h + elements([table]) for m, _ in further)


@given(architectures())
def test_components_add_up(arch):
    count = count_parameters(arch)
    layers = [layer_parameters(arch, kind.mlp) for kind in layer_kinds(arch)]
    outside = norm_parameters(arch) * (arch.final_norm + arch.embedding_norm)
    assert count.attention + count.mlp + count.norms - outside == sum(layer.total for layer in layers)
    assert matmul_parameters(arch) == sum(layer.matmul for layer in layers) + arch.hidden * arch.vocab
    assert count.idle == sum(layer.idle for layer in layers) <= count.mlp
    assert sum(kind_counts(arch).values()) == arch.layers
    assert moe_layer_count(arch) == sum(kind.mlp == "moe" for kind in layer_kinds(arch))
    assert window_layer_count(arch) == sum(kind.attention == "window" for kind in layer_kinds(arch))
