"""Bytes of states outside the GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.program.offload import OffloadPlan

HOST = OffloadPlan("cpu", 25e9, 25e9, 50e9)


def test_worked_example_of_13_billion_parameters_on_a_node_of_8():
    """30 bytes of each over 400 GB/s of a node: 0.976 s; PCI Express 4.0 at 25 GB/s: 0.260 s down, 0.130 s up."""
    held = 13.016e9 / 8
    assert held * HOST.update_bytes(4.0) / HOST.update_bytes_per_s == pytest.approx(0.976, abs=5e-4)
    assert held * 4.0 / HOST.to_host_bytes_per_s == pytest.approx(0.260, abs=5e-4)
    assert held * HOST.parameter_bytes / HOST.to_gpu_bytes_per_s == pytest.approx(0.130, abs=5e-4)


@pytest.mark.parametrize(
    ("changes", "update", "host"),
    [
        ({}, 30, 18),
        ({"state_bytes": 12.0, "parameter_bytes": 4.0, "apart": False}, 28, 16),  # weights in fp32 are the states
        ({"device": "nvme"}, 30, 6),
        ({"device": "nvme", "parameter_bytes": 4.0, "apart": False}, 28, 8),  # what comes and goes stays in the host
    ],
)
def test_bytes_of_a_parameter(changes, update, host):
    plan = replace(HOST, **changes)
    assert plan.update_bytes(4.0) == update
    assert plan.host_bytes(4.0) == host


def test_gradients_in_16_bits():
    assert (HOST.update_bytes(2.0), HOST.host_bytes(2.0)) == (28, 16)


def test_free_costs_nothing():
    free = replace(HOST, device="nvme", read_bytes_per_s=1.0, write_bytes_per_s=1.0).free()
    assert free.drives
    rates = (free.to_host_bytes_per_s, free.update_bytes_per_s, free.to_gpu_bytes_per_s, free.read_bytes_per_s)
    assert [1.0 / rate for rate in (*rates, free.write_bytes_per_s)] == [0.0] * 5
