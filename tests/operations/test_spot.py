"""The price of an hour that counts on capacity that can be taken away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations.spot import job_preemptions_per_s, spot_run, spot_run_with_notice

HOUR = 3600.0
TABLE = {24: (1.3256, 1.3348), 6: (1.4228, 1.4624), 2: (1.6130, 1.7474), 1: (1.8706, 2.1824)}


@pytest.mark.parametrize(("hours", "prices"), TABLE.items())
def test_worked_prices(hours, prices):
    rate = 1 / (hours * HOUR)
    free = spot_run(1.25, rate, 120, 480, wait_s=600)
    paid = spot_run(1.25, rate, 120, 480, wait_s=600, pays_wait=True)
    assert spot_run(1.25, rate, 120, 480).usd_per_useful_hour == pytest.approx(prices[0], abs=6e-5)
    assert free.usd_per_useful_hour == pytest.approx(prices[0], abs=6e-5)
    assert paid.usd_per_useful_hour == pytest.approx(prices[1], abs=6e-5)
    assert free.goodput == paid.goodput == pytest.approx(1.25 / prices[1], rel=5e-5)
    assert free.paid_goodput > free.goodput


@given(st.floats(1e-7, 3e-4), st.floats(0, 300), st.floats(0, 900), st.floats(0, 3600))
def test_notice_never_hurts(rate, checkpoint, restart, wait):
    sudden = spot_run(1.0, rate, checkpoint, restart, wait_s=wait)
    warned = spot_run_with_notice(1.0, rate, checkpoint, restart, wait_s=wait)
    assert warned.usd_per_useful_hour <= sudden.usd_per_useful_hour * (1 + 1e-9)
    assert 0 < sudden.goodput <= warned.goodput * (1 + 1e-9) <= 1 + 2e-9


def test_rare_preemptions_with_notice_cost_their_own_time():
    found = spot_run_with_notice(2.0, 1e-6, 100, 400, wait_s=500, pays_wait=True)
    assert found.usd_per_useful_hour == pytest.approx(2.0 * (1 + 1e-6 * 1000), rel=1e-6)
    assert found.interval_s == np.inf


def test_batches_stop_a_job_less_often():
    assert job_preemptions_per_s(64, 1e-6) == pytest.approx(6.4e-5)
    assert job_preemptions_per_s(64, 1e-6, batch=8) == pytest.approx(8e-6)


def test_prices_broadcast():
    found = spot_run(1.25, 1 / (np.array([24, 6, 2, 1]) * HOUR), 120, 480)
    assert found.usd_per_useful_hour == pytest.approx([row[0] for row in TABLE.values()], abs=6e-5)
