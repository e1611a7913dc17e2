"""Saved activations of stages with layers of several kinds and with multi-token prediction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.memory.live import layer_memory, layers_in_flight, saved_activations, transient_bytes
from simcluster.memory.setup import MemorySetup
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.layers import LayerKind

SOFTWARE = SoftwareFamily("mine", fused_cross_entropy=False)
DEEPSEEK = Architecture(
    "deepseek", 12, 2048, 16, 16, 192, 10944, 102400, experts=64, top_k=6, expert_ffn=1408, shared_ffn=2816,
    dense_layers=1, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128,
)  # fmt: skip
DENSE, MOE = LayerKind("dense"), LayerKind("moe")


def saved(arch: Architecture, chunks: list[ChunkContents], stage: int, setup: MemorySetup) -> dict:
    return saved_activations(arch, chunks, stage, setup, SOFTWARE)


def test_layers_count_by_kind_and_chunk() -> None:
    contents = stage_contents(12, 2, 2)
    assert layers_in_flight(DEEPSEEK, contents[0], [3.0, 2.0]) == {DENSE: 3.0, MOE: 3.0 * 2 + 2.0 * 3}
    assert layers_in_flight(DEEPSEEK, contents[1], [3.0, 2.0]) == {MOE: 15.0}


def test_a_stage_is_the_sum_of_its_layers() -> None:
    setup = MemorySetup(pp=2, micro_batches=8)
    layers = {kind: sum(layer_memory(DEEPSEEK, setup, SOFTWARE, kind).saved.values()) for kind in (DENSE, MOE)}
    stage = saved(DEEPSEEK, [ChunkContents(6)], 0, setup)
    assert sum(stage.values()) == pytest.approx(2 * (layers[DENSE] + 5 * layers[MOE]), rel=1e-14)
    assert layers[MOE] != layers[DENSE]


def test_full_recompute_keeps_one_input_whatever_the_kind() -> None:
    setup = MemorySetup(recompute="full")
    kept = [sum(layer_memory(DEEPSEEK, setup, SOFTWARE, kind).saved.values()) for kind in (DENSE, MOE)]
    assert kept == [2 * 2048 * 2048] * 2


def test_the_larger_kind_is_rebuilt() -> None:
    setup = MemorySetup(pp=2, recompute="full")
    mixed = transient_bytes(DEEPSEEK, [ChunkContents(2)], setup, SOFTWARE)
    rebuilt = {kind: layer_memory(DEEPSEEK, setup, SOFTWARE, kind).rebuilt for kind in (DENSE, MOE)}
    assert mixed["recompute"] == max(rebuilt.values())


def test_further_tokens_add_a_layer_a_loss_and_their_inputs() -> None:
    setup, head = MemorySetup(pp=2, micro_batches=4), [ChunkContents(6, head=True, first=6)]
    plain, more = (saved(replace(DEEPSEEK, mtp_depth=depth), head, 1, setup) for depth in (0, 1))
    stream = 2 * 2048 * 2048
    layer = sum(layer_memory(DEEPSEEK, setup, SOFTWARE, MOE).saved.values())
    loss = 4 * 2048 * 102400
    inputs = 2 * stream + 4 * stream  # final norm and head; two norms and the joined projection
    assert sum(more.values()) - sum(plain.values()) == pytest.approx(layer + loss + inputs, rel=1e-14)
    elsewhere = (saved(replace(DEEPSEEK, mtp_depth=depth), [ChunkContents(6)], 0, setup) for depth in (0, 1))
    assert next(elsewhere) == next(elsewhere)


def test_context_ranks_share_the_tokens() -> None:
    one, four = (
        sum(saved(DEEPSEEK, [ChunkContents(12, True, True)], 0, MemorySetup(cp=cp, sequence=8192)).values())
        for cp in (1, 4)
    )
    assert one == pytest.approx(4 * four, rel=1e-14)
    assert "context_exchange" in transient_bytes(DEEPSEEK, [ChunkContents(2)], MemorySetup(cp=4), SOFTWARE)
