"""Watts: phases sum to the step, nodes to the cluster, the building adds its PUE; energy is power times time."""

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ACTIVITY = (1.0, 0.55, 0.25, 0.10)  # GEMM and attention, memory-bound, exchanging, waiting
PUE = st.floats(1.0, 2.0)
HOURS = st.floats(0.05, 1.0)


def job(pue=1.0, hours=0.85, term="own", spares=1, **training):
    return {
        "training": {"tokens": "20B", **training},
        "cluster": {"spares": spares},
        "acquire": term,
        "facility": {"pue": pue},
        "use": {"hours": hours},
    }


def test_with_a_pue_of_one_the_building_takes_nothing(run):
    power = run(job(1.0)).power
    assert power.facility_average_w == power.it_average_w


@settings(max_examples=15)
@given(PUE, HOURS)
def test_the_building_takes_its_share(run, pue, hours):
    power, plain = run(job(pue, hours)).power, run(job(1.0, hours)).power
    assert power.it_average_w == plain.it_average_w
    assert power.facility_average_w == pytest.approx(pue * plain.facility_average_w, rel=1e-12)
    assert power.energy_per_token_j == pytest.approx(pue * plain.energy_per_token_j, rel=1e-12)
    assert power.run_kwh == pytest.approx(pue * plain.run_kwh, rel=1e-12)


LAYOUTS = st.sampled_from([(1, 1), (2, 2), (8, 1), (4, 4), (1, 8)])


@settings(max_examples=15)
@given(LAYOUTS, st.sampled_from([32, 64, 256]), st.sampled_from(["none", "full"]))
def test_energy_of_a_gpu_is_the_sum_of_its_phases(run, layout, batch, recompute):
    tp, pp = layout
    parallelism = {"tp": tp, "pp": pp, "sequence_parallel": tp > 1}
    evaluation = run(job(global_batch=batch, recompute=recompute, parallelism=parallelism))
    power, gpu = evaluation.power, evaluation.resolved.cluster.node.gpu
    seconds = astuple(power.phases)
    assert min(seconds) >= 0
    assert sum(seconds) == pytest.approx(evaluation.step.time_s, rel=1e-9)
    watts = [gpu.power_idle_w + share * (gpu.power_limit_w - gpu.power_idle_w) for share in ACTIVITY]
    energy = sum(time * watt for time, watt in zip(seconds, watts))
    assert power.gpu_average_w * evaluation.step.time_s == pytest.approx(energy, rel=1e-9)
    assert gpu.power_idle_w < power.gpu_average_w <= gpu.power_limit_w


@settings(max_examples=10)
@given(st.integers(0, 5), st.sampled_from(["own", "on-demand"]))
def test_the_cluster_is_the_sum_of_its_parts(run, spares, term):
    evaluation = run(job(term=term, spares=spares))
    power, terms, cluster = evaluation.power, evaluation.means.power, evaluation.resolved.cluster
    gpu = cluster.node.gpu

    def node(gpu_w, host=1.0):
        return terms.supply_factor * (8 * gpu_w + host * terms.host_w) + terms.fans_w * gpu_w / gpu.power_limit_w

    assert power.node_average_w == pytest.approx(node(power.gpu_average_w), rel=1e-12)
    waiting = node(gpu.power_idle_w, 0.69)
    around = terms.network_w + terms.storage_w
    assert power.it_average_w == pytest.approx(2 * power.node_average_w + spares * waiting + around, rel=1e-12)
    assert power.it_nameplate_w == pytest.approx((2 + spares) * terms.nameplate_w + around, rel=1e-12)
    idle = (2 + spares) * waiting + around
    mean = 0.85 * power.it_average_w + 0.15 * idle
    assert power.it_average_over_all_hours_w == pytest.approx(mean, rel=1e-12)


@settings(max_examples=10)
@given(HOURS)
def test_hours_of_use_move_only_the_mean_over_all_hours(run, hours):
    power, busy = run(job(hours=hours)).power, run(job(hours=1.0)).power
    assert power.it_average_w == busy.it_average_w
    assert power.run_kwh == busy.run_kwh
    assert busy.it_average_over_all_hours_w == pytest.approx(busy.it_average_w, rel=1e-12)
    assert power.it_average_over_all_hours_w <= busy.it_average_over_all_hours_w


@settings(max_examples=10)
@given(st.floats(0, 0.3))
def test_energy_of_the_run_is_that_of_its_ledger(run, rate):
    """At work for all but restarts and waits, and idle then."""
    change = job(1.3)
    change["operations"] = {"failures": {"rates": {"interruptions_per_node_day": rate}}}
    evaluation = run(change)
    power, ledger = evaluation.power, evaluation.run.ledger_s
    hours = 0.85
    idle_w = (power.it_average_over_all_hours_w - hours * power.it_average_w) / (1 - hours)
    rests = ledger["restart"] + ledger["downtime"]
    works = evaluation.run.wall_s - rests
    assert power.run_kwh == pytest.approx(1.3 * (works * power.it_average_w + rests * idle_w) / 3.6e6, rel=1e-9)


def test_a_token_takes_power_over_rate(run):
    evaluation = run(job(1.4))
    assert evaluation.power.energy_per_token_j == pytest.approx(
        evaluation.power.facility_average_w / evaluation.step.tokens_per_s, rel=1e-12
    )


def test_without_tokens_there_is_no_energy_of_a_run(run):
    assert run({"facility": {"pue": 1.2}}).power.run_kwh is None


def test_power_swings_only_if_an_exchange_is_exposed(run):
    alone = run(
        {"cluster": {"nodes": 1, "fabric": None}, "training": {"parallelism": {"tp": 1, "pp": 8}, "micro_batch": 1}}
    )
    shared = run(job())
    assert (shared.power.swing_w > 0) == (shared.power.phases.exposed_communication_s > 0)
    assert (alone.power.swing_w > 0) == (alone.power.phases.exposed_communication_s > 0)
