"""Activations of layers of experts: the worked layer of DeepSeek-V3, Mixtral, and how tokens spread over ranks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.memory.experts import expert_activations, routed_tokens
from simcluster.memory.precision import Widths
from simcluster.shapes import Architecture

V3 = Architecture(
    "deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048,
)  # fmt: skip
MIXTRAL = Architecture("mixtral", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
MB = 1e6


def test_worked_layer_of_deepseek_v3() -> None:
    parts = expert_activations(V3, 4096)
    assert parts.pop("moe.input") == 2 * 4096 * 7168
    assert sum(parts.values()) / MB == pytest.approx(1396.97, abs=0.01)
    assert parts["moe.router"] / MB == pytest.approx(4.456, abs=1e-3)
    assert parts["moe.dispatched"] == parts["moe.output"] == 2 * 8 * 4096 * 7168
    assert (parts["moe.up"] + parts["moe.activation"]) / MB == pytest.approx(402.7, abs=0.05)
    assert (parts["moe.shared_up"] + parts["moe.shared_activation"]) / MB == pytest.approx(50.3, abs=0.05)


def test_a_token_with_all_experts_costs_as_many_mlps() -> None:
    parts = expert_activations(MIXTRAL, 4096)
    assert parts["moe.up"] + parts["moe.activation"] == 2 * 6 * 4096 * 14336
    assert not any("shared" in name for name in parts)


@given(st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_tokens_are_neither_lost_nor_doubled(tp: int, etp: int, parallel: bool) -> None:
    """Over a tensor-parallel group each token's copies count once for every rank that an expert is cut over."""
    etp = min(etp, tp)
    routed = routed_tokens(4096, tp, etp, sequence_parallel=parallel)
    assert routed * tp == (4096 if parallel else 4096 * tp / etp)
    parts = expert_activations(MIXTRAL, 4096, tp, etp, sequence_parallel=parallel)
    assert parts["moe.dispatched"] == 2 * 2 * routed * etp * 4096
    assert parts["moe.activation"] == 2 * 2 * routed * 14336


def test_whatever_is_dispatched_grows_with_the_imbalance() -> None:
    even, busy = (expert_activations(V3, 512, imbalance=factor) for factor in (1.0, 1.5))
    grown = {name for name in even if busy[name] == 1.5 * even[name]}
    assert grown == {"moe.dispatched", "moe.up", "moe.activation", "moe.output"}
    assert all(busy[name] == even[name] for name in set(even) - grown)


def test_options() -> None:
    plain = expert_activations(replace(MIXTRAL, gated_ffn=False), 512)
    assert plain["moe.up"] == plain["moe.activation"]
    unfused = expert_activations(MIXTRAL, 512, fused_activation=False)
    assert unfused["moe.activated_gate"] == unfused["moe.activation"]
    low = expert_activations(MIXTRAL, 512, widths=Widths(inputs=1.0))
    assert low["moe.dispatched"] * 2 == unfused["moe.dispatched"]
    assert low["moe.output"] == unfused["moe.output"]


def test_arrays_equal_scalars() -> None:
    tp, etp = np.array([1, 4, 8]), np.array([1, 1, 8])
    arrays = expert_activations(V3, 4096, tp, etp, sequence_parallel=True)
    for index in range(3):
        one = expert_activations(V3, 4096, int(tp[index]), int(etp[index]), sequence_parallel=True)
        assert {name: np.broadcast_to(size, 3)[index] for name, size in arrays.items()} == one
