"""Own against rent: worked figures, and identities that hold for any numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.economics.annuity import monthly_rate
from simcluster.economics.break_even import (
    Flows,
    break_even_month,
    break_even_rent_usd_per_month,
    bridge_rent_usd,
    flows_of,
    levelised_usd_per_gpu_hour,
    npv_own_usd,
    own_or_rent,
    resale_usd,
)
from simcluster.economics.hours import MONTH_HOURS, MONTH_S
from simcluster.economics.own import OwnInputs, own_cost

FLOWS = st.builds(
    Flows,
    capital_usd=st.floats(1e3, 1e8),
    opex_usd_per_month=st.floats(0, 1e6),
    rent_usd_per_month=st.floats(0, 1e7),
    residual=st.floats(0, 1),
    wacc=st.one_of(st.just(0.0), st.floats(1e-6, 0.5)),
    horizon_s=st.integers(1, 72).map(lambda months: months * MONTH_S),
    erosion=st.one_of(st.just(0.0), st.floats(-0.4, 0.6)),
)


@pytest.mark.parametrize(("price", "term", "gain"), [(3.75, "on-demand", 1_481_253), (2.90, "3y", -654_532)])
def test_worked_npv(b200, b200_rent, price, term, gain):
    assert own_or_rent(b200(), b200_rent(price, term)).npv_own_usd == pytest.approx(gain, abs=1)


@pytest.mark.parametrize(
    ("price", "resale", "no_resale"), [(2.90, math.inf, math.inf), (3.75, 40, math.inf), (5.0, 10, 32), (6.88, 1, 21)]
)
def test_worked_break_even_months(b200, b200_rent, price, resale, no_resale):
    result = own_or_rent(b200(), b200_rent(price))
    assert (result.month, result.month_without_resale) == (resale, no_resale)


def test_worked_break_even_rents(b200, b200_rent):
    result = own_or_rent(b200(), b200_rent(3.75))
    assert result.rent_used_usd == pytest.approx(3.5154, abs=6e-5)
    assert result.rent_paid_usd == pytest.approx(2.9881, abs=6e-5)


def test_worked_early_sale(b200, b200_rent):
    months = np.array([6, 12, 24, 36, 48])
    levelised = levelised_usd_per_gpu_hour(flows_of(b200(), b200_rent(3.75)), 256, months * MONTH_S)
    assert levelised == pytest.approx([4.451, 4.145, 3.649, 3.275, 2.988], abs=6e-4)
    assert levelised[0] / 0.85 == pytest.approx(5.24, abs=6e-3)


def test_128_h100_of_a_common_guide():
    """Sold after 6, 12, 48 months 3.35, 3.09, 2.19 USD: six months do not beat a yearly rent of 2.35, four years do."""
    own = OwnInputs(
        nodes_usd=17 * 250e3, network_usd=128 * 4500.0, storage_usd=400e3, misc=0.04, gpus=128, hours=0.85,
        horizon_s=48 * MONTH_S, residual=0.15, wacc=0.10, average_w=16 * 6.70e3, nameplate_w=17 * 8.40e3, pue=1.3,
        electricity_usd_per_j=0.09 / 3.6e6, colocation_usd_per_w_s=0.13 / MONTH_S, staff_usd_per_year=440e3,
        support=0.04,
    )  # fmt: skip
    cost = own_cost(own)
    flows = Flows(
        capital_usd=cost.capital_usd,
        opex_usd_per_month=cost.opex_usd,
        rent_usd_per_month=2.35 * 128 * MONTH_HOURS,
        residual=0.15,
        wacc=0.10,
        horizon_s=48 * MONTH_S,
    )
    sold = levelised_usd_per_gpu_hour(flows, 128, np.array([6, 12, 48]) * MONTH_S)
    assert sold == pytest.approx([3.35, 3.09, 2.19], abs=0.01)
    assert 12 < break_even_month(flows) <= 48


@given(FLOWS)
def test_npv_is_that_of_explicit_flows(flows):
    n = int(flows.months)
    rents = [flows.rent_usd_per_month * (1 - flows.erosion) ** (t / 12) for t in range(1, n + 1)]
    months = [rent - flows.opex_usd_per_month for rent in rents]
    months[-1] += flows.capital_usd * flows.residual
    rate = monthly_rate(flows.wacc)
    explicit = sum(flow / (1 + rate) ** month for month, flow in enumerate(months, 1)) - flows.capital_usd
    scale = flows.capital_usd + sum(rents) + n * flows.opex_usd_per_month
    assert npv_own_usd(flows) == pytest.approx(explicit, abs=1e-9 * scale)


@given(FLOWS)
def test_npv_vanishes_at_the_break_even_rent(flows):
    rent = break_even_rent_usd_per_month(flows)
    scale = flows.capital_usd + flows.opex_usd_per_month * flows.months
    assert npv_own_usd(replace(flows, rent_usd_per_month=rent)) == pytest.approx(0, abs=1e-9 * scale)


@given(FLOWS)
def test_break_even_month_is_the_first_that_pays(flows):
    month = break_even_month(flows)
    for t in range(1, int(flows.months) + 1):
        cut = replace(flows, horizon_s=t * MONTH_S, residual=resale_usd(flows, t) / flows.capital_usd)
        gain = npv_own_usd(cut)
        if abs(gain) > 1e-9 * flows.capital_usd:
            assert (gain > 0) <= (month <= t)
            if t == month:
                assert gain > 0
    assert break_even_month(flows, resale=False) >= month


def test_rent_with_the_same_flows_as_owning_gains_nothing():
    flows = Flows(
        capital_usd=0.0,
        opex_usd_per_month=123.0,
        rent_usd_per_month=123.0,
        residual=0.3,
        wacc=0.08,
        horizon_s=48 * MONTH_S,
    )
    assert npv_own_usd(flows) == pytest.approx(0.0, abs=1e-9)


@given(FLOWS, st.floats(1e-3, 1e3))
def test_another_currency_changes_no_month(flows, rate):
    other = replace(
        flows,
        capital_usd=flows.capital_usd * rate,
        opex_usd_per_month=flows.opex_usd_per_month * rate,
        rent_usd_per_month=flows.rent_usd_per_month * rate,
    )
    scale = flows.capital_usd + (flows.rent_usd_per_month * 8 + flows.opex_usd_per_month) * flows.months
    assert npv_own_usd(other) / rate == pytest.approx(npv_own_usd(flows), abs=1e-9 * scale)
    assert break_even_rent_usd_per_month(other) == pytest.approx(rate * break_even_rent_usd_per_month(flows))


def test_falling_rents_make_owning_worse(b200, b200_rent):
    steady, falling = (own_or_rent(b200(), b200_rent(5.0), g) for g in (0.0, 0.2))
    assert falling.npv_own_usd < steady.npv_own_usd
    assert falling.rent_used_usd > steady.rent_used_usd
    assert falling.month >= steady.month


def test_bridge_until_the_cluster_is_live(b200, b200_rent):
    rent = 3.75 * 0.85 * 256 * 730
    assert bridge_rent_usd(rent, 3 * MONTH_S, 0.0) == pytest.approx(3 * rent)
    result = own_or_rent(b200(lead_time_s=3 * MONTH_S), b200_rent(3.75))
    i = monthly_rate(0.10)
    assert result.bridge_rent_usd == pytest.approx(sum(rent / (1 + i) ** t for t in (1, 2, 3)))
    assert own_or_rent(b200(), b200_rent(3.75)).bridge_rent_usd == 0


def test_draws_go_through_in_one_call(b200, b200_rent):
    prices, years = np.array([2.9, 3.75, 5.0, 6.88]), np.array([[4], [3]])
    result = own_or_rent(b200(years=years), b200_rent(prices))
    assert result.month.shape == result.npv_own_usd.shape == (2, 4)
    assert result.month[0].tolist() == [math.inf, 40, 10, 1]
    for row, year in enumerate((4, 3)):
        for column, price in enumerate(prices.tolist()):
            one = own_or_rent(b200(years=year), b200_rent(price))
            assert result.month[row, column] == one.month
            assert result.npv_own_usd[row, column] == pytest.approx(one.npv_own_usd)
