from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.hardware.network import path_oversubscription, switch_tiers


# NVIDIA DGX SuperPOD reference architectures: DGX H100 on 64-port NDR has two tiers to 2048 GPUs, three from 4096 on;
# DGX A100 of 140 nodes on 40-port HDR three; 1296 nodes of eight 800G cards on 144-port XDR two.
@pytest.mark.parametrize(
    ("nodes", "radix", "tiers"), [(64, 64, 2), (256, 64, 2), (512, 64, 3), (2048, 64, 3), (140, 40, 3), (1296, 144, 2)]
)
def test_superpod_tiers(nodes: int, radix: int, tiers: int) -> None:
    assert switch_tiers(nodes, 8, radix) == tiers


def test_one_rail_switch_needs_rails() -> None:
    assert switch_tiers(32, 8, 64) == 1
    assert switch_tiers(32, 8, 64, rails=False) == 2


@given(st.integers(1, 5000), st.integers(1, 32), st.sampled_from([32, 40, 64, 128, 144]))
def test_tiers_never_fall_with_size(nodes: int, nics: int, radix: int) -> None:
    assert switch_tiers(nodes, nics, radix) <= switch_tiers(nodes + 1, nics, radix)


def test_ratios_multiply_and_only_below_the_top() -> None:
    ratios = {"leaf": 2.0, "spine": 3.0}
    assert [path_oversubscription(ratios, tiers) for tiers in (1, 2, 3)] == [1.0, 2.0, 6.0]
    # Meta's 24k-GPU cluster: 1:2 at the first tier, 7:1 above: what is spared below counts
    assert path_oversubscription({"leaf": 0.5, "spine": 7.0}, 3) == 3.5
    assert path_oversubscription({"leaf": 0.5}, 2) == 1.0
