"""Power: worked figures, published energy, and what holds for any step."""

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.power import (
    Gpu,
    Node,
    PhaseActivity,
    PhaseSeconds,
    Site,
    energy_per_token_j,
    gpu_average_w,
    phase_seconds,
    phase_watts,
    power_report,
    run_energy_kwh,
)
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.engine.step import EVIDENCE
from simcluster.errors import InputError

H100, H100_NODE = Gpu(75.0, 700.0), Node(8, 1450.0, 930.0)
B200, B200_NODE = Gpu(140.0, 1000.0), Node(8, 2300.0, 1700.0)
MIX = PhaseSeconds(0.60, 0.15, 0.10, 0.15)
SECONDS = st.builds(PhaseSeconds, st.floats(0.001, 10), st.floats(0, 10), st.floats(0, 10), st.floats(0, 10))
GPU = st.builds(
    lambda idle, more: Gpu(idle, idle + more),
    st.floats(10, 200),
    st.floats(1, 1000),
)


def test_worked_gpu_and_node():
    average = gpu_average_w(MIX, H100)
    assert average == pytest.approx(526.56, abs=0.005)
    assert H100_NODE.power_w(average, 700.0) == pytest.approx(6701.8, abs=0.05)
    assert H100_NODE.power_w(700.0, 700.0) == pytest.approx(8403, abs=0.5)
    assert B200_NODE.power_w(1000.0, 1000.0) == pytest.approx(12.6e3, rel=0.005)
    assert H100_NODE.idle_w(H100) == pytest.approx(1790, rel=0.01)


def test_node_against_measurements():
    """Full load 8.4 kW (Latif et al. 2024); 8 H100 in MLPerf Training 4.0 LoRA: 11.77 MJ in 29.1 min."""
    report = power_report(MIX, H100, H100_NODE, Site(nodes=1))
    assert report.node_average_w == pytest.approx(11_769_962 / (29.10069 * 60), rel=0.10)
    assert report.node_peak_w == pytest.approx(8.4e3, rel=0.01)
    dense = PhaseSeconds(0.80, 0.10, 0.05, 0.05)
    assert power_report(dense, H100, H100_NODE, Site(nodes=1)).node_average_w == pytest.approx(7.75e3, rel=0.10)


def test_llama_3_405b_energy_per_token():
    report = power_report(MIX, H100, H100_NODE, Site(nodes=2048))
    assert energy_per_token_j(report.it_average_w, 6.46, 16 * 2**20) == pytest.approx(5.285, abs=6e-4)


@pytest.mark.parametrize(
    ("gpu_hours", "watts", "tokens", "kwh", "joules"),
    [
        (1_082_990, 400, 366e9, 433_196, 4.26),  # BLOOM
        (3_311_616, 400, None, 1_324.6e3, None),  # Llama 2
        (30.84e6, 700, 15.6e12, 21.588e6, 4.98),  # Llama 3.1 405B
    ],
)
def test_published_energy_at_tdp(gpu_hours, watts, tokens, kwh, joules):
    assert run_energy_kwh(watts, gpu_hours * 3600.0) == pytest.approx(kwh, rel=1e-4)
    if joules:
        assert energy_per_token_j(watts, gpu_hours * 3600.0, tokens) == pytest.approx(joules, rel=2e-3)


def test_idle_time_of_a_run():
    assert run_energy_kwh(1000.0, 3600.0, idle_w=100.0, idle_s=36_000.0) == pytest.approx(2.0)


@given(SECONDS, GPU)
def test_energy_is_power_by_time_and_bounded(phases, gpu):
    energy = gpu_average_w(phases, gpu) * phases.total_s
    assert energy == pytest.approx(sum(s * w for s, w in zip(astuple(phases), phase_watts(gpu))))
    assert gpu.idle_w * phases.total_s <= energy * (1 + 1e-12)
    assert energy <= gpu.max_w * phases.total_s * (1 + 1e-12)


