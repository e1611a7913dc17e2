"""The fit of one factor: recovers what made the data, respects bounds and prior, is not moved by outliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.calibrate.sustained import FactorFit, family_weights, fit_factor

GRID = np.linspace(0.5, 1.0, 11)


def rows(truth, noise, compute=1.0):
    """ln(predicted/published) of jobs with a share of compute, made with factor `truth` and relative noise."""
    predicted = compute / GRID[None, :] + (1 - compute)
    published = (compute / truth + 1 - compute) * np.exp(np.asarray(noise))[:, None]
    return np.log(predicted / published)


def fit(log_ratio, weights=None, prior=0.8, prior_sigma=10.0, low=0.5, high=1.0) -> FactorFit:
    return fit_factor(
        GRID, log_ratio, np.ones(len(log_ratio)) if weights is None else weights, prior, prior_sigma, low, high
    )


@given(st.floats(0.55, 0.95), st.integers(1, 9), st.floats(0.3, 1.0))
def test_recovers_the_factor_that_made_the_data(truth, count, compute):
    found = fit(rows(truth, np.zeros(count), compute))
    assert found.value == pytest.approx(truth, rel=0.01)
    assert found.rows == count
    assert found.median_absolute_error < 0.01


def test_noise_of_both_signs_does_not_move_it():
    found = fit(rows(0.75, [-0.05, -0.02, 0.02, 0.05]))
    assert found.value == pytest.approx(0.75, rel=0.01)
    assert found.residual == pytest.approx(0.035 / 0.6745, rel=0.1)
    assert found.median_absolute_error == pytest.approx(0.035, rel=0.2)


def test_an_outlier_moves_it_less_than_the_mean_would():
    found = fit(rows(0.75, [0.0, 0.0, 0.0, 0.0, 0.8]))
    mean = 0.75 * np.exp(-0.8 / 5)
    assert abs(found.value / 0.75 - 1) < 0.5 * abs(mean / 0.75 - 1)


@pytest.mark.parametrize(("truth", "bound"), [(0.55, 0.7), (0.95, 0.9)])
def test_stops_at_its_bounds(truth, bound):
    found = fit(rows(truth, np.zeros(3)), low=0.7, high=0.9)
    assert found.value == pytest.approx(bound, abs=1e-3)


def test_the_prior_decides_where_there_is_little_data():
    strong, weak = (fit(rows(0.6, [0.0]), prior=0.9, prior_sigma=sigma) for sigma in (0.005, 1.0))
    assert strong.value > 0.85
    assert weak.value == pytest.approx(0.6, abs=0.02)


def test_more_rows_make_it_surer():
    few, many = (fit(rows(0.75, np.tile([-0.05, 0.05], count))) for count in (1, 20))
    assert many.sigma < few.sigma


def test_weight_counts_as_repetition():
    log_ratio = rows(0.75, [-0.05, 0.1])
    weighted = fit(log_ratio, np.array([3.0, 1.0]))
    repeated = fit(np.vstack([log_ratio[:1]] * 3 + [log_ratio[1:]]))
    assert weighted.value == pytest.approx(repeated.value, abs=1e-3)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=12))
def test_a_family_weighs_less_than_one_however_many_rows_it_has(families):
    weights = family_weights(families)
    for family in set(families):
        of_family = sum(weight for weight, name in zip(weights, families) if name == family)
        count = families.count(family)
        assert of_family == pytest.approx(count / (count + 1))


def test_order_of_rows_does_not_matter():
    log_ratio = rows(0.7, [0.03, -0.04, 0.01])
    assert fit(log_ratio).value == pytest.approx(fit(log_ratio[::-1]).value, abs=1e-4)
