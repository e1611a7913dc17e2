"""Buffers of sharded data parallelism, units of experts included."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.memory.counts import rank_parameters
from simcluster.memory.setup import MemorySetup
from simcluster.memory.units import sharding_buffers
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily

FSDP = SoftwareFamily("fsdp", parameter_storage="fp32", optimizer_state_bytes=8.0, overlap_param_gather=True)
MIXTRAL = Architecture("mixtral", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
LLAMA_70B = Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000)
DENSE = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 8 * 4096 + 2 * 4096  # attention, router, norms
EXPERT = 3 * 4096 * 14336


def buffers(arch: Architecture, setup: MemorySetup, software: SoftwareFamily = FSDP, layers: int = 0) -> dict:
    chunks = [ChunkContents(layers, first=0)] if layers else [ChunkContents(arch.layers, True, True)]
    return sharding_buffers(arch, chunks, rank_parameters(arch, chunks, setup), setup, software)


def test_experts_of_one_rank_alone_are_not_gathered() -> None:
    spread = buffers(MIXTRAL, MemorySetup(dp=8, ep=8, sharding="fsdp"), layers=4)
    assert spread["gathered_weights"] == 2 * 2 * DENSE
    assert spread["reduce_buffers"] == 4 * DENSE
    shared = buffers(MIXTRAL, MemorySetup(dp=16, ep=8, sharding="fsdp"), layers=4)
    assert shared["gathered_weights"] == 2 * 2 * (DENSE + EXPERT)
    whole = buffers(MIXTRAL, MemorySetup(dp=8, sharding="fsdp"), layers=4)
    assert whole["gathered_weights"] == 2 * 2 * (DENSE + 8 * EXPERT)


def test_units_ahead() -> None:
    setup = MemorySetup(dp=8, sharding="fsdp")
    two = buffers(LLAMA_70B, setup, layers=8)["gathered_weights"]
    one = buffers(LLAMA_70B, setup, replace(FSDP, overlap_param_gather=False), layers=8)["gathered_weights"]
    assert two == 2 * one


def test_the_largest_kind_of_layer_sets_the_unit() -> None:
    mixed = replace(MIXTRAL, dense_layers=2, ffn=1024)
    setup = MemorySetup(dp=8, sharding="fsdp")
    dense, both = (buffers(mixed, setup, layers=count)["reduce_buffers"] for count in (2, 3))
    assert dense == 4 * (DENSE - 8 * 4096 + 3 * 4096 * 1024)
    assert both == 4 * (DENSE + 8 * EXPERT)


def test_gathered_once_a_step_under_pipeline_parallelism() -> None:
    once = replace(FSDP, reshard_with_pp=False)
    setup = MemorySetup(dp=8, pp=4, micro_batches=8, sharding="fsdp")
    counts = rank_parameters(LLAMA_70B, [ChunkContents(20)], setup)
    held = buffers(LLAMA_70B, setup, once, layers=20)
    assert held == {"gathered_weights": 2 * counts.dense, "reduce_buffers": 4 * counts.dense}
    alone = buffers(LLAMA_70B, replace(setup, pp=1), once, layers=20)
    assert alone == buffers(LLAMA_70B, replace(setup, pp=1), FSDP, layers=20)


def test_weights_that_travel_in_low_precision() -> None:
    low = replace(FSDP, fp8_param_gather=True)
    wide, narrow = (buffers(LLAMA_70B, MemorySetup(dp=8, sharding="fsdp", precision="fp8"), s) for s in (FSDP, low))
    outer = 2 * (2 * 32000 * 8192 + 8192)
    assert narrow["gathered_weights"] - outer == (wide["gathered_weights"] - outer) / 2


def test_zero_3_lets_a_billion_parameters_live() -> None:
    few = buffers(MIXTRAL, MemorySetup(dp=64, ep=8, sharding="zero-3"), layers=1)
    assert few["gathered_weights"] == 2 * (DENSE + EXPERT)
    many = buffers(LLAMA_70B, MemorySetup(dp=64, sharding="zero-3"), layers=8)
    assert many["gathered_weights"] == 2 * 2 * 855654400  # two layers are more than a billion


def test_zero_2_keeps_all_gradients_that_are_reduced_once() -> None:
    late = replace(FSDP, reduce_every_micro_batch=False)
    setup = MemorySetup(dp=8, ep=8, micro_batches=4, sharding="zero-2")
    counts = rank_parameters(MIXTRAL, [ChunkContents(8)], setup)
    assert buffers(MIXTRAL, setup, late, layers=8)["reduce_buffers"] == 4 * counts.dense
    assert buffers(MIXTRAL, setup, FSDP, layers=8)["reduce_buffers"] == 2 * FSDP.bucket_bytes


@pytest.mark.parametrize("sharding", ["none", "zero-1"])
def test_strategies_without_buffers(sharding: str) -> None:
    assert buffers(LLAMA_70B, MemorySetup(dp=8, sharding=sharding)) == {}


@pytest.mark.parametrize("sharding", ["zero-2", "zero-3", "fsdp", "hsdp"])
def test_arrays_equal_scalars(sharding: str) -> None:
    dp, ep, pp, m = np.array([1, 8, 16]), np.array([1, 8, 2]), np.array([1, 1, 4]), np.array([1, 4, 8])
    software = replace(FSDP, reshard_with_pp=False)
    setup = MemorySetup(dp=dp, ep=ep, pp=pp, micro_batches=m, sharding=sharding)
    arrays = buffers(MIXTRAL, setup, software, layers=8)
    for i in range(3):
        one = replace(setup, dp=int(dp[i]), ep=int(ep[i]), pp=int(pp[i]), micro_batches=int(m[i]))
        for name, size in buffers(MIXTRAL, one, software, layers=8).items():
            assert isinstance(size, float)
            assert arrays[name][i] == size
