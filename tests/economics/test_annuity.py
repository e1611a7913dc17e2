"""Interest algebra against explicit sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.economics.annuity import (
    annuity_factor,
    capital_charge,
    discount,
    monthly_rate,
    present_worth_factor,
)

RATE = st.one_of(st.just(0.0), st.floats(1e-4, 0.05), st.floats(1e-12, 1e-9))
MONTHS = st.integers(1, 120)


def test_worked_figures():
    i = monthly_rate(0.10)
    assert i == pytest.approx(0.00797414, abs=5e-9)
    assert annuity_factor(i, 48) == pytest.approx(0.02515608, abs=5e-9)
    assert capital_charge(17_058_080, 0.2 * 17_058_080, i, 48) == pytest.approx(370_496.31, abs=0.005)


@given(st.floats(-0.5, 2.0))
def test_twelve_months_make_a_year(rate):
    assert (1 + monthly_rate(rate)) ** 12 == pytest.approx(1 + rate)


@given(RATE, MONTHS)
def test_factor_is_the_sum_of_discounts(rate, months):
    explicit = sum(1 / (1 + rate) ** t for t in range(1, months + 1))
    assert present_worth_factor(rate, months) == pytest.approx(explicit, rel=1e-9)


@given(st.floats(1, 1e9), st.floats(0, 1), RATE, MONTHS)
def test_charge_pays_capital_back(capital, share, rate, months):
    charge = capital_charge(capital, share * capital, rate, months)
    flows = [charge] * (months - 1) + [charge + share * capital]
    worth = sum(flow / (1 + rate) ** month for month, flow in enumerate(flows, 1))
    assert worth == pytest.approx(capital, rel=1e-8)


@given(st.floats(1, 1e9), MONTHS)
def test_without_interest_or_resale_capital_is_spread_evenly(capital, months):
    assert capital_charge(capital, 0.0, 0.0, months) == pytest.approx(capital / months)


def test_broadcasts():
    rates = np.array([0.0, 0.01])
    assert present_worth_factor(rates, 12) == pytest.approx([12.0, present_worth_factor(0.01, 12)])
    assert discount(rates[:, None], np.array([1, 2])).shape == (2, 2)
    assert isinstance(present_worth_factor(0.01, 12), float)
