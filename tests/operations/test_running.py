"""A run from its numbers: ledger, interval, spread."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.operations.checkpoint import SaveTime
from simcluster.operations.renewal import best_interval_s, goodput
from simcluster.operations.running import Incidents, RunSetup, planned_course, run
from simcluster.operations.spread import wall_draws
from simcluster.units import MONTH_S

DAY = 86400.0
BASE = {
    "step_s": 5.0,
    "work_s": 20 * DAY,
    "failures_per_s": {"gpu": 0.7 / DAY, "fabric": 0.3 / DAY},
    "checkpoint": SaveTime(30.0, 120.0),
    "restart_s": 400.0,
    "detect_s": 600.0,
    "startup_s": 500.0,
    "slow_down": 1.02,
    "incidents": Incidents(2, 12 * 3600.0, 4 * DAY),
    "step_sigma": 0.05,
    "rate_sigma": 0.5,
}


def setup(**changes):
    return RunSetup(**{**BASE, **changes})


SETUPS = st.builds(
    setup,
    work_s=st.floats(10.0, 1e8),
    step_s=st.floats(0.1, 60),
    failures_per_s=st.dictionaries(st.sampled_from("abc"), st.floats(0, 1e-4)),
    checkpoint=st.builds(SaveTime, st.floats(0, 300), st.floats(0, 600)),
    interval_s=st.none() | st.floats(600, 1e4),
    restart_s=st.floats(0, 3600),
    detect_s=st.floats(0, 1e5),
    startup_s=st.floats(0, 3600),
    slow_down=st.floats(1, 2),
    incidents=st.none() | st.just(BASE["incidents"]),
    step_sigma=st.floats(0, 0.3),
    rate_sigma=st.floats(0, 1),
)


@given(SETUPS)
def test_the_ledger_is_the_wall_time(given_setup):
    found = run(given_setup)
    assert sum(found.ledger_s.values()) == pytest.approx(found.wall_s, rel=1e-9)
    assert sum(found.shares.values()) == pytest.approx(1, rel=1e-9)
    assert min(found.ledger_s.values()) >= 0
    assert found.ledger_s["useful"] == pytest.approx(given_setup.work_s, rel=1e-12)
    assert found.goodput == pytest.approx(given_setup.work_s / found.wall_s, rel=1e-9)
    assert 0 < found.goodput <= 1
    assert found.wall_s_p10 <= found.wall_s <= found.wall_s_p90
    assert sum(found.interruptions.values()) == pytest.approx(found.expected_interruptions, rel=1e-9)
    assert sum(found.interruptions_per_s.values()) * found.wall_s == pytest.approx(
        found.expected_interruptions, rel=1e-9
    )
    assert all(math.isfinite(value) for value in (found.wall_s, found.wall_s_p10, found.wall_s_p90))


def simulate(course, draws):
    """One run event by event: (checkpoint, lost, restart, downtime) in seconds, and interruptions."""
    span, total = course.interval_s + course.checkpoint_s, round(course.segments)
    rate = course.interruptions_per_s
    sigma = math.sqrt(math.log1p(course.diagnosis_cv**2))
    safe = running = restarts = down = interruptions = 0
    while safe < total:
        left = draws.exponential(1 / rate)
        cycles = max((left - course.flush_s) // span, 0)  # snapshots that are flushed before the failure
        if safe + cycles >= total:
            running += (total - safe) * span
            break
        safe, running = safe + cycles, running + left
        while True:
            interruptions += 1
            if draws.random() < course.incident_share:
                down += course.diagnosis_s * math.exp(sigma * draws.standard_normal() - sigma**2 / 2)
            else:
                down += course.down_s
            left = draws.exponential(1 / rate)
            if left >= course.restart_s:
                break
            restarts += left
        restarts += course.restart_s
    # what a restart leaves of the time to the next failure is memoryless: the loop draws it anew
    lost = running - total * span
    return total * course.checkpoint_s, lost, restarts + course.startup_s, down, interruptions


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": SaveTime(60.0)},
        {"failures_per_s": {"gpu": 8 / DAY}, "checkpoint": SaveTime(2.0, 500.0), "detect_s": 1800.0, "incidents": None},
        {"work_s": 2 * DAY, "checkpoint": SaveTime(60.0), "incidents": Incidents(10, 3600.0, 10 * 3600.0)},
    ],
)
def test_means_and_spread_agree_with_an_event_by_event_simulation(changes):
    given_setup = setup(step_sigma=0.0, rate_sigma=0.0, **changes)
    course, _ = planned_course(given_setup)
    found = run(given_setup)
    draws = np.random.default_rng(3)
    runs = np.array([simulate(course, draws) for _ in range(3000)])
    expected = [found.ledger_s[name] for name in ("checkpoint", "lost_work", "restart", "downtime")]
    error = runs.std(axis=0) / np.sqrt(len(runs))
    rounding = 1.0 / round(course.segments) + 1e-3  # the simulation has whole segments and its last flush is free
    difference = np.abs(runs.mean(axis=0) - [*expected, found.expected_interruptions])
    assert np.all(difference < 4 * error + rounding * np.abs([*expected, found.expected_interruptions]))
    walls = course.work_s + runs[:, :4].sum(axis=1)
    low, high = np.quantile(walls, [0.1, 0.9])
    width = high - low
    assert found.wall_s_p10 == pytest.approx(low, abs=0.12 * width)
    assert found.wall_s_p90 == pytest.approx(high, abs=0.12 * width)
    assert wall_draws(course, 0, 0, 1).mean() == pytest.approx(found.wall_s, rel=0.02)


def test_the_interval_is_the_best_number_of_whole_steps():
    given_setup = setup(work_s=None, checkpoint=SaveTime(30.0), slow_down=1.0, incidents=None)
    found = run(given_setup)
    ideal = best_interval_s(30.0, 1 / DAY)
    assert found.interval_s == found.interval_steps * 5.0
    assert abs(found.interval_s - ideal) <= 5.0
    near = [
        run(setup(work_s=None, checkpoint=SaveTime(30.0), slow_down=1.0, incidents=None, interval_s=5.0 * steps))
        for steps in range(found.interval_steps - 3, found.interval_steps + 4)
    ]
    assert max(other.goodput for other in near) == found.goodput


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({"interval_s": 1003.0}, 197),  # at 5.1 s a step
        ({"interval_s": 120.0}, 24),  # the flush of 120 s has to end before the next
        ({"interval_s": 1.0, "checkpoint": SaveTime(1.0)}, 1),
        ({"interval_s": 1e9, "work_s": 2 * DAY}, 34560),  # never more than the run has
        ({"checkpoint": SaveTime(0.0)}, 1),
        ({"failures_per_s": {}, "incidents": None}, 345600),
        ({"failures_per_s": {}, "incidents": None, "work_s": None}, None),
    ],
)
def test_interval_in_steps(changes, steps):
    found = run(setup(**changes))
    assert found.interval_steps == steps
    assert found.interval_s == (None if steps is None else pytest.approx(steps * 5.1))


def test_checkpoints_that_overtake_each_other_are_refused():
    with pytest.raises(InputError, match=r"operations\.checkpoint\.interval: 60 s is less than the 120 s"):
        run(setup(interval_s=60.0))


@given(SETUPS)
def test_more_failures_take_as_much_longer_as_the_share_says(given_setup):
    found = run(given_setup)
    more = {cause: 1.02 * rate for cause, rate in given_setup.failures_per_s.items()}
    kept = replace(given_setup, interval_s=found.interval_s, failures_per_s=more)
    slope = np.log(run(kept).wall_s / found.wall_s) / np.log(1.02)
    assert found.rate_share == pytest.approx(slope, rel=0.05, abs=1e-6)


def test_open_work_has_rates_but_no_end():
    found = run(setup(work_s=None))
    assert (found.wall_s, found.wall_s_p10, found.ledger_s, found.expected_interruptions) == (None,) * 4
    stated = run(setup(work_s=1e9, startup_s=0.0))
    assert found.goodput == pytest.approx(stated.goodput, rel=1e-3)
    assert found.interval_steps == stated.interval_steps
    assert found.interruptions_per_s == pytest.approx(stated.interruptions_per_s, rel=1e-3)
    assert found.mtbf_s == stated.mtbf_s == pytest.approx(1 / (1 / DAY + 2 / MONTH_S))


def test_nothing_happens_where_nothing_fails():
    found = run(setup(failures_per_s={}, incidents=None, startup_s=0.0, slow_down=1.0, step_sigma=0.0))
    assert found.wall_s == pytest.approx(20 * DAY + 30.0)  # one checkpoint, at the end
    assert found.wall_s_p10 == found.wall_s == found.wall_s_p90
    assert (found.mtbf_s, found.expected_interruptions, dict(found.interruptions)) == (None, 0.0, {})


def test_a_steady_run_is_the_renewal_equation():
    found = run(RunSetup(1.0, None, {"all": 1e-4}, SaveTime(20.0, 10.0), 500.0, restart_s=100.0, detect_s=50.0))
    expected = goodput(500.0, 20.0, 1e-4, restart_s=100.0, down_s=50.0, flush_s=10.0)
    assert found.goodput == pytest.approx(expected, rel=1e-12)


def test_interruptions_by_cause_keep_their_proportion():
    found = run(setup())
    assert set(found.interruptions) == {"gpu", "fabric", "incident"}
    assert found.interruptions["gpu"] / found.interruptions["fabric"] == pytest.approx(7 / 3)
    assert found.interruptions["incident"] / found.interruptions["gpu"] == pytest.approx(2 / MONTH_S / (0.7 / DAY))


def test_incidents_last_their_mean():
    """Median 12 h and 90th percentile 4 days: ln spread ln(8)/1.28155, mean 44.8 h."""
    incidents = Incidents(2, 12 * 3600.0, 4 * DAY)
    draws = 12 * np.exp(incidents.sigma * np.random.default_rng(0).standard_normal(2_000_000))
    assert incidents.mean_s / 3600 == pytest.approx(draws.mean(), rel=0.01)
    assert np.quantile(draws, 0.9) == pytest.approx(96, rel=0.01)
    alone = run(setup(failures_per_s={}, incidents=incidents, restart_s=0.0))
    assert alone.ledger_s["downtime"] == pytest.approx(alone.expected_interruptions * incidents.mean_s)


@pytest.mark.parametrize("name", ["restart_s", "detect_s", "startup_s", "slow_down", "work_s"])
def test_wall_time_grows_with_every_cost(name):
    assert run(setup(**{name: BASE[name] * 1.1})).wall_s > run(setup()).wall_s


def test_uncertainty_widens_the_interval():
    widths = []
    for step, rate in [(0.0, 0.0), (0.0, 0.6), (0.1, 0.6)]:
        found = run(setup(step_sigma=step, rate_sigma=rate, incidents=None))
        widths.append(found.wall_s_p90 - found.wall_s_p10)
    assert widths[0] < widths[1] < widths[2]
    sure = run(setup(step_sigma=0.1, failures_per_s={}, incidents=None, startup_s=0.0))
    assert sure.wall_s_p90 / sure.wall_s == pytest.approx(math.exp(0.1 * 1.2816), rel=0.01)


def test_the_same_seed_gives_the_same_bytes():
    sequence = np.random.SeedSequence(7)
    assert run(setup(), sequence) == run(setup(), sequence) == run(setup(), 7)
    assert sequence.n_children_spawned == 0
    assert run(setup(), 8).wall_s_p90 != run(setup(), 7).wall_s_p90
    assert run(setup(), 8).wall_s == run(setup(), 7).wall_s


def test_two_runs_with_one_seed_share_their_errors():
    """What differs for sure differs in nearly every draw."""
    first, second = (planned_course(setup(work_s=work, incidents=None))[0] for work in (20 * DAY, 20.6 * DAY))
    gap = wall_draws(second, 0.1, 0.5, 1) / wall_draws(first, 0.1, 0.5, 1)
    assert np.mean(gap > 1) > 0.99
    given_errors = wall_draws(first, 0.1, 0.5, 1, step_log_error=np.zeros(100))
    assert given_errors.shape == (100,)
    assert given_errors.std() < wall_draws(first, 0.1, 0.5, 1).std()


def test_a_run_takes_milliseconds():
    run(setup())
    times = []
    for _ in range(20):
        start = time.perf_counter()
        run(setup())
        times.append(time.perf_counter() - start)
    assert min(times) < 5e-3


def test_a_run_that_makes_no_headway_is_refused():
    with pytest.raises(InputError, match="makes no headway"):
        run(setup(failures_per_s={"gpu": 1.0}))


def test_hard_conditions_stay_finite():
    found = run(setup(failures_per_s={"gpu": 1e-2}, restart_s=600.0, rate_sigma=1.0, checkpoint=SaveTime(2.0)))
    assert 1e-6 < found.goodput < 0.01
    assert math.isfinite(found.wall_s_p90)


def test_every_value_out_of_range_is_named():
    with pytest.raises(InputError) as caught:
        setup(
            step_s=0.0,
            work_s=math.inf,
            failures_per_s={"gpu": -1.0},
            restart_s=math.nan,
            slow_down=0.9,
            incidents=Incidents(-1, 10.0, 5.0),
        )
    assert len(caught.value.problems) == 7
    assert {"step_s", "work_s", "failures_per_s", "restart_s", "slow_down"} <= {
        str(problem).split(":")[0].split(" ")[0] for problem in caught.value.problems
    }
