"""The renewal equation and the best interval, against published figures, closed forms and simulation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations.renewal import best_interval_s, goodput, segment, segment_s

HOUR = 3600.0
RATES = st.floats(1e-9, 1e-2)
LLAMA = 54 * 24 * HOUR / 419  # MTBF of Llama 3 405B on 16384 GPUs


def young_s(checkpoint_s, mtbf_s):
    """J. W. Young, CACM 17 (1974) 530: sqrt(2 C M), from the end of a checkpoint to the end of the next."""
    return np.sqrt(2.0 * checkpoint_s * mtbf_s)


def daly_s(checkpoint_s, mtbf_s):
    """J. T. Daly, FGCS 22 (2006) 303, for checkpoints that take less than twice the MTBF: steps between two."""
    half = checkpoint_s / (2.0 * mtbf_s)
    return young_s(checkpoint_s, mtbf_s) * (1.0 + np.sqrt(half) / 3.0 + half / 9.0) - checkpoint_s


def optimum(checkpoint_s, mtbf_s, **costs):
    tau = best_interval_s(checkpoint_s, 1 / mtbf_s)
    return tau, goodput(tau, checkpoint_s, 1 / mtbf_s, **costs)


@pytest.mark.parametrize(
    ("mtbf_min", "published", "series", "exact"),
    [(24 * 60, 117, 116.690, 116.690), (6 * 60, 57, 56.713, 56.714), (15, 9.1, 9.141, 9.167)],
)
def test_dalys_published_intervals(mtbf_min, published, series, exact):
    assert daly_s(5, mtbf_min) == pytest.approx(series, abs=5e-4)
    assert best_interval_s(5, 1 / mtbf_min) == pytest.approx(exact, abs=5e-4)
    assert daly_s(5, mtbf_min) == pytest.approx(published, rel=0.006)


@pytest.mark.parametrize(
    ("gpus", "seconds", "steps_of_5", "steps_of_20"),
    [
        (64, 18496, 3699, 925),
        (256, 9248, 1850, 462),
        (512, 6539, 1308, 327),
        (1024, 4624, 925, 231),
        (16384, 1156, 231, 58),
    ],
)
def test_youngs_interval_at_the_failure_rate_of_a_large_fleet(gpus, seconds, steps_of_5, steps_of_20):
    """Checkpointing every 500 to 1000 steps suits 256 to 1024 GPUs at a minute each."""
    found = young_s(60, LLAMA * 16384 / gpus)
    assert found == pytest.approx(seconds, abs=1.5)
    assert (round(found / 5), round(found / 20)) == (steps_of_5, steps_of_20)


@pytest.mark.parametrize(
    ("checkpoint", "restart_min", "down_min", "tau_min", "expected"),
    [(5, 3, 2, 5.506, 0.94459), (5, 5, 5, 5.506, 0.91976), (30, 3, 3, 13.29, 0.89896), (60, 5, 10, 18.60, 0.83105)],
)
def test_goodput_at_an_mtbf_of_three_hours(checkpoint, restart_min, down_min, tau_min, expected):
    tau, found = optimum(checkpoint, 3.0931 * HOUR, restart_s=60 * restart_min, down_s=60 * down_min)
    assert tau / 60 == pytest.approx(tau_min, abs=6e-3)
    assert found == pytest.approx(expected, abs=2e-5)


def test_worked_segment():
    assert segment_s(1, 0.1, 0.5, restart_s=0.2, down_s=0.3) == pytest.approx(1.86385, abs=5e-6)


def simulate(tau, blocking, rate, restart, down, flush, segments, seed):
    """Event by event: seconds of (useful, checkpoint, lost, restart, down) and interruptions.

    A snapshot taken at the end of a segment counts once its flush ends; a failure goes back to the last that counts.
    """
    draws = np.random.default_rng(seed)
    next_failure = lambda: draws.exponential(1 / rate)  # noqa: E731
    done = running = restarts = interruptions = 0
    left = next_failure()  # running time until the next failure
    start = 0.0  # running time since the restart or the last snapshot
    pending = None
    while done < segments:
        until_snapshot = tau + blocking - start
        until_flushed = flush - start if pending else np.inf
        step = min(until_snapshot, until_flushed, left)
        running, start, left = running + step, start + step, left - step
        if left <= 0:
            interruptions += 1
            left = next_failure()
            while left < restart:
                restarts, interruptions, left = restarts + left, interruptions + 1, next_failure()
            restarts, left, start, pending = restarts + restart, left - restart, 0.0, None
        elif until_flushed <= until_snapshot:
            done, pending = done + 1, None
        else:
            start = 0.0
            done, pending = (done, True) if flush > 0 else (done + 1, None)
    lost = running - done * (tau + blocking)
    return np.array([done * tau, done * blocking, lost, restarts, interruptions * down, interruptions])


@pytest.mark.parametrize("flush", [0.0, 0.6])
def test_parts_agree_with_an_event_by_event_simulation(flush):
    count = 4000
    runs = np.array([simulate(1, 0.1, 0.5, 0.2, 0.3, flush, count, seed) for seed in range(12)]) / count
    parts = segment(1, 0.1, 0.5, restart_s=0.2, down_s=0.3, flush_s=flush)
    expected = [
        parts.useful_s,
        parts.checkpoint_s,
        parts.lost_s,
        parts.restart_s,
        parts.down_s,
        parts.interruptions,
    ]
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs))
    assert np.all(np.abs(runs.mean(axis=0) - expected) < 4 * error + 1e-3)


@given(st.floats(1, 1e5), st.floats(0, 1e3), RATES, st.floats(0, 100), st.floats(0, 1e5), st.floats(0, 1))
def test_parts_sum_to_the_renewal_equation(tau, checkpoint, rate, restart, down, share):
    rate = min(rate, 30 / (tau + checkpoint + restart))
    costs = {"restart_s": restart, "down_s": down, "flush_s": share * tau}
    parts = segment(tau, checkpoint, rate, **costs)
    assert parts.total_s == pytest.approx(segment_s(tau, checkpoint, rate, **costs), rel=1e-9)
    assert min(parts.lost_s, parts.restart_s, parts.down_s) >= 0
    uptime = parts.total_s - parts.down_s
    assert parts.interruptions == pytest.approx(uptime * rate, rel=1e-9)  # Wald: failures strike all but downtime
    assert 0 < goodput(tau, checkpoint, rate, **costs) <= 1


@given(st.floats(1, 1e5), st.floats(0, 1e3))
def test_without_failures_only_checkpoints_cost(tau, checkpoint):
    assert goodput(tau, checkpoint, 0.0, restart_s=9, down_s=9) == pytest.approx(tau / (tau + checkpoint), rel=1e-14)
    parts = segment(tau, checkpoint, 0.0, restart_s=9, down_s=9, flush_s=1)
    assert (parts.lost_s, parts.restart_s, parts.down_s, parts.interruptions) == (0, 0, 0, 0)


@given(RATES)
def test_free_checkpoints_and_restarts_lose_nothing_in_the_limit(rate):
    assert goodput(1e-6, 0.0, rate) == pytest.approx(1, abs=1e-8)
    assert best_interval_s(0.0, rate) == pytest.approx(0, abs=1e-6 / rate)


@given(st.floats(0.1, 1e3), RATES, st.floats(0, 1e3), st.floats(0, 1e4))
def test_the_best_interval_is_a_minimum(checkpoint, rate, restart, down):
    tau = best_interval_s(checkpoint, rate)
    if rate * (tau + checkpoint + restart) > 300:
        return
    here, left, right = goodput(np.array([1, 0.95, 1.05]) * tau, checkpoint, rate, restart_s=restart, down_s=down)
    assert here >= max(left, right)


@pytest.mark.parametrize("share", [1e-12, 1e-9, 0.99e-8, 1.01e-8, 1e-6, 1e-3])
def test_the_best_interval_tends_to_youngs(share):
    """Both sides of where the expansion takes over from Lambert's W."""
    assert best_interval_s(share, 1.0) + share == pytest.approx(young_s(share, 1.0), rel=np.sqrt(share))
    assert best_interval_s(share, 1.0) == pytest.approx(daly_s(share, 1.0), rel=1e-4 * np.sqrt(share) + 3e-9)


