"""Drawn wall times against moments in closed form: of counts, of downtime, of step time and rate."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations.course import Course
from simcluster.operations.spread import DRAWS, wall_draws

DAY = 86400.0
COURSE = Course(
    work_s=100 * 3600.0,
    interval_s=3600.0,
    checkpoint_s=60.0,
    flush_s=300.0,
    failures_per_s=3e-5,
    incidents_per_s=2e-6,
    restart_s=500.0,
    down_s=900.0,
    diagnosis_s=40_000.0,
    diagnosis_cv=1.5,
    startup_s=700.0,
)
QUIET = replace(COURSE, failures_per_s=0.0, incidents_per_s=0.0)
STEADY_S = 700.0 + 100 * 60.0 + 100 * 3600.0
MANY = 200_000


def assert_mean(draws, expected, sigmas=5.0):
    """Within that many standard errors."""
    assert draws.mean() == pytest.approx(expected, abs=sigmas * draws.std() / math.sqrt(len(draws)))


def assert_deviation(draws, expected):
    """Heavy tails leave a few percent."""
    assert draws.std() == pytest.approx(expected, rel=0.03)


def test_the_same_seed_gives_the_same_draws_and_another_gives_others():
    one, again, other = (wall_draws(COURSE, 0.1, 0.5, seed) for seed in (1, 1, 2))
    assert one.shape == (DRAWS,)
    assert (one == again).all()
    assert (one != other).all()
    assert len(wall_draws(COURSE, 0.1, 0.5, 1, draws=17)) == 17


def test_a_sequence_of_seeds_is_not_used_up():
    """Its owner spawns the same children before and after."""
    seeds = np.random.SeedSequence(7)
    one, two = wall_draws(COURSE, 0.1, 0.5, seeds), wall_draws(COURSE, 0.1, 0.5, seeds)
    assert (one == two).all()
    assert seeds.n_children_spawned == 0
    assert (one == wall_draws(COURSE, 0.1, 0.5, 7)).all()
    children = np.random.SeedSequence(7).spawn(2)
    first, second = (wall_draws(COURSE, 0.1, 0.5, child) for child in children)
    assert (first != second).all()


@given(st.floats(0, 0.3), st.integers(0, 10))
def test_without_interruptions_only_the_step_time_is_drawn(sigma, seed):
    """Steps are slower, checkpoints as many and as long: (wall - start - checkpoints)/work is log-normal."""
    walls = wall_draws(QUIET, sigma, 0.7, seed)
    error = np.log((walls - 700.0 - 6000.0) / QUIET.work_s)
    assert error.std() == pytest.approx(sigma, rel=0.06, abs=1e-12)
    assert abs(error.mean()) <= 5 * sigma / math.sqrt(DRAWS) + 1e-12


def test_an_error_of_the_comparison_replaces_the_drawn_one():
    given_error = np.linspace(-0.2, 0.2, 11)
    walls = wall_draws(QUIET, 5.0, 0.0, 3, step_log_error=given_error)
    assert walls == pytest.approx(6700.0 + QUIET.work_s * np.exp(given_error), rel=1e-12)
    assert (wall_draws(COURSE, 5.0, 0.3, 3, step_log_error=np.zeros(DRAWS)) == wall_draws(COURSE, 0, 0.3, 3)).all()


def test_two_runs_with_one_seed_share_the_errors_of_step_time_and_rate():
    """A run of twice the work takes twice the steps' time in every draw, not on average alone."""
    longer = wall_draws(replace(QUIET, work_s=2 * QUIET.work_s), 0.2, 0.0, 5) - 700.0 - 12_000.0
    assert longer == pytest.approx(2 * (wall_draws(QUIET, 0.2, 0.0, 5) - 6700.0), rel=1e-9)
    often = replace(COURSE, incidents_per_s=0.0, work_s=100 * COURSE.work_s)
    steady = 700.0 + 100 * (6000.0 + COURSE.work_s)
    runs = ((1e-5, 5), (2e-5, 5), (2e-5, 6))
    lost = [np.log(wall_draws(replace(often, failures_per_s=rate), 0.0, 1.0, seed) - steady) for rate, seed in runs]
    together = np.corrcoef(lost)
    assert together[0, 1] > 0.98
    assert abs(together[0, 2]) < 0.1


@pytest.mark.parametrize("slower", [1.0, 1.5])
@pytest.mark.parametrize("flush_s", [0.0, 300.0])
@pytest.mark.parametrize("per_span", [0.02, 0.2, 1.0])
def test_the_mean_is_the_renewal_equation(per_span, flush_s, slower):
    """E[segment] = e^(lambda (R + F)) (1/lambda + D) (e^(lambda (tau + C)) - 1), written out here.

    Slower steps lengthen the time between two checkpoints, not their number.
    """
    rate = per_span / 3660.0
    course = replace(COURSE, failures_per_s=0.9 * rate, incidents_per_s=0.1 * rate, flush_s=flush_s)
    down = 0.9 * 900.0 + 0.1 * 40_000.0
    segment = math.exp(rate * (500.0 + flush_s)) * (1 / rate + down) * math.expm1(rate * (3600.0 * slower + 60.0))
    walls = wall_draws(course, 0.0, 0.0, 11, step_log_error=np.full(MANY, math.log(slower)))
    assert_mean(walls, 700.0 + 100 * segment)


