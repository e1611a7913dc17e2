import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.chunk import solve_chunk

TIME = st.floats(0.0, 10.0)


def block(device, extra, host):
    columns = len(COLUMNS)
    return BlockTimes(
        np.full(columns, device),
        np.full(columns, device + extra),
        np.full(columns, host),
        np.zeros(4),
        np.zeros((4, 2)),
    )


@given(st.lists(st.tuples(TIME, TIME, TIME), min_size=1, max_size=12))
def test_equals_the_two_clock_recurrence(blocks):
    device_free = host_free = 0.0
    for device, extra, host in blocks:
        device_free = max(device_free + device, host_free + device + extra)
        host_free += host
    times = solve_chunk([block(*one) for one in blocks])
    np.testing.assert_allclose(times.duration, device_free, rtol=1e-12, atol=1e-12)
    assert (np.diff(times.ends[:, 0]) >= -1e-12).all()


def test_a_fast_host_hides_behind_the_device():
    times = solve_chunk([block(5.0, 0.1, 1.0)] * 3)
    assert np.isclose(times.duration[0], 15.1)


def test_a_slow_host_sets_the_pace():
    times = solve_chunk([block(1.0, 2.0, 3.0)] * 4)
    assert np.isclose(times.duration[0], 3 * 3.0 + 3.0)
