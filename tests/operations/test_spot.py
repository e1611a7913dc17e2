"""The price of an hour that counts on capacity that can be taken away."""

import pytest

from simcluster.operations.checkpoint import SaveTime
from simcluster.operations.running import RunSetup, run
from simcluster.operations.spot import job_preemptions_per_s

HOUR = 3600.0
TABLE = {24: (1.3256, 1.3348), 6: (1.4228, 1.4624), 2: (1.6130, 1.7474), 1: (1.8706, 2.1824)}


@pytest.mark.parametrize(("hours", "prices"), TABLE.items())
def test_worked_prices(hours, prices):
    """1.25 USD an hour, checkpoints of 2 min, restarts of 8 min, ten minutes until other machines are had."""
    rates = {"taken": 1 / (hours * HOUR)}
    found = run(RunSetup(0.5, None, rates, SaveTime(120.0), restart_s=480.0, detect_s=600.0))
    waits = found.interruptions_per_s["taken"] * 600.0
    assert 1.25 / found.goodput * (1 - waits) == pytest.approx(prices[0], abs=6e-5)
    assert 1.25 / found.goodput == pytest.approx(prices[1], abs=6e-5)
    assert waits == pytest.approx(found.shares["downtime"], rel=1e-9)


def test_any_instance_stops_the_job():
    assert job_preemptions_per_s(64, 1e-6) == pytest.approx(6.4e-5)
