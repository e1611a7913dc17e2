"""Parameter counts against the integers of published checkpoints and against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.shapes import Architecture
from simcluster.workload.parameters import (
    count_parameters,
    head_parameters,
    layer_parameters,
    matmul_parameters,
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


architectures = st.builds(
    Architecture,
    name=st.just("drawn"),
    layers=st.integers(1, 200),
    hidden=st.integers(1, 20_000),
    heads=st.integers(1, 128),
    kv_heads=st.integers(1, 128),
    head_dim=st.integers(1, 256),
    ffn=st.integers(1, 80_000),
    vocab=st.integers(1, 300_000),
    gated_ffn=st.booleans(),
    tied_embeddings=st.booleans(),
    learned_positions=st.integers(0, 8192),
    norm=st.sampled_from(["rmsnorm", "layernorm", "layernorm-nobias", "nonparametric"]),
    norms_per_layer=st.integers(0, 4),
    final_norm=st.booleans(),
    embedding_norm=st.booleans(),
    qkv_bias=st.booleans(),
    out_bias=st.booleans(),
    mlp_bias=st.booleans(),
    qk_norm=st.sampled_from(["none", "head", "full"]),
)


def matrices(arch: Architecture) -> list[tuple[int, int]]:
    """Shapes of a layer's weight matrices, one projection each."""
    a, g, h, f = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim, arch.hidden, arch.ffn
    return [(a, h), (g, h), (g, h), (h, a), (f, h), (h, f)] + [(f, h)] * arch.gated_ffn


def vectors(arch: Architecture) -> list[tuple[int]]:
    """Shapes of a layer's biases and norm weights."""
    a, g, h, f = arch.heads * arch.head_dim, arch.kv_heads * arch.head_dim, arch.hidden, arch.ffn
    found = [(a,), (g,), (g,)] * arch.qkv_bias + [(h,)] * arch.out_bias
    found += ([(f,), (h,)] + [(f,)] * arch.gated_ffn) * arch.mlp_bias
    found += {"none": [], "head": [(arch.head_dim,)] * 2, "full": [(a,), (g,)]}[arch.qk_norm]
    return found + norm_vectors(arch) * arch.norms_per_layer


def norm_vectors(arch: Architecture) -> list[tuple[int]]:
    return [(arch.hidden,)] * {"rmsnorm": 1, "layernorm": 2, "layernorm-nobias": 1, "nonparametric": 0}[arch.norm]


def elements(shapes) -> int:
    return sum(math.prod(shape) for shape in shapes)


@given(architectures)
def test_counts_equal_the_tensors(arch):
    """Independent oracle: the tensors that a framework would create, one by one."""
    table = (arch.vocab, arch.hidden)
    tables = [table] * (1 if arch.tied_embeddings else 2) + [(arch.learned_positions, arch.hidden)]
    outer = tables + norm_vectors(arch) * (arch.final_norm + arch.embedding_norm)
    assert count_parameters(arch).total == elements((matrices(arch) + vectors(arch)) * arch.layers + outer)
    assert matmul_parameters(arch) == elements([*matrices(arch) * arch.layers, table])


@given(architectures)
def test_components_add_up(arch):
    count, layer = count_parameters(arch), layer_parameters(arch)
    inside = count.attention + count.mlp + count.norms
    outside = norm_parameters(arch) * (arch.final_norm + arch.embedding_norm)
    assert inside - outside == arch.layers * layer.total
    assert matmul_parameters(arch) == arch.layers * layer.matmul + arch.hidden * arch.vocab
