"""Nodes of unlike speed in a scenario: days, percentiles, blame, and the page."""

import pytest

from simcluster.reports.layout import Page
from simcluster.reports.records import evaluation_record
from simcluster.reports.step_page import simulate_blocks
from simcluster.reports.terminal import render


def job(**stragglers):
    return {"training": {"tokens": "2B"}, "operations": {"stragglers": stragglers}}


def test_alike_nodes_say_nothing(run):
    evaluation = run(job())
    assert evaluation.stragglers is None
    assert evaluation.run.shares["degraded"] == 0
    assert "stragglers" not in evaluation_record(evaluation)


def test_a_slow_node_costs_its_compute_share(run):
    """Every replica waits for it: no more than its factor, and no less than what computing takes of a step."""
    evaluation = run(job(slow_nodes=[{"count": 1, "factor": 1.2}]))
    slower = evaluation.run.ledger_s["degraded"] / evaluation.run.ledger_s["useful"]
    fall = dict(evaluation.waterfall.items())
    computing = fall["ideal"] + fall["kernel_inefficiency"] + fall["memory_bound"]
    assert 0.2 * computing / evaluation.step.time_s * 0.6 <= slower <= 0.2  # the host hides a part
    assert evaluation.stragglers.mean_s / evaluation.stragglers.healthy_s - 1 == pytest.approx(slower, rel=0.06)
    (one,) = evaluation.stragglers.blame
    assert one.factor == 1.2
    assert evaluation.stragglers.remedies.swapped_s == pytest.approx(evaluation.stragglers.healthy_s)


def test_jitter_spreads_steps_and_blames_nobody(run):
    found = run(job(jitter_sigma="2%")).stragglers
    assert found.p50_s < found.p90_s < found.p99_s
    assert found.blame == ()
    assert found.remedies is None


def test_the_same_seed_has_the_same_steps(run):
    assert run(job(node_sigma="1%")).stragglers == run(job(node_sigma="1%")).stragglers


def test_page_and_record_tell_it(run):
    evaluation = run(job(slow_nodes=[{"count": 1, "factor": 1.1}]))
    page = render(simulate_blocks(evaluation, Page()), Page())
    assert "nodes of unlike speed" in page
    assert "10% slower, alone costs" in page
    record = evaluation_record(evaluation)
    assert record["stragglers"]["blame"][0]["factor"] == pytest.approx(1.1)
    assert set(record["stragglers"]["remedies"]) >= {"swapped", "rebalanced", "binned"}


def test_the_critical_path_is_told(run):
    evaluation = run()
    found = evaluation.critical
    assert found.total_s == pytest.approx(evaluation.step.time_s, rel=1e-12)
    assert found.sentence().startswith("The step takes ")
    gains = dict(found.kernels)
    assert 0 < gains["GEMM kernels"] < 0.1 * found.total_s
    assert sum(gains.values()) <= 0.1 * found.total_s * (1 + 1e-9)
    assert "10% faster GEMM kernels by" in found.advice()
    assert evaluation_record(evaluation)["critical_path"]["sentence"] == found.sentence()
