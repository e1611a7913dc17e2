"""States that live outside the GPU: rates of the way there, and whether host and drives have room for them."""

from __future__ import annotations

import numpy as np

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.node import PCIE_X16_BYTES_PER_S, NodeSpec
from simcluster.memory.static import family_states
from simcluster.program.offload import OffloadPlan
from simcluster.program.plan import StepPlan, stage_experts, stage_parameters
from simcluster.resolve.data_parallel import WHOLE
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.timing.software import SoftwareFamily
from simcluster.units import format_bytes, format_rate

_KEY = "training.sharding.offload"
_SHARE = 0.8  # estimate: of a link's rate to pinned memory, and of what a processor's memory can do, in steady streams
_ROOM = 0.9  # estimate: of host memory, the rest is for the system, data loading and the frameworks
_C2C_BYTES_PER_S = {"grace": 450e9, "vera": 900e9}  # NVLink-C2C, one direction (NVIDIA data sheets: twice that in all)
_USUAL_HOST, _USUAL_DRIVE, _SOCKETS = "x86-2-socket", "nvme-4tb", 2
_FP32 = 4.0
_PIECES = 2  # that are in the host while states pass through it


def offload_plan(
    scenario: Scenario,
    cluster: Cluster,
    family: SoftwareFamily,
    layout: Layout,
    plan: StepPlan,
    catalogue: Catalogue,
    trail: Trail,
) -> OffloadPlan | None:
    """Where the states of a plan live; None on the GPU. A host without room for them is noted as a problem."""
    device, node = scenario.training.sharding.offload, cluster.node
    if device == "none":
        return None
    copy, update = _copy_rate(node, trail), _update_rate(node, catalogue, trail)
    drives = device == "nvme"
    read, write = _drive_rates(node, catalogue, trail) if drives else (0.0, 0.0)
    states = family_states(family, layout.precision)
    fp32 = states.weights >= _FP32  # the weights are what is updated, no copy of them is
    found = OffloadPlan(
        device=device,
        to_host_bytes_per_s=copy,
        to_gpu_bytes_per_s=copy,
        update_bytes_per_s=update,
        state_bytes=states.optimizer + (states.weights if fp32 else 0.0),
        parameter_bytes=states.weights if fp32 else plan.data.parameter_bytes,
        apart=not fp32,
        parameters=layout.strategy in WHOLE and layout.shards > 1,
        read_bytes_per_s=read,
        write_bytes_per_s=write,
    )
    _check_room(found, node, plan, trail)
    return found


def node_parameters(plan: StepPlan, gpus: int) -> float:
    """Parameters that the fullest node updates [count]: the shards of its ranks, which lie on nodes in mesh order."""
    data, mesh = plan.data, plan.mesh
    updated = []
    for stage in plan.contents:
        experts = stage_experts(plan, stage)
        updated.append((stage_parameters(plan, stage) - experts) / data.shards + experts / data.expert_shards)
    ranks = np.repeat(updated, mesh.tp * mesh.cp * mesh.dp)
    return float(np.add.reduceat(ranks, np.arange(0, len(ranks), gpus)).max())


def _copy_rate(node: NodeSpec, trail: Trail) -> float:
    """Between one GPU and the host, one direction, while all GPUs copy [bytes/s]."""
    link = _C2C_BYTES_PER_S.get(node.host_cpu)
    what, sharing = f"NVLink-C2C of {node.host_cpu}", 1
    if link is None:
        generation = node.gpu.pcie_generation or node.pcie_generation
        known = generation if generation in PCIE_X16_BYTES_PER_S else 4
        link, what = PCIE_X16_BYTES_PER_S[known], f"PCI Express {known}.0 x16"
        what += "" if known == generation else " (generation not known)"
        sharing = max(1, int(node.entry.number("gpus_per_pcie_switch"))) if node.entry else 1
    rate = _SHARE * link / sharing
    shared = f", shared by {sharing} GPUs below a switch" if sharing > 1 else ""
    trail.assume(f"{_KEY}.copy", format_rate(rate), f"{_SHARE:.0%} of {what}{shared} (estimate), a GPU and direction")
    return rate


def _update_rate(node: NodeSpec, catalogue: Catalogue, trail: Trail) -> float:
    """Host memory for the update of one GPU's states while all GPUs of the node have theirs updated [bytes/s]."""
    why = ""
    try:
        entry = catalogue.find("cpus", node.host_cpu or _USUAL_HOST)[0]
    except InputError:
        entry, why = catalogue.find("cpus", _USUAL_HOST)[0], f"{node.host_cpu} is not in the catalogue; "
    sockets = int(node.entry.number("host_sockets")) if node.entry else 0
    sockets = sockets or _SOCKETS
    whole = sockets * entry.number("memory_bandwidth")
    rate = _SHARE * whole / node.gpus
    why += f"{_SHARE:.0%} (estimate) of the memory rate of {sockets} {entry.name or entry.id}, over {node.gpus} GPUs"
    trail.assume(f"{_KEY}.update", format_rate(rate), why)
    return rate


def _drive_rates(node: NodeSpec, catalogue: Catalogue, trail: Trail) -> tuple[float, float]:
    """Reading and writing for one GPU while all do [bytes/s]."""
    drive = catalogue.find("storage", _USUAL_DRIVE)[0]
    count = max(1, round(node.nvme_bytes / drive.number("capacity")))
    read, write = (count * drive.number(key) / node.gpus for key in ("read_rate", "write_rate"))
    why = f"{count} drives like {drive.id} (estimate), over {node.gpus} GPUs"
    trail.assume(f"{_KEY}.read", format_rate(read), why)
    trail.assume(f"{_KEY}.write", format_rate(write), why)
    return read, write


def _check_room(found: OffloadPlan, node: NodeSpec, plan: StepPlan, trail: Trail) -> None:
    """Notes a node whose memory, or drives, are too small; whose size nobody knows, that it was not looked at."""
    held, data = node_parameters(plan, node.gpus), plan.data
    each = found.host_bytes(data.gradient_bytes)
    states = held * found.state_bytes
    passing = node.gpus * _PIECES * data.bucket_bytes / data.gradient_bytes / data.shards * found.state_bytes
    needed = held * each + (min(states, passing) if found.drives else 0.0)
    what = f"{held / 1e9:.4g}e9 parameters a node x {each:g} bytes"
    advice = "share the states among more ranks (sharding.strategy zero-1 or above), use more nodes"
    _compare(
        needed,
        _ROOM * node.ram_bytes,
        f"{what} need {format_bytes(needed)} of host memory, {_ROOM:.0%} of {format_bytes(node.ram_bytes)} are for it",
        f"{advice}, a host with more memory (cluster.node.ram){'' if found.drives else ', or offload: nvme'}",
        ("ram", "the size of the host's memory is not known; its room is not checked"),
        trail,
    )
    if found.drives:
        _compare(
            states,
            node.nvme_bytes,
            f"states of {format_bytes(states)} a node do not fit on drives of {format_bytes(node.nvme_bytes)}",
            f"{advice}, or larger drives (cluster.node.nvme)",
            ("drives", "the size of the drives is not known; their room is not checked"),
            trail,
        )


def _compare(needed: float, room: float, message: str, advice: str, unknown: tuple[str, str], trail: Trail) -> None:
    if room <= 0:
        trail.assume(f"{_KEY}.{unknown[0]}", "not known", unknown[1])
    elif needed > room:
        trail.problem(_KEY, message, advice)
