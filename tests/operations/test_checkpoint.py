"""Bytes and seconds of checkpoints."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations import checkpoint
from simcluster.operations.checkpoint import SavePath, asynchronous_save, checkpoint_bytes, synchronous_save

RATES = st.floats(1e6, 1e12)


def test_a_175b_model():
    """Published: 350 GB of weights; 14 bytes a parameter for the full state."""
    assert checkpoint_bytes(175e9) == 2.45e12
    assert checkpoint_bytes(175e9, optimizer_bytes=0.0) == 350e9


def test_bloom_published_sizes():
    """BLOOM 176B: 329 GB of bf16 weights and 2.3 TB with optimizer states (GiB and TiB by their figures)."""
    assert checkpoint_bytes(176.247e9, optimizer_bytes=0.0) / 2**30 == pytest.approx(329, rel=0.005)
    assert checkpoint_bytes(176.247e9) / 2**40 == pytest.approx(2.3, rel=0.03)


def test_worked_times():
    path = SavePath(512, 64, copy_bytes_per_s=25e9, storage_bytes_per_s=100e9)
    assert asynchronous_save(2.45e12, path).blocking_s == pytest.approx(0.191, abs=5e-4)
    assert asynchronous_save(2.45e12, path).flush_s == pytest.approx(24.5)
    slow = SavePath(512, 64, copy_bytes_per_s=25e9, storage_bytes_per_s=12e9)
    assert synchronous_save(2.45e12, slow).blocking_s == pytest.approx(204, abs=0.2)


@pytest.mark.parametrize(
    ("changed", "seconds"),
    [
        ({}, 10.0),
        ({"storage_bytes_per_s": 5.0}, 20.0),
        ({"nic_bytes_per_s": 1.0}, 50.0),
        ({"copy_bytes_per_s": 0.25}, 100.0),
        ({"serialise_bytes_per_s": 0.5, "copy_bytes_per_s": 1.0}, 75.0),
        ({"barrier_s": 3.0}, 13.0),
    ],
)
def test_the_slowest_part_of_the_way_sets_the_time(changed, seconds):
    path = {"copy_bytes_per_s": 100.0, "storage_bytes_per_s": 10.0, **changed}
    assert synchronous_save(100.0, SavePath(4, 2, **path)).blocking_s == pytest.approx(seconds)


@given(RATES, RATES, RATES, RATES, st.floats(0, 10))
def test_asynchronous_checkpoints_block_less_and_hide_nothing(copy, serialise, storage, nic, barrier):
    path = SavePath(64, 8, copy, storage, nic, serialise, barrier)
    apart, together = asynchronous_save(1e12, path), synchronous_save(1e12, path)
    assert apart.blocking_s <= together.blocking_s
    assert apart.blocking_s + apart.flush_s >= together.blocking_s * (1 - 1e-12)
    assert together.flush_s == 0


def test_times_broadcast():
    path = SavePath(np.array([64, 512]), np.array([8, 64]), 25e9, 1e15, 10e9)
    assert synchronous_save(1e12, path).blocking_s == pytest.approx([12.5, 1.5625])


def test_restart_grows_with_ranks_between_half_a_minute_and_five():
    assert checkpoint.restart_s(8, 0.0) == pytest.approx(30, rel=0.01)
    assert checkpoint.restart_s(16384, 0.0) == pytest.approx(300, rel=0.01)
    assert checkpoint.restart_s(8, 10.0, scheduler_s=5, warm_up_s=7) == pytest.approx(checkpoint.restart_s(8, 0.0) + 22)


def test_loading_is_bound_by_storage_or_the_nodes():
    assert checkpoint.load_s(1e12, 100e9) == 10
    assert checkpoint.load_s(1e12, 100e9, nodes=2, nic_bytes_per_s=25e9) == 20
