"""Derived ranks of a layout."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.memory.setup import MemorySetup


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({"dp": 64, "ep": 8}, 8),
        ({"tp": 4, "dp": 16, "ep": 8, "etp": 1}, 8),
        ({"tp": 4, "dp": 16, "ep": 8, "etp": 4}, 2),
        ({"dp": 8, "cp": 2, "ep": 16}, 1),
        ({"tp": 2, "dp": 8}, 16),  # experts that tensor ranks hold whole are held by all of them
        ({"dp": 64, "ep": 8, "shard_ranks": 4}, 4),
        ({"dp": 64, "ep": 8, "expert_shard_ranks": 2}, 2),
    ],
)
def test_ranks_that_share_one_set_of_experts(axes: dict, expected: int) -> None:
    assert MemorySetup(**axes).expert_shards == expected


def test_arrays() -> None:
    setup = MemorySetup(dp=np.array([8, 64]), ep=np.array([8, 8]))
    assert setup.expert_shards.tolist() == [1, 8]
    assert setup.shards.tolist() == [8, 64]
