"""Checks for silent data corruption."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations.verification import best_check_interval_s, check_loss, checkpoints_to_keep

DAY = 86400.0


def test_worked_example():
    """Two minutes a check, an error in 30 days: every 6.93 h, 0.962 % lost, half of it to checks."""
    found = best_check_interval_s(120.0, 1 / (30 * DAY))
    assert found / DAY == pytest.approx(0.28868, abs=5e-6)
    loss = check_loss(120.0, found, 1 / (30 * DAY))
    assert loss == pytest.approx(0.00962, abs=5e-6)
    assert 120.0 / found == pytest.approx(loss / 2)


@given(st.floats(0.1, 600), st.floats(1e-9, 1e-5), st.floats(0, 3600))
def test_the_best_interval_is_a_minimum(check, rate, restart):
    here, *others = check_loss(check, best_check_interval_s(check, rate) * np.array([1, 0.95, 1.05]), rate, restart)
    assert here <= min(others)


def test_checksums_every_hundred_steps_cost_what_they_take():
    assert check_loss(2.5, 500.0, 0.0) == pytest.approx(0.005)


def test_a_checkpoint_older_than_the_last_check_is_kept():
    assert checkpoints_to_keep(3600.0, 3600.0) == 2
    assert checkpoints_to_keep(np.array([10.0, 3601.0]), 3600.0) == pytest.approx([2, 3])
