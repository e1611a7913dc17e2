"""Batches of a number of replicas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simcluster.planner.batch import batches
from simcluster.scenario.training import Training


def of(dp, group=1, sequence=4096, **training):
    return batches(Training.model_validate(training), sequence, dp, group, 64)


def test_a_stated_batch_is_split_into_equal_micro_batches():
    found = of(8, global_batch=64)
    assert found.sizes.tolist() == [[1, 8, 64], [2, 4, 64], [4, 2, 64], [8, 1, 64]]
    assert found.size == 7
    assert found.rejected == {"batch": 3}


def test_interleaving_runs_whole_groups():
    found = of(8, group=4, global_batch=64)
    assert found.sizes[:, 1].tolist() == [8, 4]
    assert found.rejected["interleaving"] == 2


def test_a_stated_micro_batch_is_the_only_one():
    assert of(8, global_batch=64, micro_batch=4).sizes.tolist() == [[4, 2, 64]]


def test_accumulation_is_kept():
    found = of(8, gradient_accumulation=6)
    assert set(found.sizes[:, 1].tolist()) == {6}
    assert of(8, gradient_accumulation=4, global_batch=64).sizes.tolist() == [[2, 4, 64]]


def test_an_open_batch_is_the_multiple_nearest_to_four_million_tokens():
    for micro, count, sequences in of(16, group=4, sequence=8192).sizes.tolist():
        whole = 16 * micro * 4
        assert sequences == micro * count * 16
        assert sequences % whole == 0
        assert abs(sequences * 8192 - 4e6) <= whole * 8192 / 2
        assert abs(sequences * 8192 - 4e6) <= 1e6


@given(st.integers(1, 512), st.integers(1, 16), st.integers(1, 4096))
def test_every_size_is_counted_once(dp, group, batch):
    found = of(dp, group, global_batch=batch)
    assert found.size == len(found.sizes) + sum(found.rejected.values())
    few = found.at_most(3)
    assert few.size == len(few.sizes) + sum(few.rejected.values())
    assert (few.sizes[:, 1] <= 3).all()
