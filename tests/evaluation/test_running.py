"""The weeks of a run: the ledger sums, the renewal equation holds, failures cost days."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.evaluation.running import save_time

PARTS = {"useful", "checkpoint", "lost_work", "restart", "downtime", "degraded"}
TERMS = st.sampled_from(["own", "on-demand", "1y", "spot"])
RATES = st.floats(0, 0.5)


def job(rate=None, spares=None, term=None, tokens="20B", **operations):
    """A change of the base scenario; `rate` in interruptions of a node a day."""
    change = {"training": {"tokens": tokens}, "operations": operations}
    if rate is not None:
        operations.setdefault("failures", {})["rates"] = {"interruptions_per_node_day": rate}
    if spares is not None:
        change["cluster"] = {"spares": spares}
    if term is not None:
        change["acquire"] = term
    return change


@settings(max_examples=30)
@given(
    RATES, st.integers(0, 3), TERMS, st.sampled_from(["sync", "async"]), st.sampled_from(["auto", "10 min", "1 day"])
)
def test_the_ledger_sums_to_the_wall_time(run, rate, spares, term, mode, interval):
    found = run(job(rate, spares, term, checkpoint={"mode": mode, "interval": interval})).run
    assert set(found.ledger_s) == set(found.shares) == PARTS
    assert sum(found.ledger_s.values()) == pytest.approx(found.wall_s, rel=1e-12)
    assert sum(found.shares.values()) == pytest.approx(1, rel=1e-12)
    assert min(found.ledger_s.values()) >= 0
    assert 0 < found.goodput <= 1
    assert found.goodput == pytest.approx(found.ledger_s["useful"] / found.wall_s, rel=1e-12)
    assert found.wall_s_p10 <= found.wall_s <= found.wall_s_p90


@settings(max_examples=20)
@given(RATES, RATES, st.integers(0, 3), st.sampled_from(["own", "on-demand"]))
def test_more_failures_never_take_fewer_days(run, one, other, spares, term):
    """With the same spares."""
    few, many = (run(job(rate, spares, term)).run for rate in sorted((one, other)))
    assert many.wall_s >= few.wall_s * (1 - 1e-9)
    assert many.goodput <= few.goodput * (1 + 1e-9)


def test_days_fall_with_the_rate_only_where_spares_are_added(run):
    """Spares that nobody stated are as many as pay: another one ends waits for repairs."""
    runs = [run(job(10 ** (exponent / 10), term="own")) for exponent in range(-40, -2)]
    fell = [(before, after) for before, after in pairwise(runs) if after.run.wall_s < before.run.wall_s * (1 - 1e-9)]
    assert fell
    assert all(after.means.run.spares > before.means.run.spares for before, after in fell)


def test_without_failures_only_the_start_and_the_last_checkpoint_are_lost(run):
    evaluation = run(job(0, 0))
    found, step = evaluation.run, evaluation.step
    work = 20e9 / step.tokens_per_s
    assert found.ledger_s["useful"] == pytest.approx(work, rel=1e-9)
    segments = work / found.interval_s  # of one run, whose last step may be a part of one
    assert segments == pytest.approx(1, rel=1e-3)
    saved = segments * save_time(evaluation.resolved, evaluation.means.run).blocking_s
    assert found.wall_s == pytest.approx(work + evaluation.means.run.restart_s + saved, rel=1e-9)
    assert found.mtbf_s is None
    assert found.expected_interruptions == 0


@settings(max_examples=20)
@given(st.floats(1e-4, 0.2), st.integers(0, 2), st.sampled_from(["sync", "async"]), st.integers(5, 600))
def test_the_wall_time_is_that_of_the_renewal_equation(run, rate, spares, mode, minutes):
    """Written out anew: segments of e^(l(R+F)) (1/l + D) (e^(l(tau+C)) - 1), and one start."""
    evaluation = run(job(rate, spares, "own", checkpoint={"mode": mode, "interval": f"{minutes} min"}))
    found, terms, step = evaluation.run, evaluation.means.run, evaluation.step.time_s
    save = save_time(evaluation.resolved, terms)
    rate_s = 2 * rate / 86400
    assert 1 / found.mtbf_s == pytest.approx(rate_s)
    tau = found.interval_steps * step
    segment = (
        math.exp(rate_s * (terms.restart_s + save.flush_s))
        * (1 / rate_s + terms.detect_s)
        * math.expm1(rate_s * (tau + save.blocking_s))
    )
    work = 20e9 / evaluation.step.tokens_per_s
    assert found.wall_s == pytest.approx(work / tau * segment + terms.restart_s, rel=1e-9)


@settings(max_examples=15)
@given(st.integers(1, 300))
def test_a_stated_interval_is_kept_to_whole_steps(run, minutes):
    evaluation = run(job(0.01, 1, checkpoint={"interval": f"{minutes} min", "mode": "sync"}))
    step = evaluation.step.time_s
    most = math.ceil(20e9 / evaluation.step.tokens_per_s / step - 1e-9)
    assert evaluation.run.interval_steps == max(1, min(round(minutes * 60 / step), most))
    assert evaluation.run.interval_s == pytest.approx(evaluation.run.interval_steps * step)


@settings(max_examples=15)
@given(st.floats(1e-3, 0.2), st.integers(1, 2000))
def test_no_stated_interval_loses_less_than_the_chosen_one(run, rate, minutes):
    chosen = run(job(rate, 1)).run
    stated = run(job(rate, 1, checkpoint={"interval": f"{minutes} min"})).run
    assert stated.wall_s >= chosen.wall_s * (1 - 1e-6)


def test_a_synchronous_save_is_as_slow_as_its_slowest_link(run):
    """Storage takes 6.25 GB/s; an asynchronous one blocks for five seconds, a copy within them."""
    storage = {"storage": {"system": {"drives": 24, "drive": "nvme-8tb", "nic": "100 Gbit/s", "replicas": 2}}}
    evaluation = run(job(0.01, 1, checkpoint={"mode": "sync"}, **storage))
    state = evaluation.means.run.checkpoint_bytes
    assert save_time(evaluation.resolved, evaluation.means.run).blocking_s == pytest.approx(state / 6.25e9 + 1)
    behind = run(job(0.01, 1, checkpoint={"mode": "async"}, **storage))
    save = save_time(behind.resolved, behind.means.run)
    assert state / 16 / behind.means.run.copy_bytes_per_s < 5
    assert save.blocking_s == pytest.approx(5)
    assert save.flush_s == pytest.approx(state / 6.25e9 + 1)


def test_interruptions_are_counted_by_cause(run):
    found = run(job(term="spot")).run
    assert {"Node", "Pre-emption"} == set(found.interruptions)
    assert sum(found.interruptions.values()) == pytest.approx(found.expected_interruptions, rel=1e-9)


def test_slow_nodes_slow_all(run):
    """One node a tenth slower holds up what is computed; exchanges take as long as before."""
    even = run(job(0, 0))
    slow = run(job(0, 0, stragglers={"slow_nodes": [{"count": 1, "factor": 1.1}]}))
    share = slow.run.ledger_s["degraded"] / slow.run.ledger_s["useful"]
    assert 0 < share <= 0.1 + 1e-12
    assert slow.run.ledger_s["useful"] == pytest.approx(even.run.ledger_s["useful"], rel=1e-12)
    assert slow.run.wall_s > even.run.wall_s


def test_without_tokens_there_are_no_days(run):
    found = run({"operations": {}}).run
    assert (found.wall_s, found.wall_s_p10, found.ledger_s, found.expected_interruptions) == (None,) * 4
    assert 0 < found.goodput <= 1


def test_twice_the_tokens_take_twice_the_days_but_for_the_start(run):
    one, two = (run(job(0.01, 1, tokens=tokens)) for tokens in ("20B", "40B"))
    start = one.means.run.restart_s
    assert two.run.wall_s - start == pytest.approx(2 * (one.run.wall_s - start), rel=1e-3)


def test_a_doubtful_rate_widens_the_days(run):
    """Another fleet's rate and one's own, of the same size."""
    sure = run(job(6.5e-3, 1)).run
    foreign = run({**job(spares=1), "operations": {"failures": {"rates": "meta-rsc-1"}}}).run
    assert foreign.mtbf_s == pytest.approx(sure.mtbf_s, rel=1e-9)
    assert foreign.wall_s_p90 >= sure.wall_s_p90