@given(SECONDS, GPU, st.integers(1, 500), st.integers(0, 9), st.floats(1, 2))
def test_report_holds_together(phases, gpu, nodes, spares, pue):
    site = Site(nodes=nodes, spares=spares, network_w=5e3, storage_w=2e3, pue=pue)
    report = power_report(phases, gpu, H100_NODE, site)
    assert report.gpu_average_w <= report.gpu_peak_w * (1 + 1e-12)
    assert report.it_idle_w < report.it_average_w <= report.it_peak_w * (1 + 1e-12)
    nodes_w = nodes * report.node_average_w + spares * report.node_idle_w
    assert report.it_average_w == pytest.approx(nodes_w + 7e3)
    assert report.facility_average_w == pytest.approx(pue * report.it_average_w)
    assert power_report(phases, gpu, H100_NODE, replace(site, pue=1.0)).facility_average_w == report.it_average_w


def test_swing_is_between_compute_and_exchange():
    report = power_report(MIX, H100, H100_NODE, Site(nodes=2048))
    assert report.swing_w == pytest.approx(16384 * (700 - 231.25))
    assert power_report(PhaseSeconds(1.0, 0, 0, 0), H100, H100_NODE, Site(nodes=1)).swing_w == 0


def test_priors_stay_within_what_is_seen():
    """Of an H100's TDP: memory-bound 50 to 65 %, exchange 30 to 60 %, waiting 15 to 30 %, dense training 80 to 97 %."""
    _, memory, exchange, waiting = (w / 700 for w in phase_watts(H100))
    assert 0.50 <= memory <= 0.65
    assert 0.30 <= exchange <= 0.60
    assert 0.15 <= waiting <= 0.30
    assert 0.80 <= gpu_average_w(PhaseSeconds(0.85, 0.08, 0.04, 0.03), H100) / 700 <= 0.97


def test_own_activities_replace_the_priors():
    louder = PhaseActivity(exposed_communication=0.38)
    assert gpu_average_w(MIX, H100, louder) - gpu_average_w(MIX, H100) == pytest.approx(0.1 * 0.13 * 625)


def waterfall(**seconds):
    return Waterfall(tuple(seconds.get(cause, 0.0) for cause in CAUSES))


def busy(**seconds):
    return np.array([seconds.get(name, 0.0) for name in EVIDENCE])


def test_phases_of_a_waterfall():
    losses = waterfall(
        data_parallel=0.01, tensor_parallel=0.02, pipeline_messages=0.03, expert_context_parallel=0.04,
        pipeline_bubble=0.05, pipeline_imbalance=0.06, memory_bound=0.2, recompute=0.1, kernel_inefficiency=0.2,
        ideal=0.29,
    )  # fmt: skip
    phases = phase_seconds(losses, busy(gemm=0.5, attention=0.1, memory=0.12, tensor=9.0, data_parallel=9.0), 0.05)
    assert astuple(phases) == pytest.approx((0.6, 0.17, 0.10, 0.13))  # 0.02 wait for the host


@given(st.lists(st.floats(0, 5), min_size=len(CAUSES), max_size=len(CAUSES)), st.floats(0, 9), st.floats(0, 9))
def test_phases_sum_to_the_step(seconds, gemm, memory):
    losses = Waterfall(tuple(seconds))
    phases = phase_seconds(losses, busy(gemm=gemm, memory=memory), 0.1)
    assert phases.total_s == pytest.approx(losses.total_s, abs=1e-9)
    assert all(s >= 0 for s in astuple(phases))


def test_arrays_go_through():
    idle = np.array([75.0, 140.0])
    report = power_report(MIX, Gpu(idle, np.array([700.0, 1000.0])), H100_NODE, Site(nodes=2))
    assert report.it_average_w.shape == (2,)
    assert report.gpu_average_w[0] == pytest.approx(526.5625)


def test_all_that_is_wrong_is_told():
    with pytest.raises(InputError) as caught:
        power_report(PhaseSeconds(-1.0, 2.0, 0.0, 0.0), Gpu(75.0, 0.0), H100_NODE, Site(nodes=1, pue=0.9))
    text = str(caught.value)
    assert len(caught.value.problems) == 3
    assert "hardware_db/gpus" in text
    assert "pue" in text
