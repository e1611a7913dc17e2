"""Tokens and runs."""

import pytest

from simcluster.economics.own import own_cost
from simcluster.economics.per_unit import electricity_usd_per_million_tokens, run_cost, usd_per_million_tokens

FULL_RUN = 0.40 * 2250e12 * 256 / 449.223e9


def test_worked_example(b200):
    price = own_cost(b200(), 0.94).per_gpu_hour
    tokens_per_s = FULL_RUN
    assert tokens_per_s == pytest.approx(512_886, abs=0.5)
    assert usd_per_million_tokens(price.useful_usd, 256, FULL_RUN) == pytest.approx(0.51852, abs=6e-6)
    joules = 376e3 * 1.3 / FULL_RUN
    assert joules / 3.6 == pytest.approx(0.26473, abs=6e-6)  # kWh of 10^6 tokens
    assert electricity_usd_per_million_tokens(joules, 0.09 / 3.6e6) == pytest.approx(0.26473 * 0.09, rel=1e-4)


def test_a_run_costs_the_same_by_used_and_by_useful_hours(b200):
    price, tokens = own_cost(b200(), 0.94).per_gpu_hour, 1e12
    wall = tokens / FULL_RUN / 0.94
    run = run_cost(price.used_usd, 256, wall, tokens)
    by_useful = usd_per_million_tokens(price.useful_usd, 256, FULL_RUN)
    assert run.usd_per_million_tokens == pytest.approx(by_useful)
    assert run.total_usd == pytest.approx(by_useful * tokens / 1e6)


def test_commitment_and_electricity_stand_beside_the_total():
    run = run_cost(2.0, 8, 3600.0, 1e6, commitment_usd=5e5, facility_j=3.6e7, electricity_usd_per_j=0.1 / 3.6e6)
    assert (run.gpu_hours, run.total_usd, run.commitment_usd) == (8.0, 16.0, 5e5)
    assert run.electricity_usd == pytest.approx(1.0)
    assert run.electricity_share == pytest.approx(1 / 16)
