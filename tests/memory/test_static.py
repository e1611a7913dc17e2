"""Bytes per parameter against the published table of each scheme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.memory.static import (
    CONVENTIONS,
    STRATEGIES,
    StateBytes,
    bytes_per_parameter,
    family_states,
    static_bytes,
)
from simcluster.timing.software import SoftwareFamily

D = np.array([1.0, 2.0, 8.0, 64.0])


def per_parameter(convention: str, sharding: str, shard_ranks: object = 1) -> object:
    return sum(bytes_per_parameter(CONVENTIONS[convention], sharding, shard_ranks).values())


@pytest.mark.parametrize(
    ("convention", "sharding", "expected"),
    [
        ("zero-paper", "none", 16 + 0 * D),
        ("zero-paper", "zero-1", 4 + 12 / D),
        ("zero-paper", "zero-2", 2 + 14 / D),
        ("zero-paper", "zero-3", 16 / D),
        ("fp16", "none", 20 + 0 * D),
        ("fp16", "zero-1", 4 + 16 / D),
        ("fp16", "zero-2", 2 + 18 / D),  # DeepSpeed's ZeRO-2 estimator
        ("bf16", "none", 18 + 0 * D),
        ("bf16", "zero-1", 6 + 12 / D),
        ("fp32", "none", 16 + 0 * D),
        ("fp32", "zero-1", 8 + 8 / D),
        ("fp32", "fsdp", 16 / D),
        ("pure-bf16", "fsdp", 8 / D),
        ("adam-8bit", "none", 10 + 0 * D),
        ("muon", "none", 14 + 0 * D),
        ("bf16-moments", "none", 14 + 0 * D),
    ],
)
def test_bytes_per_parameter_by_scheme(convention: str, sharding: str, expected: object) -> None:
    np.testing.assert_array_equal(per_parameter(convention, sharding, D), expected)


@pytest.mark.parametrize(
    ("sharding", "gb"), [("none", 120), ("zero-1", 31.40625), ("zero-2", 16.640625), ("zero-3", 1.875)]
)
def test_zero_paper_example(sharding: str, gb: float) -> None:
    assert sum(static_bytes(7.5e9, CONVENTIONS["zero-paper"], sharding, 64).values()) / 1e9 == gb


@pytest.mark.parametrize(
    ("parameters", "d", "gb"),
    [(6738415616, 8, 50.54), (6738415616, 64, 41.69), (13015864320, 8, 97.62), (68976648192, 64, 426.8)],
)
def test_distributed_optimizer_examples(parameters: int, d: int, gb: float) -> None:
    assert sum(static_bytes(parameters, CONVENTIONS["bf16"], "zero-1", d).values()) / 1e9 == pytest.approx(gb, rel=1e-4)


@pytest.mark.parametrize(
    ("parameters", "d", "gb"), [(6738415616, 8, 13.48), (68976648192, 64, 17.24), (174604259328, 192, 14.55)]
)
def test_fully_sharded_examples(parameters: int, d: int, gb: float) -> None:
    assert sum(static_bytes(parameters, CONVENTIONS["fp32"], "fsdp", d).values()) / 1e9 == pytest.approx(gb, rel=4e-4)


@given(st.sampled_from(sorted(STRATEGIES)), st.sampled_from(sorted(CONVENTIONS)))
def test_one_shard_is_no_sharding(sharding: str, convention: str) -> None:
    assert per_parameter(convention, sharding, 1) == CONVENTIONS[convention].total


@given(st.sampled_from(sorted(STRATEGIES)), st.integers(1, 4096), st.integers(1, 4096))
def test_more_shards_never_need_more(sharding: str, d: int, more: int) -> None:
    assert per_parameter("bf16", sharding, d + more) <= per_parameter("bf16", sharding, d)


def test_family_chooses_the_convention() -> None:
    fsdp = SoftwareFamily("fsdp", parameter_storage="fp32", gradient_storage="fp32", optimizer_state_bytes=8)
    assert family_states(fsdp) == CONVENTIONS["fp32"]
    assert family_states(SoftwareFamily("megatron")) == CONVENTIONS["bf16"]
    half = SoftwareFamily("half", gradient_storage="bf16", optimizer_state_bytes=16)
    assert family_states(half, "fp8") == StateBytes(2, 2, 16)
    assert family_states(half, "fp32") == CONVENTIONS["fp32"]


def test_unknown_strategy_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"zero1.*did you mean 'zero-1'"):
        bytes_per_parameter(CONVENTIONS["bf16"], "zero1", 8)