def test_an_interval_is_not_shorter_than_the_flush():
    free = best_interval_s(1.0, 1e-4)
    assert best_interval_s(1.0, 1e-4, flush_s=free / 2) == free
    assert best_interval_s(1.0, 1e-4, flush_s=2 * free) == 2 * free


def test_first_order_loss_of_asynchronous_checkpoints():
    """C/tau + (tau/2 + F + R + D)/M for rare failures."""
    mtbf, tau, blocking, flush, restart, down = 1e7, 2000.0, 0.2, 300.0, 200.0, 100.0
    loss = 1 - goodput(tau, blocking, 1 / mtbf, restart_s=restart, down_s=down, flush_s=flush)
    assert loss == pytest.approx(blocking / tau + (tau / 2 + flush + restart + down) / mtbf, rel=1e-3)


@given(RATES, st.floats(1.01, 3))
def test_goodput_falls_with_every_cost(rate, factor):
    costs = {"checkpoint_s": 20.0, "failures_per_s": rate, "restart_s": 60.0, "down_s": 90.0, "flush_s": 30.0}
    base = goodput(600.0, **costs)
    for name in costs:
        assert goodput(600.0, **{**costs, name: costs[name] * factor}) < base


def test_small_rates_lose_half_a_span_each():
    """No cancellation: the loss is half a span and the flush, down to the smallest rates."""
    rate = np.array([1e-14, 1e-10, 1e-8, 9.9e-8, 1.01e-7])
    parts = segment(900.0, 100.0, rate, flush_s=50.0)
    assert parts.lost_s / parts.interruptions == pytest.approx(np.full(5, 550.0), rel=1e-4)


def test_arguments_broadcast_and_scalars_stay_floats():
    rate = np.array([[0.0], [1e-5]])
    tau = np.array([100.0, 1000.0, 10000.0])
    grid = goodput(tau, 10.0, rate, restart_s=100.0)
    assert grid.shape == (2, 3)
    assert grid[1, 2] == goodput(10000.0, 10.0, 1e-5, restart_s=100.0)
    assert segment(tau, 10.0, rate).useful_s.shape == (2, 3)
    assert best_interval_s(np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0, 1e-4])) == pytest.approx(
        [np.inf, 0.0, best_interval_s(1.0, 1e-4)]
    )
    assert type(goodput(1.0, 0.0, 0.0)) is type(best_interval_s(1.0, 1.0)) is float


def test_hopeless_rates_give_zero_goodput_without_a_warning():
    assert goodput(1e6, 10.0, 1.0) == 0.0
    parts = segment(1e6, 10.0, np.array([1.0, 1e3]), restart_s=1e6, flush_s=1e6)
    assert np.all(np.isfinite(parts.total_s) & (parts.total_s > 1e80))
    assert parts.down_s == pytest.approx([0, 0])
