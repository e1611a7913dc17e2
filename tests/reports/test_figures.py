"""Three significant digits, one unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.figures import BINARY, COUNTS, TIMES, change, digits, in_one_unit, unit_of

SIZES = st.floats(1e-3, 9e5)


@given(SIZES, st.sampled_from([1, -1]))
def test_three_digits_are_kept_and_no_exponent_is_shown(value, sign):
    text = digits(sign * value)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(sign * value, rel=6e-3, abs=6e-5)
    figures = text.lstrip("-").replace(",", "").replace(".", "").lstrip("0")
    assert len(figures.rstrip("0")) <= 3


@given(SIZES)
def test_the_sign_is_all_that_differs(value):
    assert digits(-value) == f"-{digits(value)}"


@pytest.mark.parametrize(
    ("value", "text"),
    [(9.999, "10.0"), (99.95, "100"), (999.6, "1,000"), (0.09996, "0.100"), (1234567.0, "1.23e+06"), (0.5, "0.500")],
)
def test_rounding_that_carries(value, text):
    assert digits(value) == text


@given(st.lists(st.floats(1e-9, 1e7), min_size=1, max_size=5))
def test_one_unit_for_all_and_the_largest_is_readable(values):
    unit, texts = in_one_unit(values, TIMES)
    size = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "days": 86400}[unit]
    for value, text in zip(values, texts):
        assert float(text.replace(",", "")) * size == pytest.approx(value, rel=6e-3, abs=6e-5 * size)
    assert max(values) / size >= 0.999


@pytest.mark.parametrize(
    ("values", "scale", "unit"),
    [
        ([], TIMES, "s"),
        ([0.0], BINARY, "GiB"),
        ([0.9997], TIMES, "s"),
        ([0.5, 119.0], TIMES, "s"),
        ([121.0], TIMES, "min"),
        ([99_000.0], COUNTS, ""),
        ([2e5, 1e3], COUNTS, "k"),
    ],
)
def test_units(values, scale, unit):
    assert unit_of(values, scale)[1] == unit


def test_changes_have_signs():
    assert [change(value) for value in (1.0, -0.001, 0.0)] == ["+100%", "-0.100%", "0%"]
