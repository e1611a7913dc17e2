"""Counts per rank reconcile with the exact totals of the model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.memory.parameters import layer_parameters, stage_parameters, vocabulary_rows
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.shapes import Architecture
from simcluster.workload.parameters import count_parameters

LLAMA_7B = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
LLAMA_70B = Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000)
GPT2 = Architecture(
    "gpt2", 12, 768, 12, 12, 64, 3072, 50257, gated_ffn=False, tied_embeddings=True, learned_positions=1024,
    norm="layernorm", qkv_bias=True, out_bias=True, mlp_bias=True,
)  # fmt: skip
BLOOM = replace(
    GPT2, layers=70, hidden=14336, heads=112, kv_heads=112, head_dim=128, ffn=57344, vocab=250880,
    learned_positions=0, embedding_norm=True,
)  # fmt: skip
QWEN = Architecture("qwen", 4, 512, 8, 4, 64, 1024, 1024, qkv_bias=True, qk_norm="head", norms_per_layer=4)


@pytest.mark.parametrize(
    ("arch", "published"), [(LLAMA_7B, 6738415616), (LLAMA_70B, 68976648192), (GPT2, 124439808), (BLOOM, 176247271424)]
)
def test_one_rank_holds_the_published_model(arch: Architecture, published: int) -> None:
    whole = [ChunkContents(arch.layers, embedding=True, head=True)]
    assert sum(stage_parameters(arch, whole, vocab_multiple=1).values()) == published


@pytest.mark.parametrize("arch", [LLAMA_7B, LLAMA_70B, GPT2, BLOOM, QWEN, replace(QWEN, qk_norm="full")])
@pytest.mark.parametrize("tp", [1, 2, 4])
def test_divided_and_replicated_parts_reconcile(arch: Architecture, tp: int) -> None:
    """tp times a rank's count, less tp - 1 copies of what every rank holds, is the model with its padded vocabulary."""
    vectors = {"rmsnorm": 1, "layernorm": 2}[arch.norm] * arch.hidden
    per_layer = arch.hidden * (arch.out_bias + arch.mlp_bias) + arch.norms_per_layer * vectors
    per_layer += 2 * arch.head_dim * (arch.qk_norm == "head")
    copies = arch.layers * per_layer + vectors * (1 + arch.embedding_norm) + arch.learned_positions * arch.hidden
    rank = sum(stage_parameters(arch, [ChunkContents(arch.layers, True, True)], tp).values())
    padded = int(vocabulary_rows(arch, tp) * tp)
    assert tp * rank - (tp - 1) * copies == count_parameters(arch, padded).total


@pytest.mark.parametrize(("pp", "virtual"), [(1, 1), (2, 1), (4, 2), (5, 1)])
@pytest.mark.parametrize("arch", [LLAMA_70B, GPT2])
def test_stages_add_up(arch: Architecture, pp: int, virtual: int) -> None:
    stages = stage_contents(arch.layers, pp, virtual) if arch.layers >= pp * virtual else ()
    counted = sum(sum(stage_parameters(arch, chunks, vocab_multiple=1).values()) for chunks in stages)
    second_copy = arch.vocab * arch.hidden if arch.tied_embeddings and pp > 1 else 0
    assert counted == count_parameters(arch).total + second_copy


def test_key_value_heads_are_replicated_beyond_their_number() -> None:
    eight, sixteen = (layer_parameters(LLAMA_70B, tp)["attention"] for tp in (8, 16))
    kv_of_one_head = 2 * 8192 * 128
    assert sixteen - kv_of_one_head == (eight - kv_of_one_head) / 2


def test_worked_stage_counts() -> None:
    first = stage_parameters(LLAMA_70B, [ChunkContents(20, embedding=True)], 8)
    assert sum(first.values()) == pytest.approx(2.1719e9, rel=1e-3)


@given(st.sampled_from([LLAMA_7B, LLAMA_70B, GPT2, BLOOM]))
def test_non_increasing_in_tp_and_arrays_equal_scalars(arch: Architecture) -> None:
    tp = np.array([1, 2, 4, 8, 16])
    arrays = stage_parameters(arch, [ChunkContents(3, True, False)], tp)
    assert np.all(np.diff(sum(arrays.values())) <= 0)
    for index, ranks in enumerate(tp.tolist()):
        scalars = stage_parameters(arch, [ChunkContents(3, True, False)], ranks)
        assert all(np.broadcast_to(arrays[name], 5)[index] == scalars[name] for name in scalars)
