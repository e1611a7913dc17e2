"""Tokens and runs."""

import pytest

from simcluster.economics.own import own_cost
from simcluster.economics.per_unit import usd_per_million_tokens

FULL_RUN = 0.40 * 2250e12 * 256 / 449.223e9


def test_worked_example(b200):
    price = own_cost(b200(), 0.94).per_gpu_hour
    tokens_per_s = FULL_RUN
    assert tokens_per_s == pytest.approx(512_886, abs=0.5)
    assert usd_per_million_tokens(price.useful_usd, 256, FULL_RUN) == pytest.approx(0.51852, abs=6e-6)
    joules = 376e3 * 1.3 / FULL_RUN
    assert joules / 3.6 == pytest.approx(0.26473, abs=6e-6)  # kWh of 10^6 tokens
