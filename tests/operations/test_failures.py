"""Rates by cause, scaled to a job."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations import failures
from simcluster.operations.failures import CauseRate, Parts

DAY, HOUR = 86400.0, 3600.0
LLAMA = failures.observed_per_s(419, 2048, 54 * DAY)
CAUSES = st.dictionaries(st.sampled_from("abcdef"), st.floats(0, 1e-3), max_size=6)


def test_figures_of_a_published_run():
    """419 interruptions in 54 days on 2048 nodes of 8."""
    job = failures.job_rates([CauseRate("all", "node", LLAMA)], Parts(nodes=2048))
    assert failures.mtbf_s(job) / HOUR == pytest.approx(3.0931, abs=5e-5)
    assert pytest.approx(3.7887, abs=5e-5) == LLAMA * DAY * 1000
    gpu = failures.observed_per_s(419, 16384, 54 * DAY)
    assert gpu * 365 * DAY == pytest.approx(0.17298, abs=2e-4)
    assert 1 / gpu / HOUR == pytest.approx(50677, abs=1)
    assert failures.mtbf_s({"all": 512 * gpu}) / HOUR == pytest.approx(98.98, abs=5e-3)


def test_each_unit_scales_with_its_own_count():
    rates = [CauseRate(unit, unit, 1.0) for unit in ("node", "gpu", "nic", "port", "job")]
    found = failures.job_rates(rates, Parts(nodes=2, gpus=16, nics=17, ports=33))
    assert found == {"node": 2, "gpu": 16, "nic": 17, "port": 33, "job": 1}


def test_rates_broadcast_over_job_sizes():
    found = failures.mtbf_s(failures.job_rates([CauseRate("all", "node", LLAMA)], Parts(nodes=np.array([1, 2, 0]))))
    assert found[0] == pytest.approx(2 * found[1])
    assert found[2] == np.inf


def test_no_causes_no_interruptions():
    assert failures.mtbf_s({}) == np.inf
    assert failures.mtbf_s({"a": 0.0}) == np.inf
    assert failures.expected_interruptions({}, 1e9) == {}


@given(CAUSES)
def test_merging_keeps_the_total(rates):
    merged = failures.merge(rates, {"ab": ["a", "b"], "cd": ["c", "d"]})
    assert sum(merged.values()) == pytest.approx(sum(rates.values()), abs=1e-18)
    assert not set(merged) & set("abcd")


def test_a_cause_in_two_groups_is_refused():
    with pytest.raises(ValueError, match="'a' is in the groups 'x' and 'y'"):
        failures.merge({"a": 1.0}, {"x": ["a"], "y": ["a"]})


def test_mean_delay_is_weighted_by_rate():
    rates = {"crash": 3.0, "hang": 1.0}
    assert failures.mean_delay_s(rates, {"crash": 4.0, "hang": 600.0}) == pytest.approx(153.0)
    assert failures.mean_delay_s({}, {"hang": 600.0}, 5.0) == 0
    assert failures.mean_delay_s({"crash": np.array([1.0, 0.0])}, {}, 5.0) == pytest.approx([5.0, 0.0])


def test_spread_between_fleets_is_that_of_the_published_ones():
    logs = np.log([6.50, 2.34, 3.79])
    assert pytest.approx(logs.std(ddof=1) * np.sqrt(4 / 3), abs=0.005) == failures.FOREIGN_FLEET_SIGMA


def test_few_events_say_little():
    assert failures.observed_sigma(0) > 1 > failures.observed_sigma(10) > failures.observed_sigma(1000)
    draws = np.random.default_rng(0).poisson(400, 100_000)
    assert failures.observed_sigma(400) == pytest.approx(np.log(draws).std(), rel=0.02)