def test_the_number_of_interruptions_is_a_sum_of_geometric_ones():
    """Where an interruption costs its downtime alone: n p-geometric segments have the variance n m (1 + m)."""
    course = replace(COURSE, checkpoint_s=0.0, flush_s=0.0, restart_s=0.0, incidents_per_s=0.0, down_s=1e9, startup_s=0)
    course = replace(course, failures_per_s=5e-5)
    mean = math.expm1(5e-5 * 3600.0)
    counts = (wall_draws(course, 0.0, 0.0, 13, draws=MANY) - course.work_s) / 1e9
    assert_mean(counts, 100 * mean)
    assert_deviation(counts, math.sqrt(100 * mean * (1 + mean)))
    assert (counts == 0).mean() < 1e-3


def test_a_restart_that_fails_is_begun_again():
    """A restart of R seconds is struck e^(lambda R) - 1 times and takes (e^(lambda R) - 1)/lambda."""
    course = replace(COURSE, interval_s=1.0, work_s=1e5, checkpoint_s=0.0, flush_s=0.0, down_s=0.0, startup_s=0.0)
    course = replace(course, failures_per_s=1e-3, incidents_per_s=0.0, restart_s=2000.0)
    struck = 1e5 * math.expm1(1e-3)
    restarts = wall_draws(course, 0.0, 0.0, 17, draws=20_000) - 1e5
    assert_mean(restarts, struck * math.expm1(2.0) / 1e-3 + 1e5 * (math.expm1(1e-3) / 1e-3 - 1))


def test_diagnoses_add_up_to_the_right_mean_and_variance():
    """Over a mixed count K of log-normal times d: E = E[K] d, Var = E[K] d^2 cv^2 + Var[K] d^2."""
    course = replace(COURSE, failures_per_s=0.0, checkpoint_s=0.0, flush_s=0.0, restart_s=0.0, startup_s=0.0)
    course = replace(course, incidents_per_s=5e-5, diagnosis_s=1e8, diagnosis_cv=0.8)
    mean = math.expm1(5e-5 * 3600.0)
    down = (wall_draws(course, 0.0, 0.0, 19, draws=MANY) - course.work_s) / 1e8
    assert_mean(down, 100 * mean)
    assert_deviation(down, math.sqrt(100 * mean * (0.8**2 + 1 + mean)))


def test_an_unknown_rate_is_log_normal_in_its_failures_and_leaves_incidents_alone():
    """The mean count grows by e^(sigma^2/2), where a segment is rarely struck."""
    course = replace(COURSE, checkpoint_s=0.0, flush_s=0.0, restart_s=0.0, startup_s=0.0, interval_s=36.0, down_s=1e9)
    rare = replace(course, failures_per_s=1e-4, incidents_per_s=0.0)
    counts = (wall_draws(rare, 0.0, 0.6, 23, draws=MANY) - rare.work_s) / 1e9
    assert_mean(counts, 36.0 * math.exp(0.18))
    assert_deviation(counts, math.sqrt(36 * math.exp(0.18) + 36**2 * math.exp(0.36) * math.expm1(0.36)))
    incidents = replace(course, failures_per_s=0.0, incidents_per_s=1e-4)
    assert (wall_draws(incidents, 0.1, 0.0, 23) == wall_draws(incidents, 0.1, 2.0, 23)).all()


@given(
    st.floats(0, 1e-2),
    st.floats(0, 1e-3),
    st.floats(1.0, 1e5),
    st.floats(0, 1e4),
    st.just(0.0) | st.floats(0, 1e4),
    st.floats(0, 1.5),
)
def test_no_run_ends_before_its_work_is_done(failures, incidents, interval, flush, restart, sigma):
    course = replace(
        COURSE,
        failures_per_s=failures,
        incidents_per_s=incidents,
        interval_s=interval,
        flush_s=flush,
        restart_s=restart,
    )
    course = replace(course, down_s=0.0, diagnosis_s=0.0)
    walls = wall_draws(course, 0.0, sigma, 29, draws=200)
    assert np.isfinite(walls).all()
    assert (walls >= (700.0 + course.segments * 60.0 + course.work_s) * (1 - 1e-12)).all()


def test_an_interruption_never_gives_time_back():
    """A single one loses half a span on average and as much again in deviation: the draw is cut off at nothing."""
    course = replace(COURSE, failures_per_s=3e-6, incidents_per_s=0.0, restart_s=0.0, down_s=0.0)
    walls = wall_draws(course, 0.0, 0.0, 37, draws=MANY)
    assert walls.min() == pytest.approx(STEADY_S, rel=1e-12)
    assert (walls > STEADY_S + 1.0).mean() == pytest.approx(-math.expm1(-3e-6 * 366_000.0), abs=0.05)


@pytest.mark.parametrize("interval_s", [3600.0, 0.01])
def test_a_hopeless_run_is_long_and_finite(interval_s):
    walls = wall_draws(replace(COURSE, failures_per_s=1.0, interval_s=interval_s), 0.1, 1.0, 31)
    assert np.isfinite(walls).all()
    assert np.median(walls) > 1e4 * STEADY_S
