"""The three hours."""

import pytest

from simcluster.economics.hours import MONTH_S, YEAR_S, per_gpu_hour


def test_month_and_year():
    assert MONTH_S == 730 * 3600
    assert YEAR_S == 8760 * 3600


def test_each_hour_carries_what_the_wider_one_loses():
    price = per_gpu_hour(73_000.0, 100, hours=0.5, goodput=0.8)
    assert price.provisioned_usd == pytest.approx(1.0)
    assert price.used_usd == pytest.approx(2.0)
    assert price.useful_usd == pytest.approx(2.5)
