"""Orders against the strings of the papers' schedules; in-flight peaks against the closed forms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.schedules import dualpipe, gpipe, interleaved, one_f_one_b, stage_orders, zb_h1, zb_h2
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT, Order, peak_in_flight

INTERLEAVED_STAGE_3 = (
    "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 "
    "F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0"
)


def test_1f1b_stage_0():
    assert one_f_one_b.order(4, 8, 0).text() == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7"


def test_1f1b_stage_2():
    assert one_f_one_b.order(4, 8, 2).text() == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7"


def test_zb_h1_stage_1():
    expected = "F0 F1 F2 B0 F3 B1 W0 F4 B2 W1 F5 B3 W2 F6 B4 W3 F7 B5 W4 B6 W5 B7 W6 W7"
    assert zb_h1.order(4, 8, 1).text() == expected


@pytest.mark.parametrize(("stage", "kinds"), [(0, "FFFFFFFBWBFBWBWBWBWBWWBW"), (3, "FBFBFBFBFBFBFBWFBWWWWWWW")])
def test_zb_h2(stage, kinds):
    assert "".join(word[0] for word in zb_h2.order(4, 8, stage).text().split()) == kinds


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


def phases(stage: int, pp: int, m: int) -> list[tuple[str, int]]:
    """The eight phases of DualPipe as its authors list them: (letters, direction seen from the nearer end).

    F, B a forward and a whole backward, b input gradients alone, w weight gradients, P the forward of a pair.
    """
    near = min(stage, pp - 1 - stage)
    half = pp // 2
    ops = [("F", 0)] * 2 * (half - near - 1)
    ops += [("F", 0), ("F", 1)] * (near + 1)
    ops += [("b", 1), ("w", 1), ("F", 1)] * (half - near - 1)
    steady = [("P", 0), ("B", 1), ("P", 1), ("B", 0)] * (m // 2 - pp + near + 1)
    if near == half - 1:
        steady[0] = ("F", 0)
    ops += steady
    ops += [("B", 1), ("P", 1), ("B", 0)] * (half - near - 1)
    last = [("B", number % 2 == 0) for number in range(2 * (near + 1))]
    ops += [("B" if number < near + 1 else "b", int(one)) for number, (_, one) in enumerate(last)]
    return ops + [("w", -1), ("b", 0)] * (half - near - 1) + [("w", -1)] * (near + 1)


@pytest.mark.parametrize(("pp", "m"), [(2, 4), (4, 8), (4, 14), (6, 12), (8, 20)])
def test_dualpipe_has_the_phases_of_its_authors(pp, m):
    """Weight gradients are taken in the order in which they were put off."""
    for stage in range(pp):
        order = dualpipe.order(pp, m, stage)
        pairs = set(order.pairs.tolist())
        letters = "FBwb"
        flipped = int(stage >= pp // 2)
        found = [
            ("P" if place in pairs else letters[kind], int(chunk) ^ flipped)
            for place, (kind, chunk) in enumerate(zip(order.kind, order.chunk))
        ]
        expected = phases(stage, pp, m)
        assert [letter for letter, _ in found] == [letter for letter, _ in expected]
        assert all(way == wanted for (_, way), (_, wanted) in zip(found, expected) if wanted >= 0)
        put_off = [(m_, c) for k, m_, c in zip(order.kind, order.micro, order.chunk) if k == INPUT]
        assert [(m_, c) for k, m_, c in zip(order.kind, order.micro, order.chunk) if k == WEIGHT] == put_off


@pytest.mark.parametrize(("pp", "m"), [(3, 8), (4, 6), (4, 9)])
def test_dualpipe_does_not_exist_for_all_sizes(pp, m):
    assert not dualpipe.fits(pp, m)
    with pytest.raises(ValueError, match="dualpipe needs"):
        dualpipe.order(pp, m, 0)


@pytest.mark.parametrize(
    ("schedule", "pp", "m", "peaks"),
    [
        ("1f1b", 4, 8, [4, 3, 2, 1]),
        ("zb-h1", 4, 8, [4, 4, 4, 4]),
        ("zb-h2", 4, 8, [7, 7, 7, 7]),
        ("dualpipe", 8, 20, [9] * 8),
        ("breadth-first", 4, 8, [8] * 4),
    ],
)
def test_in_flight(schedule, pp, m, peaks):
    assert [peak_in_flight(order) for order in stage_orders(schedule, pp, m)] == peaks


SCHEDULES = ("gpipe", "1f1b", "none", "breadth-first", "zb-h1", "zb-h2", "dualpipe")


@st.composite
def orders(draw) -> tuple[int, int, tuple[Order, ...]]:
    """Micro-batches, chunks of a stage, and the orders of all stages."""
    schedule, pp, m = draw(st.sampled_from(SCHEDULES)), draw(st.integers(1, 7)), draw(st.integers(1, 12))
    if schedule == "dualpipe" and pp > 1:
        pp = pp // 2 * 2
        return 2 * pp + m // 2 * 2, 2, stage_orders(schedule, pp, 2 * pp + m // 2 * 2)
    chunks = draw(st.integers(1, 3)) if schedule == "breadth-first" or (schedule == "1f1b" and pp > 1) else 1
    return m, chunks, stage_orders(schedule, pp, m, chunks, draw(st.none() | st.integers(1, m)))


@given(orders())
def test_every_operation_runs_once_and_in_turn(case):
    """A forward, then a whole backward, or input and then weight gradients; in the end nothing is in flight."""
    m, chunks, found = case
    for order in found:
        place = {op: index for index, op in enumerate(zip(order.kind, order.micro, order.chunk))}
        assert len(place) == len(order)
        held = {(micro, chunk) for _, micro, chunk in place}
        assert len(held) == (m if order.pairs.size else m * chunks)
        for one in held:
            keys = [(kind, *one) for kind in (FORWARD, BACKWARD, INPUT, WEIGHT)]
            run = [place[key] for key in keys if key in place]
            assert len(run) == (2 if keys[1] in place else 3)
            assert run == sorted(run)
        assert np.array([1, -1, -1, 0])[order.kind].sum() == 0
        assert (order.kind[order.pairs] == FORWARD).all()
        assert np.isin(order.kind[order.pairs + 1], (BACKWARD, INPUT)).all()
