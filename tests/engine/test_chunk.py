import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.chunk import NEVER, WireTimes, solve_chunk
from simcluster.program.chunk import ChunkShape
from simcluster.program.pricing import CLASSES

TIME = st.floats(0.0, 10.0)


def block(device, extra, host):
    columns, classes = len(COLUMNS), len(CLASSES)
    times = (np.full(columns, value) for value in (device, device + extra, host))
    return BlockTimes(*times, np.zeros(classes), np.zeros((classes, 2)))


def plain(blocks):
    return solve_chunk(blocks, ChunkShape(len(blocks)), WireTimes.none(len(blocks)))


def sharded(units, compute, gather=0.0, scatter=0.0, replica=0.0, ahead=1):
    shape = ChunkShape(units, gather > 0, scatter > 0, replica > 0, ahead)
    traffic = WireTimes(*(np.full(units, value) for value in (gather, scatter, replica)))
    return solve_chunk([block(compute, 0.0, 0.0)] * units, shape, traffic)


@given(st.lists(st.tuples(TIME, TIME, TIME), min_size=1, max_size=12))
def test_equals_the_two_clock_recurrence(blocks):
    device_free = host_free = 0.0
    for device, extra, host in blocks:
        device_free = max(device_free + device, host_free + device + extra)
        host_free += host
    times = plain([block(*one) for one in blocks])
    np.testing.assert_allclose(times.duration, device_free, rtol=1e-12, atol=1e-12)
    assert (np.diff(times.ends[:, 0]) >= -1e-12).all()


def test_a_fast_host_hides_behind_the_device():
    assert np.isclose(plain([block(5.0, 0.1, 1.0)] * 3).duration[0], 15.1)


def test_a_slow_host_sets_the_pace():
    assert np.isclose(plain([block(1.0, 2.0, 3.0)] * 4).duration[0], 3 * 3.0 + 3.0)


@pytest.mark.parametrize(("gather", "expected"), [(4.0, 4 + 100), (7.0, 20 * 7 + 5)])
def test_gathers_run_one_unit_ahead_in_forward(gather, expected):
    """forward = g + max(f, g)(L - 1) + f with f = 5, L = 20."""
    assert sharded(20, 5.0, gather).duration[0] == pytest.approx(expected)


@pytest.mark.parametrize(("scatter", "end"), [(6.0, 206.0), (12.0, 10 + 20 * 12)])
def test_reductions_queue_behind_the_backward(scatter, end):
    """The last reduction ends at max(last block + r, first block + L r) with b = 10, L = 20."""
    times = sharded(20, 10.0, scatter=scatter)
    assert times.duration[0] == pytest.approx(200.0)
    assert times.wire[0] == pytest.approx(end)


def test_gathers_and_reductions_share_one_wire():
    """b + (L - 1) max(b, g + r): a unit's gather and another's reduction follow each other."""
    both = sharded(20, 10.0, gather=6.0, scatter=8.0)
    assert both.duration[0] == pytest.approx(6 + 10 + 19 * 14, rel=0.05)
    assert both.duration[0] > sharded(20, 10.0, gather=6.0).duration[0]


def test_traffic_is_only_in_the_first_column():
    times = sharded(4, 5.0, gather=7.0, scatter=1.0)
    assert (times.duration[1:] == 20.0).all()
    assert times.duration[0] > 20.0
    assert (times.wire[1:] <= times.duration[1:]).all()


def test_a_busy_wire_delays_gathers():
    """Free only at time w, the wire gives its first unit at w + g."""
    times = sharded(4, 5.0, gather=1.0)
    assert times.compute_after[0] == pytest.approx(1 + 4 * 5)
    assert times.wire_after[0] == pytest.approx(1 + 1 + 5 + 5 + 0, abs=6)


def test_without_traffic_the_wire_never_binds():
    assert (plain([block(1.0, 0.0, 0.0)]).compute_after == NEVER).all()


def test_no_gathering_ahead_exposes_every_gather():
    assert sharded(10, 5.0, gather=2.0, ahead=0).duration[0] == pytest.approx(10 * 7)


def test_replica_sums_follow_their_shard_sums():
    times = sharded(5, 10.0, scatter=2.0, replica=9.0)
    assert times.wire[0] == pytest.approx(10 * 5 + 2)
    assert times.replica[0] == pytest.approx(10 * 5 + 2 + 9)
    assert times.replica_own[0] == pytest.approx(5 * 9)
