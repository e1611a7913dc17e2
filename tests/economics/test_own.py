"""Ownership: the worked example to the cent, its tornado and Monte Carlo, limits and scaling."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.economics.hours import MONTH_S
from simcluster.economics.own import own_cost
from simcluster.errors import InputError


def test_worked_example(b200):
    cost = own_cost(b200(), 0.94)
    assert cost.capital_usd == pytest.approx(17_058_080, abs=0.5)
    assert cost.capital_usd_per_gpu == pytest.approx(66_633, abs=0.5)
    by_month = dict(cost.items())
    assert by_month == pytest.approx(
        {
            "capital": 370_496.31,
            "electricity": 32_114.16,
            "colocation": 64_467.00,
            "staff": 36_666.67,
            "support": 54_673.33,
            "other": 0.0,
        },
        abs=0.006,
    )
    assert cost.opex_usd == pytest.approx(187_921.16, abs=0.006)
    assert cost.month_usd == pytest.approx(558_417.47, abs=0.006)
    assert sum(by_month.values()) == pytest.approx(cost.month_usd)
    assert cost.total_usd == pytest.approx(48 * cost.month_usd)
    assert cost.per_gpu_hour.provisioned_usd == pytest.approx(2.98811, abs=6e-6)
    assert cost.per_gpu_hour.used_usd == pytest.approx(3.5154, abs=6e-5)
    assert cost.per_gpu_hour.useful_usd == pytest.approx(3.73981, abs=6e-6)


@pytest.mark.parametrize(
    ("name", "low", "high", "at_low", "at_high"),
    [
        ("hours", 0.60, 0.95, 5.298, 3.346),
        ("node", 360e3, 540e3, 3.224, 4.255),
        ("years", 3, 5, 4.371, 3.363),
        ("residual", 0.05, 0.35, 4.034, 3.445),
        ("wacc", 0.06, 0.14, 3.509, 3.969),
        ("goodput", 0.88, 0.97, 3.995, 3.624),
        ("staff", 1, 4, 3.617, 3.985),
        ("colo", 90, 200, 3.607, 3.972),
        ("e", 0.06, 0.15, 3.668, 3.883),
        ("net", 3000, 7000, 3.673, 3.851),
        ("node_kw", 9, 13, 3.703, 3.776),
        ("pue", 1.15, 1.5, 3.715, 3.773),
    ],
)
def test_tornado(useful, name, low, high, at_low, at_high):
    assert useful(**{name: low}) == pytest.approx(at_low, abs=6e-4)
    assert useful(**{name: high}) == pytest.approx(at_high, abs=6e-4)


def test_monte_carlo_in_one_call(useful):
    rng, n = np.random.default_rng(7), 20_000
    ranges = {
        "node": (360e3, 450e3, 540e3),
        "hours": (0.60, 0.85, 0.95),
        "residual": (0.05, 0.20, 0.35),
        "wacc": (0.06, 0.10, 0.14),
        "goodput": (0.88, 0.94, 0.97),
        "e": (0.06, 0.09, 0.15),
        "colo": (90, 130, 200),
        "node_kw": (9, 11, 13),
    }
    low, base, high = np.array(list(ranges.values())).T
    draws = rng.triangular(low, base, high, size=(n, len(ranges)))
    cost = useful(**dict(zip(ranges, draws.T)))
    assert cost.shape == (n,)
    assert cost.mean() == pytest.approx(4.112, rel=0.01)
    assert np.percentile(cost, [5, 50, 95]) == pytest.approx([3.390, 4.052, 5.038], rel=0.01)
    assert cost[0] == pytest.approx(useful(**dict(zip(ranges, draws[0].tolist()))))


def test_b200_cluster_of_a_common_guide(b200):
    """8 to 12 M USD and 12 K USD of power a month are claimed; 17 M and 45 K at 0.12 USD/kWh come out."""
    cost = own_cost(b200(e=0.12, average_w=392e3))
    assert cost.capital_usd == pytest.approx(17e6, rel=0.01)
    assert cost.electricity_usd == pytest.approx(44.6e3, rel=0.002)
    claimed = own_cost(b200(e=0.12, average_w=137e3, pue=1.0))
    assert claimed.electricity_usd == pytest.approx(12e3, rel=0.001)


def test_limits_without_interest_and_resale(b200):
    cost = own_cost(b200(wacc=0.0, residual=0.0))
    assert cost.charge_usd == pytest.approx(cost.capital_usd / 48)
    assert cost.straight_line_month_usd == pytest.approx(cost.month_usd)


def test_straight_line_is_near_the_annuity(b200):
    cost = own_cost(b200())
    interest = 17_058_080 * 1.2 / 2 * 0.00797414
    assert cost.straight_line_month_usd == pytest.approx(17_058_080 * 0.8 / 48 + interest + cost.opex_usd, abs=0.5)
    assert cost.straight_line_month_usd == pytest.approx(cost.month_usd, rel=0.02)


@given(st.floats(0.01, 1), st.floats(0.01, 1))
def test_more_use_is_never_dearer(useful, one, two):
    low, high = sorted((one, two))
    assert useful(hours=high) <= useful(hours=low)
    assert useful(goodput=high) <= useful(goodput=low)


@given(st.floats(0.01, 100))
def test_another_currency_scales_everything(b200, rate):
    own = b200(building_usd=1e6, other_usd_per_year=1e5)
    money = {f.name: getattr(own, f.name) * rate for f in fields(own) if "usd" in f.name}
    one, other = own_cost(own), own_cost(replace(own, **money))
    assert other.month_usd == pytest.approx(rate * one.month_usd)
    assert other.per_gpu_hour.useful_usd == pytest.approx(rate * one.per_gpu_hour.useful_usd)
    assert other.straight_line_month_usd == pytest.approx(rate * one.straight_line_month_usd)


def test_every_part_costs_and_a_building_shares_what_comes_on_top(b200):
    base = own_cost(b200())
    assert own_cost(b200(building_usd=1e6)).capital_usd - base.capital_usd == pytest.approx(1.04e6)
    assert own_cost(b200(building_usd=1e6)).support_usd == base.support_usd
    assert own_cost(b200(other_usd_per_year=12e3)).month_usd - base.month_usd == pytest.approx(1e3)


def test_all_that_is_wrong_is_told():
    with pytest.raises(InputError) as caught:
        own_cost(_bad(), goodput=1.5)
    named = {problem.message.split(":")[0] for problem in caught.value.problems}
    assert named == {"nodes_usd", "hours", "horizon_s", "residual", "pue", "gpus", "goodput"}


def _bad():
    from simcluster.economics.own import OwnInputs

    return OwnInputs(
        nodes_usd=-1,
        gpus=0,
        hours=0.0,
        horizon_s=-MONTH_S,
        residual=1.2,
        wacc=0.1,
        average_w=1.0,
        nameplate_w=1.0,
        pue=0.9,
        electricity_usd_per_j=0.0,
    )
