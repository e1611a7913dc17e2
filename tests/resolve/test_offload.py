"""Where states live that are not on the GPU: rates, room, and what is told of both."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simcluster.program.offload import OffloadPlan
from simcluster.resolve.offload import node_parameters

CPU, NVME = "training.sharding.offload=cpu", "training.sharding.offload=nvme"
HOST = "cluster.node={base: dgx-a100-80gb, ram: %s, nvme: %s}"


def plan(resolved) -> OffloadPlan:
    assert resolved.plan.offload is not None
    return resolved.plan.offload


def told(resolved) -> dict[str, str]:
    prefix = "training.sharding.offload."
    found = [one for one in resolved.assumptions if one.path.startswith(prefix)]
    return {one.path.removeprefix(prefix): f"{one.value}: {one.why}" for one in found}


def test_on_the_gpu_there_is_nothing_to_say(settle):
    found = settle()
    assert found.plan.offload is None
    assert not told(found)


def test_rates_of_a_node(settle):
    """PCI Express 4.0 x16 (31.5 GB/s) for two GPUs, two processors of 204.8 GB/s for eight; 80 % of each."""
    found = settle(CPU)
    assert plan(found).to_host_bytes_per_s == plan(found).to_gpu_bytes_per_s == pytest.approx(0.8 * 31.5e9 / 2)
    assert plan(found).update_bytes_per_s == pytest.approx(0.8 * 2 * 204.8e9 / 8)
    assert (plan(found).read_bytes_per_s, plan(found).write_bytes_per_s) == (0, 0)
    words = told(found)
    slot = "80% of PCI Express 4.0 x16, shared by 2 GPUs below a switch (estimate)"
    assert words.pop("copy") == f"12.6 GB/s: {slot}, a GPU and direction"
    assert words == {"update": "41 GB/s: 80% (estimate) of the memory rate of 2 AMD EPYC 7742, over 8 GPUs"}


def test_rates_of_drives(settle):
    """30 TB are 8 drives of 3.84 TB, a GPU has one: 6.8 and 4 GB/s."""
    found = plan(settle(NVME))
    assert found.drives
    assert (found.read_bytes_per_s, found.write_bytes_per_s) == (pytest.approx(6.8e9), pytest.approx(4e9))
    few = plan(settle(NVME, HOST % ("2 TB", "7.68 TB")))
    assert few.read_bytes_per_s == pytest.approx(2 * 6.8e9 / 8)


def test_grace_reaches_its_gpus_over_nvlink(settle):
    found = settle(CPU, "cluster.node=dgx-gb200", "cluster.nodes=1", "cluster.fabric=none", "training.precision=bf16")
    assert plan(found).to_gpu_bytes_per_s == pytest.approx(0.8 * 450e9)
    assert "NVLink-C2C of grace" in told(found)["copy"]


@pytest.mark.parametrize(
    ("strategy", "family", "parameters", "state", "up"),
    [
        ("zero-1", "megatron-core", False, 12, 2),
        ("zero-2", "deepspeed", False, 12, 2),
        ("zero-3", "deepspeed", True, 12, 2),
        ("fsdp", "fsdp2-torchtitan", True, 12, 4),  # weights in fp32 are what is updated
    ],
)
def test_what_lives_there_is_as_strategy_and_software_have_it(settle, strategy, family, parameters, state, up):
    sets = (f"training.sharding.strategy={strategy}", f"training.software={{family: {family}}}")
    found = plan(settle(CPU, "training.parallelism={tp: 2, pp: 1}", *sets))
    assert (found.parameters, found.state_bytes, found.parameter_bytes) == (parameters, state, up)


def test_a_host_without_room_is_an_error_with_advice(refused):
    (problem,) = refused(CPU, HOST % ("1 GB", "30 TB"))
    assert problem.startswith(f"--set {CPU}: ")
    assert "bytes need 1." in problem
    assert "zero-1 or above" in problem
    assert "or offload: nvme" in problem


def test_drives_take_the_states_off_the_host(settle, refused):
    """3.37e9 parameters a node: 18 bytes of each are 60.6 GB, 6 without states 20.2 and two pieces a GPU 1.9 GB."""
    model = "model=llama-2-7b"
    (problem,) = refused(model, CPU, HOST % ("50 GB", "30 TB"))
    assert "3.369e9 parameters a node x 18 bytes need 60.6 GB of host memory, 90% of 50 GB" in problem
    assert plan(settle(model, NVME, HOST % ("25 GB", "42 GB"))).drives
    (problem,) = refused(model, NVME, HOST % ("24 GB", "42 GB"))
    assert "host memory" in problem
    (problem,) = refused(model, NVME, HOST % ("25 GB", "40 GB"))
    assert "states of 40.4 GB a node do not fit on drives of 40 GB" in problem


def test_a_host_that_nobody_describes_is_not_checked(settle):
    found = settle(NVME, "cluster.node={gpu: a100-80gb-sxm, gpus: 8, nics: 8x 200 Gbit/s}")
    words = told(found)
    assert "not checked" in words["ram"]
    assert "not checked" in words["drives"]


def test_a_processor_that_the_catalogue_does_not_have(settle):
    words = told(settle(CPU, "cluster.node={base: dgx-a100-80gb, host: abacus}"))
    assert words["update"].split(": ", 1)[1].startswith("abacus is not in the catalogue; ")


def test_host_and_drives_count_once_states_are_there(settle):
    node = "cluster.node={base: dgx-a100-80gb, host: epyc-7742, ram: 2 TB, nvme: 30 TB}"
    assert settle(node).unmodelled == tuple(f"cluster.node.{key}" for key in ("host", "ram", "nvme"))
    assert settle(node, CPU).unmodelled == ("cluster.node.nvme",)
    assert settle(node, NVME).unmodelled == ()


def test_parameters_of_the_fullest_node(settle):
    """Two stages of a node each: half the layers and a table each, 1/2 by tp and 1/4 by zero-1, on eight ranks."""
    found = settle(CPU).plan
    table, layer = 32000 * 1024, 4 * 1024 * 1024 + 3 * 1024 * 4096
    assert node_parameters(found, 8) == pytest.approx(table + 4 * layer, rel=2e-3)
    assert node_parameters(found, 16) == pytest.approx(2 * table + 8 * layer, rel=2e-3)
    whole = replace(found, data=replace(found.data, shards=1))
    assert node_parameters(whole, 8) == pytest.approx(4 * (table + 4 * layer), rel=2e-3)
