"""Orders against the strings of the papers' schedules; in-flight peaks against the closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.schedules import (
    breadth_first,
    dualpipe,
    gpipe,
    interleaved,
    one_f_one_b,
    stage_orders,
    zb_h1,
    zb_h2,
)
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


ZB_H1_STAGE_1 = "F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7"


def test_zero_bubble_strings():
    """Regression strings for 4 stages and 8 micro-batches (Qi et al. 2024)."""
    assert zb_h1.order(4, 8, 1).text() == ZB_H1_STAGE_1
    letters = ["".join(word[0] for word in order.text().split()) for order in zb_h2.orders(4, 8)]
    assert (letters[0], letters[3]) == ("FFFFFFFBWBFBWBWBWBWBWWBW", "FBFBFBFBFBFBFBWFBWWWWWWW")


def test_a_later_stage_of_1f1b():
    assert one_f_one_b.order(4, 8, 2).text() == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7"


def _dualpipe_by_phases(pp, m, stage):
    """The eight phases as they are written down, for one device; numbers are counted by kind and direction."""
    q, half = min(stage, pp - 1 - stage), pp // 2
    middle, near = q == half - 1, int(stage >= half)
    plan = ["F0"] * (2 * (half - q - 1)) + ["F0", "F1"] * (q + 1) + ["b1", "W", "F1"] * (half - q - 1)
    for index in range(m // 2 - pp + q + 1):
        plan += ["F0", "B1"] if middle and index == 0 else ["F0&B1"]
        plan += ["F1&B0"]
    plan += ["B1", "F1&B0"] * (half - q - 1)
    drain = ["B1", "B0"] * (q + 1)
    plan += drain[: q + 1] + [word.lower() for word in drain[q + 1 :]]
    plan += ["W", "b0"] * (half - q - 1) + ["W"] * (q + 1)
    counts, waiting = {}, []

    def one(word):
        if word == "W":
            return f"W{waiting.pop(0)}"
        kind, direction = word[0].upper(), int(word[1]) ^ near
        number = counts.get((kind, direction), 0)
        counts[kind, direction] = number + 1
        micro = direction * (m // 2) + number
        if word[0] == "b":
            waiting.append(micro)
        return f"{kind}{micro}"

    return " ".join("&".join(one(part) for part in word.split("&")) for word in plan)


@pytest.mark.parametrize(("pp", "m"), [(2, 4), (4, 8), (4, 12), (8, 16), (8, 20)])
def test_dualpipe_follows_the_published_phases(pp, m):
    for stage in range(pp):
        assert dualpipe.order(pp, m, stage).text() == _dualpipe_by_phases(pp, m, stage)


@given(st.integers(1, 6), st.integers(0, 5))
def test_dualpipe_keeps_one_set_more_than_stages(half, more):
    pp = 2 * half
    m = 2 * pp + 2 * more
    assert [peak_in_flight(dualpipe.order(pp, m, stage)) for stage in range(pp)] == [pp + 1] * pp


@given(st.integers(1, 8), st.integers(1, 20))
def test_zero_bubble_peaks(pp, m):
    """ZB-H1 holds no more than the first stage of 1F1B, ZB-H2 no more than 2 p - 1."""
    for stage in range(pp):
        assert peak_in_flight(zb_h1.order(pp, m, stage)) <= min(m, pp)
    assert max(peak_in_flight(zb_h1.order(pp, m, stage)) for stage in range(pp)) == min(m, pp)
    assert max(peak_in_flight(order) for order in zb_h2.orders(pp, m)) == min(m, 2 * pp - 1)


@given(st.integers(1, 9), st.integers(1, 4))
def test_breadth_first_keeps_all(m, v):
    assert peak_in_flight(breadth_first.order(m, v)) == m * v


@pytest.mark.parametrize("schedule", ["none", "gpipe", "1f1b", "breadth-first", "zb-h1", "zb-h2", "dualpipe"])
@given(half=st.integers(1, 4), more=st.integers(0, 6))
def test_nothing_is_left_in_flight_and_a_second_step_holds_no_more(schedule, half, more):
    """Each forward's activations go with its last gradient, so peaks do not depend on the number of steps."""
    pp = 2 * half
    m = 2 * pp + 2 * more
    gain = np.array([1, -1, -1, 0])  # forward, whole backward, weight gradients, input gradients
    for order in stage_orders(schedule, pp, m, 2 if schedule == "breadth-first" else 1):
        held = np.cumsum(gain[order.kind])
        assert held[-1] == 0
        assert held.min() >= 0
        assert np.cumsum(gain[np.tile(order.kind, 2)]).max() == held.max() == peak_in_flight(order)
