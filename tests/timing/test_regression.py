"""Local regression against surfaces whose estimate is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.timing import regression
from simcluster.timing.regression import Kernel, leave_one_out, local_fit

FREE = Kernel((0.7, 0.9), prior_weight=1e-12, ridge=1e-12)  # neither prior nor ridge to speak of
GRID = np.stack(np.meshgrid(np.linspace(0, 4, 9), np.linspace(-2, 2, 7)), axis=-1).reshape(-1, 2)
VALUES = st.floats(-5, 5)


@given(VALUES, VALUES, VALUES)
def test_a_plane_is_met_everywhere_and_beyond(a, b, c):
    query = np.array([[1.3, 0.2], [0.0, -2.0], [4.8, 2.4]])
    fit = local_fit(query, GRID, a + GRID @ [b, c], FREE)
    np.testing.assert_allclose(fit.value, a + query @ [b, c], atol=1e-6)


@given(VALUES, st.floats(1e-3, 1e3), st.floats(-5, 5))
def test_a_constant_equal_to_the_prior_stays_whatever_the_weights(value, weight, x):
    fit = local_fit(np.array([[x, x]]), GRID, np.full(len(GRID), value), Kernel((0.5, 2.0), weight, weight), value)
    assert fit.value[0] == pytest.approx(value, abs=1e-12)


@given(st.floats(0, 3), st.floats(0.01, 10), st.floats(0.2, 3))
def test_one_point_against_the_closed_form(distance, prior_weight, ridge):
    """Intercept and slope of one point of value 1 at `distance` lengths: the 2 x 2 normal equations by hand."""
    w = np.exp(-0.5 * distance**2)
    determinant = (w + prior_weight) * (w * distance**2 + ridge) - (w * distance) ** 2
    expected = (w * (w * distance**2 + ridge) - w * distance * w * distance) / determinant
    fit = local_fit(np.array([[0.0]]), np.array([[2 * distance]]), np.array([1.0]), Kernel((2.0,), prior_weight, ridge))
    assert fit.value[0] == pytest.approx(expected, rel=1e-9)
    assert (fit.support[0], fit.nearest[0]) == pytest.approx((w, w))


def test_between_symmetric_points_is_their_mean_pulled_to_the_prior():
    """Two points at one length either side weigh e^-1/2 each; the slope has no say at the middle."""
    fit = local_fit(np.zeros((1, 1)), np.array([[-1.0], [1.0]]), np.array([1.0, 3.0]), Kernel((1.0,), 0.5), prior=-4.0)
    w = 2 * np.exp(-0.5)
    assert fit.value[0] == pytest.approx((2 * w - 4 * 0.5) / (w + 0.5))
    assert fit.support[0] == pytest.approx(w)


def test_each_query_has_its_prior_far_from_all_points():
    query = np.array([[90.0, 0.0], [0.0, -90.0]])
    fit = local_fit(query, GRID, np.ones(len(GRID)), Kernel((1.0, 1.0)), np.array([5.0, 6.0]))
    assert fit.value.tolist() == [5.0, 6.0]
    assert fit.nearest.tolist() == [0.0, 0.0]
    none = local_fit(query, np.empty((0, 2)), np.empty(0), Kernel((1.0, 1.0)), 7.0)
    assert (none.value.tolist(), none.support.tolist()) == ([7.0, 7.0], [0.0, 0.0])


def test_an_axis_of_great_length_has_no_say():
    points = np.array([[0.0, 0.0], [0.5, 3.0], [1.0, -3.0]])
    values = np.array([1.0, 2.0, 4.0])
    with_axis = local_fit(np.array([[0.4, 9.0]]), points, values, Kernel((0.8, 1e6)))
    without = local_fit(np.array([[0.4]]), points[:, :1], values, Kernel((0.8,)))
    assert with_axis.value == pytest.approx(without.value, abs=1e-9)


def test_queries_in_pieces_are_the_same_queries(monkeypatch):
    values = np.sin(GRID).sum(axis=1)
    whole = local_fit(GRID + 0.1, GRID, values, Kernel((0.7, 0.9)))
    monkeypatch.setattr(regression, "_CHUNK_CELLS", 5 * GRID.size)
    pieces = local_fit(GRID + 0.1, GRID, values, Kernel((0.7, 0.9)))
    np.testing.assert_allclose(pieces.value, whole.value, rtol=1e-12)
    np.testing.assert_allclose(pieces.support, whole.support, rtol=1e-12)


@pytest.mark.parametrize("groups", [None, np.arange(len(GRID)) // 4])
def test_leaving_out_is_fitting_to_the_others(groups):
    kernel, prior = Kernel((0.7, 0.9)), 0.3
    values = np.sin(GRID).sum(axis=1)
    out = leave_one_out(GRID, values, kernel, prior, leave_same=groups)
    names = np.arange(len(GRID)) if groups is None else groups
    for i in range(0, len(GRID), 5):
        others = names != names[i]
        assert out[i] == pytest.approx(local_fit(GRID[i : i + 1], GRID[others], values[others], kernel, prior).value[0])


@given(VALUES, VALUES, VALUES)
def test_a_plane_is_met_where_its_own_point_is_left_out(a, b, c):
    values = a + GRID @ [b, c]
    np.testing.assert_allclose(leave_one_out(GRID, values, FREE), values, atol=1e-6)


def test_the_value_of_a_left_out_point_has_no_say():
    values = np.sin(GRID).sum(axis=1)
    spoilt = values.copy()
    spoilt[10] = 1e3
    kernel = Kernel((0.7, 0.9))
    assert leave_one_out(GRID, values, kernel)[10] == leave_one_out(GRID, spoilt, kernel)[10]
