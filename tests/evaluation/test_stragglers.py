"""Nodes of unlike speed in a scenario: days, percentiles, blame, and the page."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.reports.layout import Page
from simcluster.reports.records import evaluation_record
from simcluster.reports.step_page import simulate_blocks
from simcluster.reports.terminal import render


def job(**stragglers):
    return {"training": {"tokens": "2B"}, "operations": {"stragglers": stragglers}}


def slow(*entries):
    return {"stragglers": {"slow_nodes": list(entries)}}


def test_alike_nodes_say_nothing(run):
    evaluation = run(job())
    assert evaluation.stragglers is None
    assert evaluation.run.shares["degraded"] == 0
    assert "stragglers" not in evaluation_record(evaluation)


def test_a_slow_node_costs_its_compute_share(run):
    """Every replica waits for it: no more than its factor, and no less than what computing takes of a step."""
    evaluation = run(job(slow_nodes=[{"node": 1, "factor": 1.2}]))
    found = evaluation.stragglers
    slower = evaluation.run.ledger_s["degraded"] / evaluation.run.ledger_s["useful"]
    fall = dict(evaluation.waterfall.items())
    computing = fall["ideal"] + fall["kernel_inefficiency"] + fall["memory_bound"]
    assert 0.2 * computing / evaluation.step.time_s * 0.6 <= slower <= 0.2  # the host hides a part
    assert found.mean_s / found.healthy_s - 1 == pytest.approx(slower, rel=1e-9)
    (one,) = found.nodes
    assert (one.name, one.cost.factor) == ("node 1", 1.2)
    assert found.replaced_s == (pytest.approx(found.healthy_s),)
    assert found.mean_s == found.p99_s == found.remedies.now_s
    assert found.drawn == found.stages == ()


def test_a_node_without_a_name_has_a_cost_by_stage_and_no_remedies(run):
    """Two stages of one node each: once in each place, so the mean of both, and the days agree."""
    evaluation = run(job(slow_nodes=[{"count": 1, "factor": 1.2}]))
    found = evaluation.stragglers
    assert found.drawn == ("places of the slow nodes",)
    assert (found.nodes, found.remedies, found.replaced_s) == ((), None, ())
    assert [one.stages for one in found.stages] == [(0,), (1,)]
    assert found.mean_s == pytest.approx(sum(one.step_s for one in found.stages) / 2)
    slower = evaluation.run.ledger_s["degraded"] / evaluation.run.ledger_s["useful"]
    assert found.mean_s / found.healthy_s - 1 == pytest.approx(slower, rel=1e-9)
    for stage, one in enumerate(found.stages):
        named = run(job(slow_nodes=[{"node": stage, "factor": 1.2}])).stragglers
        assert named.mean_s == pytest.approx(one.step_s)
        assert named.nodes[0].position.stages == one.stages


def test_named_nodes_stay_where_others_are_drawn(run):
    slow = [{"node": 1, "factor": 1.2}, {"count": 1, "factor": 1.1}]
    evaluation = run({"cluster": {"nodes": 4}, **job(slow_nodes=slow)})
    found = evaluation.stragglers
    assert [one.name for one in found.nodes] == ["node 1"]
    assert found.remedies.now_s <= found.p50_s <= found.p99_s
    slower = evaluation.run.ledger_s["degraded"] / evaluation.run.ledger_s["useful"]
    assert found.mean_s / found.healthy_s - 1 == pytest.approx(slower, rel=0.05)


def test_layers_by_speed_are_the_step_with_those_layers_stated(run):
    """The remedy is a step of its own: a scenario that lists these layers has the same."""
    slow = job(slow_nodes=[{"node": 1, "factor": 1.4}])
    layers = run(slow).stragglers.layers
    assert layers.fits
    assert not layers.as_now
    assert layers.layers[1] < layers.layers[0]
    stated = run({**slow, "training": {"tokens": "2B", "parallelism": {"stages": list(layers.layers)}}})
    assert stated.stragglers.mean_s == pytest.approx(layers.step_s, rel=1e-12)
    assert layers.step_s < run(slow).stragglers.remedies.now_s


def test_layers_that_move_may_not_fit(run):
    """Sequences that fill the memory: a stage of most layers is too much, and the answer says so."""
    model = {"layers": 24, "hidden": 8192, "heads": 64, "ffn": 32768}
    slow = job(slow_nodes=[{"node": 1, "factor": 4.0}])
    evaluation = run({"model": model, **slow, "training": {"tokens": "2B", "micro_batch": 2}})
    layers = evaluation.stragglers.layers
    assert layers.layers[0] > 12
    assert not layers.fits
    page = render(simulate_blocks(evaluation, Page()), Page())
    assert "does not fit in memory" in page


def test_jitter_spreads_steps_and_blames_nobody(run):
    found = run(job(jitter_sigma="2%")).stragglers
    assert found.p50_s < found.p90_s < found.p99_s
    assert (found.drawn, found.nodes, found.stages, found.remedies) == (("steps",), (), (), None)


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_in_any_layout_a_slow_node_is_one_of_its_stages_and_a_spare_mends_it(assess, scenarios, data):
    scenario = data.draw(scenarios)
    node = data.draw(st.integers(0, scenario["cluster"]["nodes"] - 1))
    found = assess(scenario | {"operations": slow({"node": node, "factor": 1.3})}).stragglers
    (one,) = found.nodes
    assert found.mean_s == found.remedies.now_s >= found.healthy_s
    assert one.cost.alone_s == pytest.approx(found.mean_s - found.healthy_s, abs=1e-9)
    assert one.cost.alone_s == pytest.approx(one.cost.gives_back_s, abs=1e-9)
    assert found.replaced_s[-1] == pytest.approx(found.healthy_s, rel=1e-4)
    anywhere = assess(scenario | {"operations": slow({"count": 1, "factor": 1.3})}).stragglers
    assert sum(stage.nodes for stage in anywhere.stages) == scenario["cluster"]["nodes"]
    alike = [stage.step_s for stage in anywhere.stages if stage.stages == one.position.stages]
    assert any(step_s == pytest.approx(found.mean_s, rel=1e-9) for step_s in alike)


def test_the_same_seed_has_the_same_steps(run):
    assert run(job(node_sigma="1%")).stragglers == run(job(node_sigma="1%")).stragglers


def test_page_and_record_tell_it(run):
    evaluation = run(job(slow_nodes=[{"node": 1, "factor": 1.1}]))
    page = render(simulate_blocks(evaluation, Page()), Page())
    assert "That is with all nodes alike; with slow nodes as stated it takes" in page
    assert "stage 1, replicas 0 to 3" in page
    record = evaluation_record(evaluation)["stragglers"]
    (node,) = record["nodes"]
    assert (node["node"], node["number"], node["stages"], node["replicas"]) == ("node 1", 1, [1], [0, 1, 2, 3])
    assert node["factor"] == pytest.approx(1.1)
    assert record["now_s"] == record["mean_s"]
    assert len(record["layers"]["layers"]) == 2
    assert "binned" not in record["remedies"]  # one node is together


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
