"""Orders against the strings of the papers' schedules; in-flight peaks against the closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.schedules import gpipe, interleaved, one_f_one_b, stage_orders
from simcluster.parallel.schedules.order import peak_in_flight

INTERLEAVED_STAGE_3 = (
    "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 "
    "F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0"
)


def test_1f1b_stage_0():
    assert one_f_one_b.order(4, 8, 0).text() == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"


def test_interleaved_stage_3():
    assert interleaved.order(4, 8, 3, 2).text(chunks=True) == INTERLEAVED_STAGE_3


def test_interleaved_stage_0_has_ten_warm_up_forwards():
    order = interleaved.order(4, 8, 0, 2)
    assert int(np.argmax(order.kind == 1)) == 11  # ten of warm-up and the first of the steady pairs


@pytest.mark.parametrize(("stage", "peak"), [(0, 11), (1, 9), (2, 7), (3, 5)])
def test_interleaved_in_flight(stage, peak):
    assert peak_in_flight(interleaved.order(4, 8, stage, 2)) == peak


def test_gpipe_keeps_every_micro_batch():
    assert peak_in_flight(gpipe.order(4, 8, 1)) == 8


@given(st.sampled_from(["gpipe", "1f1b", "none"]), st.integers(1, 7), st.integers(1, 12), st.integers(1, 3), st.data())
def test_every_chunk_runs_once_forward_before_backward(schedule, pp, micro_batches, virtual_stages, data):
    if schedule != "1f1b" or pp == 1:
        virtual_stages = 1
    group = data.draw(st.none() | st.integers(1, micro_batches))
    for order in stage_orders(schedule, pp, micro_batches, virtual_stages, group):
        seen = list(zip(order.kind, order.micro, order.chunk))
        assert len(set(seen)) == len(seen) == 2 * micro_batches * virtual_stages
        place = {op: index for index, op in enumerate(seen)}
        assert all(place[0, m, c] < place[1, m, c] for m in range(micro_batches) for c in range(virtual_stages))
