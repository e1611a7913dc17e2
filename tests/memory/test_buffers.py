"""What a running backward and its exchanges need."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.memory.buffers import (
    backward_working_bytes,
    context_bytes,
    exchange_buffers,
    weight_gradient_bytes,
)
from simcluster.memory.setup import MemorySetup
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.layers import LayerKind

LLAMA = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
MIXTRAL = replace(LLAMA, name="mixtral", experts=8, top_k=2, expert_ffn=14336)
EAGER = SoftwareFamily("eager", accumulate_in_gemm=False, grouped_gemm=True)


@pytest.mark.parametrize(
    ("context", "copies"), [("p2p", 4), ("all-gather", 2 * 4), ("all-to-all", 1 + 32 * 128 / (2 * 8 * 128))]
)
def test_context_exchange(context: str, copies: float) -> None:
    software = SoftwareFamily("mine", cp_communication=context)
    keys = 2 * 2 * 2048 * 8 * 128
    assert context_bytes(LLAMA, MemorySetup(cp=4, sequence=8192), software) == copies * keys
    assert context_bytes(LLAMA, MemorySetup(cp=1, sequence=8192), software) == 0
    assert context_bytes(LLAMA, MemorySetup(cp=np.array([1, 4]), sequence=8192), software)[1] == copies * keys


def test_working_set_of_dispatched_tokens() -> None:
    setup = MemorySetup()
    dense, sparse = (backward_working_bytes(MIXTRAL, setup, LayerKind(mlp)) for mlp in ("dense", "moe"))
    assert dense == 2 * 2048 * (4096 + 3 * 14336)
    assert sparse == 2 * 2048 * (4096 + 2 * (3 * 14336 + 4096))
    busy = backward_working_bytes(MIXTRAL, replace(setup, imbalance=2.0), LayerKind("moe"))
    assert busy == 2 * 2048 * (4096 + 4 * (3 * 14336 + 4096))


def test_temporary_gradient_of_experts() -> None:
    setup, moe = MemorySetup(dp=4, ep=4), LayerKind("moe")
    one = 2 * 4096 * 2 * 14336
    assert weight_gradient_bytes(MIXTRAL, setup, EAGER, moe) == 2 * one
    assert weight_gradient_bytes(MIXTRAL, setup, replace(EAGER, grouped_gemm=False), moe) == one
    assert weight_gradient_bytes(MIXTRAL, setup, replace(EAGER, accumulate_in_gemm=True), moe) == 0


def test_overlap_buffers_follow_the_models_kind() -> None:
    software = SoftwareFamily("mine", tp_overlap=True, tp_overlap_moe=False)
    dense, sparse = (exchange_buffers(a, MemorySetup(tp=2), software)["tensor_buffers"] for a in (LLAMA, MIXTRAL))
    assert dense == 5 * sparse
