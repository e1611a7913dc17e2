"""What the allocator and the communicators add."""

from __future__ import annotations

import numpy as np

from simcluster.memory.allocator import MemoryPriors, communicator_bytes, segment_slack_bytes


def test_segments_are_rounded_only_when_they_are_their_own() -> None:
    sizes = np.array([1.0, 10.0, 10.5, 12.0, 13.0]) * 2**20
    assert (segment_slack_bytes(sizes) / 2**20).tolist() == [0, 0, 1.5, 0, 1]


def test_each_axis_of_more_than_one_rank_has_its_communicators() -> None:
    counted = communicator_bytes((np.array([1, 8]), 1, 2), MemoryPriors(nccl_group_bytes=10.0))
    assert counted.tolist() == [10, 20]
