"""Peaks in flight against the table and against the replayed orders."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.memory.inflight import SCHEDULES, chunk_sets, head_sets, in_flight_sets
from simcluster.parallel.schedules import stage_orders
from simcluster.parallel.schedules.order import peak_in_flight


def replayed(schedule: str, pp: int, micro_batches: int, virtual: int = 1) -> list[int]:
    """Largest number of chunks that are open, by walking through each stage's order."""
    peaks = []
    for order in stage_orders(schedule, pp, micro_batches, virtual):
        open_sets = peak = 0
        for kind in order.kind:
            open_sets += 1 if kind == 0 else -1
            peak = max(peak, open_sets)
        peaks.append(peak)
    return peaks


@pytest.mark.parametrize(
    ("schedule", "pp", "m", "virtual", "chunks"),
    [
        ("1f1b", 4, 8, 1, [4, 3, 2, 1]),
        ("1f1b", 4, 8, 2, [11, 9, 7, 5]),
        ("gpipe", 4, 8, 1, [8, 8, 8, 8]),
        ("zb-h1", 4, 8, 1, [4, 4, 4, 4]),
        ("zb-h2", 4, 8, 1, [7, 7, 7, 7]),
        ("dualpipe", 8, 20, 1, [9] * 8),
        ("none", 1, 8, 1, [1]),
    ],
)
def test_table(schedule: str, pp: int, m: int, virtual: int, chunks: list[int]) -> None:
    assert [in_flight_sets(schedule, i, pp, m, virtual) * virtual for i in range(pp)] == chunks


@given(st.integers(1, 9), st.integers(1, 20))
def test_1f1b_equals_its_order(pp: int, m: int) -> None:
    assert [in_flight_sets("1f1b", i, pp, m) for i in range(pp)] == replayed("1f1b", pp, m)


@given(st.integers(2, 8), st.integers(1, 40), st.integers(2, 4))
def test_interleaved_equals_its_order(pp: int, m: int, virtual: int) -> None:
    peaks = [sum(chunk_sets("1f1b", i, pp, m, virtual)) for i in range(pp)]
    assert peaks == replayed("1f1b", pp, m, virtual)


@given(st.integers(2, 8), st.integers(1, 40), st.integers(2, 4), st.data())
def test_interleaved_composition_is_that_of_the_warm_up(pp: int, m: int, virtual: int, data: st.DataObject) -> None:
    stage = data.draw(st.integers(0, pp - 1))
    order = stage_orders("1f1b", pp, m, virtual)[stage]
    first_backward = int(np.argmax(order.kind == 1))
    counted = np.bincount(order.chunk[:first_backward], minlength=virtual)
    assert list(chunk_sets("1f1b", stage, pp, m, virtual)) == counted.tolist()


@given(st.integers(2, 32), st.integers(2, 6))
def test_first_stage_has_the_interleaving_penalty(pp: int, virtual: int) -> None:
    sets = in_flight_sets("1f1b", 0, pp, 10 * pp, virtual)
    assert sets == pytest.approx(pp * (1 + (pp - 1) / (pp * virtual)), rel=1e-14)


@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 16), st.integers(1, 32), st.integers(1, 3))
def test_never_more_than_there_are(schedule: str, pp: int, m: int, virtual: int) -> None:
    for stage in range(pp):
        sets = chunk_sets(schedule, stage, pp, m, virtual)
        assert all(0 <= count <= m for count in sets)
        assert sum(sets) > 0


def test_losses_in_flight() -> None:
    """All of them where every forward runs first."""
    forwards_first = ("gpipe", "breadth-first")
    assert {head_sets(name, 4, 8) for name in forwards_first} == {8}
    assert head_sets("1f1b-overlapped", 4, 8) == 2
    others = set(SCHEDULES) - {*forwards_first, "1f1b-overlapped"}
    assert {head_sets(name, 4, 8) for name in others} == {1}


@given(st.sampled_from(sorted(SCHEDULES)), st.integers(1, 3))
def test_arrays_equal_scalars(schedule: str, virtual: int) -> None:
    pp, m = np.array([2, 4, 8]), np.array([8, 16, 8])
    arrays = chunk_sets(schedule, 1, pp, m, virtual)
    for index in range(3):
        one = chunk_sets(schedule, 1, int(pp[index]), int(m[index]), virtual)
        assert [array[index] for array in arrays] == list(one)


def test_unknown_schedule_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'zb-h1'"):
        in_flight_sets("zbh1", 0, 4, 8)


@given(st.sampled_from(["zb-h1", "zb-h2", "breadth-first"]), st.integers(2, 7), st.integers(1, 20))
def test_other_schedules_equal_their_orders(schedule: str, pp: int, m: int) -> None:
    """Split backwards free memory at the weight gradients."""
    replay = [peak_in_flight(order) for order in stage_orders(schedule, pp, m)]
    assert [in_flight_sets(schedule, stage, pp, m) for stage in range(pp)] == replay


@given(st.sampled_from([2, 4, 6, 8]), st.integers(0, 8))
def test_dualpipe_equals_its_order(pp: int, more: int) -> None:
    """Of both directions together; half of them each where a stage's two chunks are told apart."""
    m = 2 * (pp + more)
    replay = [peak_in_flight(order) for order in stage_orders("dualpipe", pp, m)]
    assert [in_flight_sets("dualpipe", stage, pp, m) for stage in range(pp)] == replay
    assert chunk_sets("dualpipe", 0, pp, m, 2) == ((pp + 1) / 2, (pp + 1) / 2)
