import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.validate.records import RowResult
from simcluster.validate.summary import order_accuracy, summarise


def judged(predicted, published=1.0, **more):
    width = more.pop("width", 0.15)
    row = RowResult(
        published=published,
        predicted=predicted,
        low=predicted * (1 - width),
        high=predicted * (1 + width),
        error=predicted / published - 1,
        floor=2.0 * published,
        tokens=1.0,
    )
    return replace(row, **more)


def test_figures_by_hand():
    rows = [judged(1.1), judged(0.8), judged(1.3), judged(1.0), RowResult(skipped_because="task")]
    summary = summarise(rows)
    errors = summary.errors
    assert errors.count == 4
    assert errors.median_absolute_error == pytest.approx(0.15)
    assert errors.mean_absolute_error == pytest.approx(0.15)
    assert errors.p90_absolute_error == pytest.approx(0.27)
    assert errors.mean_error == pytest.approx(0.05)
    assert errors.coverage == 0.5  # 1.1 and 1.0 are within 15 %
    assert errors.median_half_width == pytest.approx(0.15)
    assert summary.naive_floor.median_absolute_error == pytest.approx(1.0)


def test_floor_counts_the_rows_that_it_knows():
    summary = summarise([judged(1.1), judged(1.2, floor=None)])
    assert (summary.errors.count, summary.naive_floor.count) == (2, 1)


def test_skipped_by_reason():
    reasons = ["task", "inconsistent_row: layout", "inconsistent_row: batch", "unsupported: precision fp8", "task"]
    summary = summarise([RowResult(skipped_because=reason) for reason in reasons])
    assert summary.skipped == {"inconsistent_row": 2, "task": 2, "unsupported: precision fp8": 1}
    assert summary.errors.count == 0
    assert summary.errors.median_absolute_error is None
    assert summary.order_accuracy is None


def test_groups():
    rows = [judged(1.1, gpu="a", kind="moe"), judged(1.3, gpu="a"), judged(0.9, gpu="b", trust="A")]
    summary = summarise(rows)
    assert list(summary.by_gpu) == ["a", "b"]
    assert summary.by_gpu["a"].errors.median_absolute_error == pytest.approx(0.2)
    assert summary.by_gpu["b"].naive_floor.count == 1
    assert {name: one.errors.count for name, one in summary.by_kind.items()} == {"dense": 2, "moe": 1}
    assert set(summary.by_trust) == {"not stated", "A"}


def test_order_needs_five_percent_and_one_group():
    one, near, far = judged(1.0, 1.0), judged(2.0, 1.04), judged(0.9, 1.5)
    assert order_accuracy([one, near]) == (None, 0)
    assert order_accuracy([one, near, far]) == (0.0, 2)
    assert order_accuracy([one, replace(far, layers=7)]) == (None, 0)
    assert order_accuracy([one, replace(far, source="other")]) == (None, 0)
    assert order_accuracy([one, replace(far, predicted=1.0)]) == (0.5, 1)


@given(st.lists(st.tuples(st.floats(0.5, 2), st.floats(0.5, 2)), max_size=12))
def test_order_is_that_of_all_pairs(times):
    rows = [judged(predicted, published) for predicted, published in times]
    right = []
    for first, second in itertools.combinations(rows, 2):
        ratio = first.published / second.published
        if max(ratio, 1 / ratio) >= 1.05:
            right.append((1 + np.sign(ratio - 1) * np.sign(first.predicted - second.predicted)) / 2)
    accuracy, pairs = order_accuracy(rows)
    assert pairs == len(right)
    assert accuracy is None if not right else accuracy == pytest.approx(np.mean(right))
