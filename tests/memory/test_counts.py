"""Counts of a rank by how they are sharded; over all ranks they make the model again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.memory.counts import further_kinds, held_kinds, rank_parameters
from simcluster.memory.setup import MemorySetup
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.shapes import Architecture
from simcluster.workload.layers import LayerKind
from simcluster.workload.parameters import count_parameters, layer_parameters, norm_parameters

V3 = Architecture(
    "deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048,
    dense_layers=3, router_bias=True, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128, mtp_depth=1,
)  # fmt: skip
MIXTRAL = Architecture("mixtral", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
MAVERICK = replace(MIXTRAL, layers=8, moe_every=2, shared_ffn=8192, shared_gate=True, mlp_bias=True)


def whole(arch: Architecture, **axes: int) -> float:
    counts = rank_parameters(arch, [ChunkContents(arch.layers, True, True)], MemorySetup(vocab_multiple=1, **axes))
    return counts.dense + counts.experts


def test_published_models_on_one_rank() -> None:
    assert whole(MIXTRAL) == 46702792704
    assert whole(replace(V3, mtp_depth=0)) == 671026419200
    assert whole(V3) == 671026419200 + count_parameters(V3).mtp


@pytest.mark.parametrize("arch", [V3, MIXTRAL, MAVERICK])
@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]))
def test_expert_ranks_hold_the_model_once(arch: Architecture, ep: int, etp: int) -> None:
    """ep x etp ranks, each with its cut of its experts; a bias of an expert's output is on every rank of etp."""
    chunks = [ChunkContents(arch.layers, True, True)]
    counts = rank_parameters(arch, chunks, MemorySetup(dp=ep * etp, ep=ep, etp=etp, vocab_multiple=1))
    total = count_parameters(arch)
    layers = [layer_parameters(arch, "moe")] if arch.experts else []
    one = layers[0].expert_in + layers[0].expert_out + layers[0].expert_biases
    moe_layers = sum(kind.mlp == "moe" for kind in _kinds(arch))
    copied = (etp - 1) * moe_layers * arch.experts * arch.mlp_bias * arch.hidden
    assert ep * etp * counts.experts == moe_layers * arch.experts * one + copied
    assert counts.dense == total.total + total.mtp - moe_layers * arch.experts * one


def _kinds(arch: Architecture) -> list[LayerKind]:
    held = [kind for i in range(arch.layers) for kind in held_kinds(arch, [ChunkContents(1, first=i)])]
    return [*held, *further_kinds(arch, [ChunkContents(0, head=True)])]


@pytest.mark.parametrize("tp", [2, 8])
def test_latent_attention_over_tensor_ranks(tp: int) -> None:
    """tp ranks, less the copies of what each holds: down projections, latents' norms, router, norms."""
    arch = replace(V3, mtp_depth=0, dense_layers=0, layers=2)
    down = 7168 * (1536 + 512 + 64)
    copies = 2 * (down + 1536 + 512 + 2 * 7168 + 7168 * 256 + 256) + norm_parameters(arch)
    counts = rank_parameters(arch, [ChunkContents(2, True, True)], MemorySetup(tp=tp, etp=tp))
    padded = -(-129280 // (128 * tp)) * 128 * tp
    assert tp * (counts.dense + counts.experts) - (tp - 1) * copies == count_parameters(arch, padded).total


@pytest.mark.parametrize(("pp", "virtual"), [(4, 1), (8, 2)])
def test_stages_hold_the_model_and_one_more_table(pp: int, virtual: int) -> None:
    setup = MemorySetup(pp=pp, ep=8, dp=8, vocab_multiple=1)
    stages = [rank_parameters(V3, chunks, setup) for chunks in stage_contents(61, pp, virtual)]
    held = sum(one.dense + 8 * one.experts for one in stages)
    table = 129280 * 7168  # the prediction of further tokens embeds them on the last stage
    assert held == count_parameters(V3).total + count_parameters(V3).mtp + table


def test_linear_weights_are_those_of_layers() -> None:
    counts = rank_parameters(MIXTRAL, [ChunkContents(32, True, True)], MemorySetup())
    norms = (2 * 32 + 1) * 4096
    assert counts.linear == counts.dense + counts.experts - 2 * 32000 * 4096 - norms


def test_kinds_of_a_stage() -> None:
    dense, moe = LayerKind("dense"), LayerKind("moe")
    assert held_kinds(V3, [ChunkContents(3)]) == (dense,)
    assert held_kinds(V3, [ChunkContents(2), ChunkContents(2, first=30)]) == (dense, moe)
    assert held_kinds(V3, [ChunkContents(0, head=True)]) == (moe,)
    assert further_kinds(V3, [ChunkContents(4)]) == ()
