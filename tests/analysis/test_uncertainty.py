"""Intervals, grades, and differences under common draws."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.uncertainty import Z80, ErrorTerm, band, difference, error_terms, overall_grade, spread

SHARES = st.lists(st.tuples(st.floats(0.01, 1), st.floats(0.01, 0.3)), min_size=1, max_size=5)


def terms(pairs, prefix=""):
    return [ErrorTerm(f"{prefix}{index}", share, sigma) for index, (share, sigma) in enumerate(pairs)]


def test_spread_adds_in_quadrature():
    assert spread([ErrorTerm("a", 1, 0.03), ErrorTerm("b", 1, 0.04)]) == pytest.approx(0.05)
    assert spread([]) == 0


@given(SHARES, st.floats(1e-3, 1e3))
def test_the_band_holds_the_estimate_in_its_middle(pairs, step):
    found = band(step, terms(pairs), "B")
    assert found.low_s < step < found.high_s
    assert found.low_s * found.high_s == pytest.approx(step**2)
    assert math.log(found.high_s / step) == pytest.approx(Z80 * spread(terms(pairs)))


def test_eighty_percent_of_a_normal_law():
    draws = np.random.default_rng(1).standard_normal(200_000)
    assert np.mean(np.abs(draws) < Z80) == pytest.approx(0.8, abs=0.005)


@given(SHARES, st.floats(0.1, 10), st.floats(1.001, 2))
def test_what_is_shared_cancels(pairs, step, factor):
    """Two designs on the same evidence differ surely, although their bands overlap."""
    found = difference(step, terms(pairs), step * factor, terms(pairs))
    assert found.probability_better == 0
    assert found.low > 0
    assert found.relative == pytest.approx(factor - 1)
    assert difference(step * factor, terms(pairs), step, terms(pairs)).probability_better == 1


def test_what_is_not_shared_does_not():
    same = difference(1, [ErrorTerm("a", 1, 0.1)], 1.02, [ErrorTerm("a", 1, 0.1)])
    apart = difference(1, [ErrorTerm("a", 1, 0.1)], 1.02, [ErrorTerm("b", 1, 0.1)])
    assert apart.low < 0 < same.low
    sure = 0.5 * math.erfc(math.log(1.02) / math.hypot(0.1, 0.1) / math.sqrt(2))
    assert apart.probability_better == pytest.approx(sure, abs=0.02)
    assert (apart.high - apart.low) == pytest.approx(2 * Z80 * math.hypot(0.1, 0.102), rel=0.05)


def test_a_part_that_is_shared_cancels_in_part():
    common = ErrorTerm("common", 1, 0.2)
    found = difference(1, [common, ErrorTerm("x", 0.5, 0.1)], 1, [common, ErrorTerm("y", 0.5, 0.1)])
    assert found.high - found.low == pytest.approx(2 * Z80 * math.hypot(0.05, 0.05), rel=0.08)


def test_a_design_against_itself_is_nothing():
    found = difference(2, [ErrorTerm("a", 1, 0.1)], 2, [ErrorTerm("a", 1, 0.1)])
    assert (found.value, found.low, found.high, found.probability_better) == (0, 0, 0, 0.5)


def test_draws_belong_to_the_evidence_and_the_seed():
    first, second = [ErrorTerm("a", 1, 0.1)], [ErrorTerm("b", 1, 0.1)]
    assert difference(1, first, 1.1, second, 3) == difference(1, first, 1.1, second, 3)
    assert difference(1, first, 1.1, second, 3) != difference(1, first, 1.1, second, 4)
    more = [ErrorTerm("z", 0.0, 0.1), *second]
    assert difference(1, first, 1.1, more, 3) == difference(1, first, 1.1, second, 3)
    forth, back = difference(1, first, 1.1, second, 3), difference(1.1, second, 1, first, 3)
    assert 1 + back.low / 1.1 == pytest.approx(1 / (1 + forth.high), rel=1e-3)  # the ratio turned round


def test_an_error_that_both_share_moves_neither_end():
    shared = [ErrorTerm("model", 1.0, 0.4)]
    found = difference(10.0, shared, 2.5, shared)
    assert (found.low, found.high) == (pytest.approx(-7.5), pytest.approx(-7.5))


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 3)), min_size=1, max_size=6))
def test_grade_is_the_worst_that_carries_a_fifth(pairs):
    seconds, grades = (np.array(column, dtype=float) for column in zip(*pairs))
    found = "ABCD".index(overall_grade(seconds, grades))
    total = seconds.sum()
    if total == 0:
        assert found == 3
        return
    assert found == 0 or seconds[grades >= found].sum() >= 0.2 * total
    for worse in range(found + 1, 4):
        assert seconds[grades >= worse].sum() < 0.2 * total


def test_terms_without_a_share_are_left_out():
    assert error_terms({"a": 0.5, "b": 0.0}, {"a": 0.1, "b": 0.2}) == (ErrorTerm("a", 0.5, 0.1),)
