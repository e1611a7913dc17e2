"""256 B200 bought for four years, worked by hand: capital, running costs, break-even."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simcluster.economics.annuity import monthly_rate
from simcluster.economics.break_even import own_or_rent
from simcluster.economics.hours import MONTH_S as BILLED_MONTH_S
from simcluster.economics.own import OwnInputs, own_cost
from simcluster.evaluation import evaluate
from simcluster.evaluation.owning import own_inputs
from simcluster.evaluation.renting import rent_inputs
from simcluster.scenario import load_text

DAY_S = 86400.0

WORKED = """\
name: worked-256xb200
model: llama-3-70b
cluster: {node: dgx-b200, nodes: 32, spares: 1, fabric: ib-ndr-400}
training:
  sequence_length: 8192
  global_batch: 512
  micro_batch: 1
  tokens: 2T
  parallelism: {tp: 8, pp: 1, sequence_parallel: true}
  sharding: {strategy: zero-1}
  recompute: none
  software: {family: megatron-core, date: 2025-06}
acquire:
  own:
    price: 450000 USD/node
    network: 4500 USD/GPU
    storage: 400000 USD
    misc: 4%
    residual: 20%
    wacc: 10%
    support: 4%
    insurance: 0%
    rival: 3.75 USD/GPU-h
    staff: 440000 USD/year
    lead_time: 14 weeks
use: {horizon: 4 years, hours: 85%}
facility: {electricity: 0.09 USD/kWh, pue: 1.3, colocation: 130 USD/kW-month}
"""
HARDWARE_USD = 33 * 450_000 + 256 * 4_500 + 400_000


@pytest.fixture(scope="module")
def worked(catalogue):
    return evaluate(load_text(WORKED, "worked.yaml"), catalogue)


def test_capital_charge_staff_and_support_are_the_worked_figures_to_the_cent(worked):
    """17,058,080 USD of capital is 370,496.31 USD a month at 10 % over 48 months with 20 % left (by hand)."""
    cost = worked.cost
    assert cost.capital_usd == pytest.approx(17_058_080.0, abs=0.005)
    i = 1.1 ** (1 / 12) - 1
    by_hand = (17_058_080 - 0.2 * 17_058_080 / (1 + i) ** 48) * i / (1 - (1 + i) ** -48)
    assert by_hand == pytest.approx(370_496.31, abs=0.005)
    assert cost.monthly_usd["capital"] == pytest.approx(by_hand, abs=0.005)
    assert cost.monthly_usd["staff"] == pytest.approx(36_666.67, abs=0.005)
    assert cost.monthly_usd["support"] == pytest.approx(54_673.33, abs=0.005)
    assert cost.starts_after_s == 14 * 7 * DAY_S


def test_months_are_billed_as_quoted(worked):
    """130 USD/kW-month are 130 USD for each kW, whether a month has 730 h (bills) or 730.5 h (calendar)."""
    nameplate_kw = worked.power.it_nameplate_w / 1e3
    assert nameplate_kw == pytest.approx(
        33 * 14.3 + (worked.means.power.network_w + worked.means.power.storage_w) / 1e3
    )
    assert worked.cost.monthly_usd["colocation"] == pytest.approx(130 * nameplate_kw, abs=0.005)
    kwh = worked.power.it_average_over_all_hours_w / 1e3 * 1.3 * 730
    assert worked.cost.monthly_usd["electricity"] == pytest.approx(0.09 * kwh, abs=0.005)


def test_insurance_is_the_only_addition_to_the_worked_items(catalogue, worked):
    """The worked example has none and states 0 %; unstated it is 1 % of the hardware a year, listed as assumed."""
    assert worked.cost.monthly_usd["other"] == 0
    usual = evaluate(load_text(WORKED.replace("    insurance: 0%\n", ""), "worked.yaml"), catalogue)
    assert usual.cost.monthly_usd == {**worked.cost.monthly_usd, "other": pytest.approx(0.01 * HARDWARE_USD / 12)}
    listed = {one.path: one.value for one in usual.assumptions}
    assert listed["acquire.own.insurance"] == 0.01
    assert "acquire.own.insurance" not in {one.path for one in worked.assumptions}


def test_the_evaluation_is_the_economics_of_the_same_inputs(worked):
    """Everything but power and goodput, which are simulated, is stated; these two enter as the evaluation has them."""
    inputs = OwnInputs(
        nodes_usd=33 * 450_000,
        network_usd=256 * 4_500,
        storage_usd=400_000,
        misc=0.04,
        gpus=256,
        hours=0.85,
        horizon_s=48 * BILLED_MONTH_S,
        residual=0.2,
        wacc=0.10,
        average_w=worked.power.it_average_over_all_hours_w,
        nameplate_w=worked.power.it_nameplate_w,
        pue=1.3,
        electricity_usd_per_j=0.09 / 3.6e6,
        colocation_usd_per_w_s=0.13 / BILLED_MONTH_S,
        staff_usd_per_year=440_000,
        support=0.04,
        lead_time_s=14 * 7 * DAY_S,
    )
    expected = own_cost(inputs, worked.run.goodput)
    assert sum(worked.cost.monthly_usd.values()) == pytest.approx(expected.month_usd, rel=1e-12)
    hour = worked.cost.per_gpu_hour
    for name in ("provisioned_usd", "used_usd", "useful_usd"):
        assert getattr(hour, name) == pytest.approx(getattr(expected.per_gpu_hour, name), rel=1e-12)
    assert worked.cost.break_even.rent_usd_per_gpu_hour_paid == pytest.approx(hour.provisioned_usd, rel=1e-12)


def test_power_and_the_hour_are_near_the_worked_ones(worked):
    """376 kW and 2.988 USD a provisioned hour with 11 kW a node assumed; ours are simulated. Within 5 %."""
    assert worked.power.it_average_w == pytest.approx(376e3, rel=0.05)
    assert worked.cost.per_gpu_hour.provisioned_usd == pytest.approx(2.98811, rel=0.05)


def test_at_the_worked_power_every_figure_is_the_worked_one(worked):
    """What `evaluation` hands to `economics`, with the power that the example assumes (376 and 495.9 kW)."""
    inputs = replace(
        own_inputs(worked.means, worked.means.acquire, worked.power, 256), average_w=376e3, nameplate_w=495.9e3
    )
    cost = own_cost(inputs, 0.94)
    assert cost.electricity_usd == pytest.approx(32_114.16, abs=0.005)
    assert cost.colocation_usd == pytest.approx(64_467.00, abs=0.005)
    assert cost.opex_usd == pytest.approx(187_921.16, abs=0.005)
    assert cost.month_usd == pytest.approx(558_417.47, abs=0.005)
    assert cost.per_gpu_hour.provisioned_usd == pytest.approx(2.98811, abs=5e-6)
    assert cost.per_gpu_hour.useful_usd == pytest.approx(3.73981, abs=5e-6)
    against = own_or_rent(inputs, rent_inputs(worked.means, worked.means.market, 256))
    assert against.npv_own_usd == pytest.approx(1_481_253, abs=0.5)
    assert (against.month, against.month_without_resale) == (40, math.inf)
    assert against.rent_used_usd == pytest.approx(3.5154, abs=5e-5)


def test_the_discount_rate_compounds_to_the_year():
    assert (1 + monthly_rate(0.10)) ** 12 == pytest.approx(1.10, rel=1e-12)
