"""What a run is given: the log-normal time of a diagnosis, and values out of range, refused together."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import lognorm

from simcluster.errors import InputError
from simcluster.operations.checkpoint import SaveTime
from simcluster.operations.setup import Incidents, RunSetup

HOUR = 3600.0
INCIDENTS = Incidents(2.0, 12 * HOUR, 96 * HOUR)
ZERO_OR_MORE = ("restart_s", "detect_s", "startup_s", "step_sigma", "rate_sigma")
NOT_A_TIME = (-1.0, math.inf, math.nan)


@given(st.floats(1.0, 1e6), st.floats(1.001, 20.0))
def test_the_time_of_a_diagnosis_is_log_normal_with_these_two_quantiles(median_s, ratio):
    """Against scipy's distribution, fitted to the median and the 90th percentile."""
    told = Incidents(1.0, median_s, median_s * ratio)
    fitted = lognorm(s=told.sigma, scale=median_s)
    assert fitted.median() == pytest.approx(median_s, rel=1e-9)
    assert fitted.ppf(0.9) == pytest.approx(median_s * ratio, rel=1e-9)
    assert told.mean_s == pytest.approx(fitted.mean(), rel=1e-9)
    assert told.variation == pytest.approx(fitted.std() / fitted.mean(), rel=1e-6)


def test_a_diagnosis_that_always_takes_as_long():
    told = Incidents(1.0, HOUR, HOUR)
    assert (told.sigma, told.mean_s, told.variation) == (0.0, HOUR, 0.0)


def test_half_a_day_in_the_median_and_four_days_once_in_ten():
    """By hand: sigma = ln 8 / 1.28155, mean 12 h x e^(sigma^2/2), cv = sqrt(e^(sigma^2) - 1)."""
    assert INCIDENTS.sigma == pytest.approx(1.6226, abs=5e-5)
    assert INCIDENTS.mean_s / HOUR == pytest.approx(44.76, abs=0.01)
    assert INCIDENTS.variation == pytest.approx(3.594, abs=2e-3)


def refused(**changes):
    with pytest.raises(InputError) as caught:
        RunSetup(**{"step_s": 5.0, **changes})
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("name", ["step_s", "work_s", "interval_s"])
@pytest.mark.parametrize("value", [0.0, *NOT_A_TIME])
def test_what_has_to_be_above_zero(name, value):
    assert refused(**{name: value}) == [f"{name}: {value} should be above zero"]


@pytest.mark.parametrize("name", ZERO_OR_MORE)
@pytest.mark.parametrize("value", NOT_A_TIME)
def test_what_has_to_be_zero_or_more(name, value):
    assert refused(**{name: value}) == [f"{name}: {value} should be zero or more"]


@pytest.mark.parametrize("value", NOT_A_TIME)
def test_parts_are_told_by_their_name(value):
    said = f"{value} should be zero or more"
    assert refused(checkpoint=SaveTime(value)) == [f"checkpoint.blocking_s: {said}"]
    assert refused(checkpoint=SaveTime(0.0, value)) == [f"checkpoint.flush_s: {said}"]
    assert refused(failures_per_s={"gpu": 1e-6, "fabric": value}) == [f"failures_per_s of fabric: {said}"]
    assert refused(incidents=replace(INCIDENTS, per_month=value)) == [f"incidents.per_month: {said}"]


@pytest.mark.parametrize("value", [0.999, 0.0, *NOT_A_TIME])
def test_stragglers_never_speed_a_step_up(value):
    assert refused(slow_down=value) == [f"slow_down: {value} should be 1 or more"]


@pytest.mark.parametrize(
    "times", [(0.0, HOUR), (-HOUR, HOUR), (HOUR, HOUR / 2), (HOUR, math.inf), (math.nan, HOUR), (HOUR, math.nan)]
)
def test_a_median_is_no_longer_than_the_90th_percentile(times):
    (problem,) = refused(incidents=Incidents(1.0, *times))
    assert problem.startswith("incidents: the median time of diagnosis")


def test_every_value_out_of_range_is_told_at_once():
    wrong = dict.fromkeys(("step_s", "work_s", "interval_s", *ZERO_OR_MORE, "slow_down"), -1.0)
    found = refused(
        **wrong,
        failures_per_s={"gpu": -1.0, "fabric": -1.0},
        checkpoint=SaveTime(-1.0, -1.0),
        incidents=Incidents(-1.0, -1.0, -1.0),
    )
    names = {problem.split(":")[0] for problem in found}
    parts = {"checkpoint.blocking_s", "checkpoint.flush_s", "incidents.per_month", "incidents"}
    assert names == {*wrong, *parts, "failures_per_s of gpu", "failures_per_s of fabric"}
    assert len(found) == len(names)


def test_the_edges_are_inside():
    edge = RunSetup(5.0, 1e-9, {"gpu": 0.0}, SaveTime(), 1e-9, slow_down=1.0, incidents=Incidents(0.0, HOUR, HOUR))
    assert edge.checkpoint == SaveTime(0.0, 0.0)
    assert [getattr(edge, name) for name in ZERO_OR_MORE] == [0.0] * 5


def test_a_step_is_all_that_a_run_needs():
    least = RunSetup(5.0)
    assert (least.work_s, least.interval_s, least.incidents) == (None, None, None)
    assert (dict(least.failures_per_s), least.slow_down) == ({}, 1.0)


def test_a_change_is_checked_too():
    with pytest.raises(InputError, match="step_s: 0 should be above zero"):
        replace(RunSetup(5.0), step_s=0)
