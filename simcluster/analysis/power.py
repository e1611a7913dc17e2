"""Power and energy: watts of a GPU by phase of the step, of its node, of the cluster and of the building around it.

A step has four phases. Each holds the GPU at a share of the way from its idle to its highest power; the node adds host,
fans and supply losses, the cluster spares, network and storage, the building its PUE. All arithmetic broadcasts.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.engine.step import EVIDENCE_ROW
from simcluster.errors import InputError, Problem
from simcluster.memory.arrays import plain
from simcluster.shapes import Num

Floats = NDArray[np.float64]

KWH_J = 3.6e6
EXPOSED = ("data_parallel", "expert_context_parallel", "pipeline_messages", "tensor_parallel")
WAITING = ("offload", "pipeline_imbalance", "pipeline_bubble")
_LOSSES = 1.06  # estimate: power in over power out of supplies and converters


@dataclass(frozen=True, slots=True)
class PhaseSeconds:
    """Seconds of a step by phase, mean of the GPUs; they sum to the step.

    compute_s                GEMM and attention kernels
    memory_bound_s           norms, activations, softmax, optimizer, copies
    exposed_communication_s  exchanges that nothing hides
    idle_s                   bubble, imbalance, waiting for the host
    """

    compute_s: Num
    memory_bound_s: Num
    exposed_communication_s: Num
    idle_s: Num

    @property
    def total_s(self) -> Num:
        """Step time."""
        return self.compute_s + self.memory_bound_s + self.exposed_communication_s + self.idle_s


@dataclass(frozen=True, slots=True)
class PhaseActivity:
    """Share of (highest - idle) power that a GPU adds in each phase, 0 to 1; priors, all estimates.

    compute 1.0 (training draws 80 to 97 % of TDP with all phases together), memory_bound 0.55 (60 % of an H100's TDP;
    50 to 65 % is recalled). For the two others estimates differ:

    * exposed_communication 0.25 is 33 % of an H100's TDP. Operators recall 30 to 60 %, 45 % in the middle (activity
      0.38), but of any all-reduce; over NVLink copies keep the memory busy. What stays exposed is mostly time on the
      fabric, where kernels wait for network cards, so the low end is taken. No measurement by phase is known: read
      power with NVML during one exposed exchange and pass what it shows.
    * idle 0.10 is 20 % of TDP, within the 15 to 30 % seen while a job waits: clocks stay up and kernels poll. The 10 %
      of TDP that data sheets show is a GPU without a job; that is `Gpu.idle_w` here.
    """

    compute: float = 1.0
    memory_bound: float = 0.55
    exposed_communication: float = 0.25
    idle: float = 0.10


@dataclass(frozen=True, slots=True)
class Gpu:
    """Power of one GPU in watts.

    idle_w   without a job, >= 0 (H100 about 70)
    max_w    at full load, >= idle (its TDP)
    """

    idle_w: Num
    max_w: Num

    def at(self, activity: Num) -> Num:
        """Watts at an activity of 0 to 1."""
        return self.idle_w + (self.max_w - self.idle_w) * activity


@dataclass(frozen=True, slots=True)
class Node:
    """Power of a node around its GPUs, in watts.

    gpus       of the node
    host_w     processors, memory, cards, scale-up switches in training (HGX H100 about 1450, B200 2300; estimates)
    fan_w      fans at full load of the GPUs, in proportion below (H100 930, B200 1700; 0 if cooled by liquid)
    losses     of power supplies, as a factor >= 1 on GPUs and host (estimate)
    host_rest  share of host_w that a node without a job takes (estimate; an HGX H100 then draws 1.8 kW. With 1.0 it
               would be 2.3 kW, and 2.5 to 3 kW are recalled as well, so power of spares is good to a third)
    """

    gpus: int
    host_w: Num
    fan_w: Num
    losses: float = _LOSSES
    host_rest: float = 0.69

    def power_w(self, gpu_w: Num, gpu_max_w: Num, host: float = 1.0) -> Num:
        """Watts of the node when each GPU draws `gpu_w`; `host` is the share of host_w, 0 to 1.

        >>> h100 = Node(8, 1450.0, 930.0)
        >>> round(h100.power_w(700.0, 700.0), 1), round(h100.power_w(526.5625, 700.0), 1)
        (8403.0, 6701.8)
        """
        return self.losses * (self.gpus * gpu_w + host * self.host_w) + self.fan_w * gpu_w / gpu_max_w

    def idle_w(self, gpu: Gpu) -> Num:
        """Watts of a node that waits for a job."""
        return self.power_w(gpu.idle_w, gpu.max_w, self.host_rest)


@dataclass(frozen=True, slots=True)
class Site:
    """What is around the nodes that train.

    nodes, spares        that train; that wait without a job
    network_w, storage_w switches with optics, storage servers; constant
    pue                  facility over IT power, >= 1
    """

    nodes: int
    spares: int = 0
    network_w: Num = 0.0
    storage_w: Num = 0.0
    pue: Num = 1.0


@dataclass(frozen=True, slots=True)
class PowerReport:
    """Watts of a job.

    gpu_average_w, gpu_peak_w      mean over the step; of its most powerful phase
    node_average_w, node_peak_w, node_idle_w
    it_average_w, it_peak_w        all nodes, network, storage; spares idle
    it_idle_w                      all nodes without a job
    facility_average_w             PUE times IT
    swing_w                        how far all GPUs' power falls and rises once a step, between compute and exchange;
                                   0 if no exchange is exposed
    """

    gpu_average_w: Num
    gpu_peak_w: Num
    node_average_w: Num
    node_peak_w: Num
    node_idle_w: Num
    it_average_w: Num
    it_peak_w: Num
    it_idle_w: Num
    facility_average_w: Num
    swing_w: Num


def phase_seconds(losses: Waterfall, busy_s: Floats, optimizer_s: float = 0.0) -> PhaseSeconds:
    """Splits a step into phases: exposed and waiting time by the waterfall, the rest as its kernels are busy.

    Parameters: `losses` of the step; `busy_s` (EVIDENCE,) busy seconds of a mean stage; `optimizer_s` of a mean stage.
    What no kernel fills is waiting for the host; if kernels would fill more than is left, they shrink together.

    >>> w = Waterfall((0.0, 0.1, 0.0, 0.0, 0.0, 0.1, 0.0, 0.0, 0.1, 0.2, 0.5))
    >>> p = phase_seconds(w, np.array([0.6, 0.1, 0.05, 0.3, 0.0, 0.2, 0.0]), 0.05)
    >>> [round(x, 9) for x in (p.compute_s, p.memory_bound_s, p.exposed_communication_s, p.idle_s)]
    [0.7, 0.1, 0.1, 0.1]
    """
    lost = dict(zip(CAUSES, losses.seconds))
    exposed = sum(lost[cause] for cause in EXPOSED)
    left = losses.total_s - exposed - sum(lost[cause] for cause in WAITING)
    compute = float(busy_s[EVIDENCE_ROW["gemm"]] + busy_s[EVIDENCE_ROW["attention"]])
    memory = float(busy_s[EVIDENCE_ROW["memory"]]) + optimizer_s
    fill = min(1.0, max(0.0, left) / max(compute + memory, 1e-30))
    compute, memory = compute * fill, memory * fill
    return PhaseSeconds(compute, memory, exposed, max(0.0, losses.total_s - compute - memory - exposed))


def phase_watts(gpu: Gpu, activity: PhaseActivity = PhaseActivity()) -> tuple[Num, ...]:
    """Watts of a GPU in each phase, in the order of PhaseSeconds.

    >>> phase_watts(Gpu(75.0, 700.0))
    (700.0, 418.75, 231.25, 137.5)
    """
    return tuple(gpu.at(share) for share in astuple(activity))


def gpu_average_w(phases: PhaseSeconds, gpu: Gpu, activity: PhaseActivity = PhaseActivity()) -> Num:
    """Mean watts of a GPU over a step: idle + (max - idle) * sum of share * activity.

    >>> round(gpu_average_w(PhaseSeconds(0.60, 0.15, 0.10, 0.15), Gpu(75.0, 700.0)), 2)
    526.56
    """
    spent: Num = sum(s * w for s, w in zip(astuple(phases), phase_watts(gpu, activity)))
    return spent / phases.total_s


def power_report(
    phases: PhaseSeconds, gpu: Gpu, node: Node, site: Site, activity: PhaseActivity = PhaseActivity()
) -> PowerReport:
    """Power of a job on a cluster. Raises InputError with every value out of range.

    >>> mix = PhaseSeconds(0.60, 0.15, 0.10, 0.15)
    >>> report = power_report(mix, Gpu(75.0, 700.0), Node(8, 1450.0, 930.0), Site(nodes=2048, pue=1.2))
    >>> round(report.it_average_w / 1e6, 3), round(report.facility_average_w / 1e6, 2)
    (13.725, 16.47)
    """
    _check(phases, gpu, node, site)
    watts, exposed = phase_watts(gpu, activity), phases.exposed_communication_s
    average = gpu_average_w(phases, gpu, activity)
    seen = [np.where(np.asarray(s) > 0, w, gpu.idle_w) for s, w in zip(astuple(phases), watts)]
    peak = plain(np.max(np.stack(np.broadcast_arrays(*seen)), axis=0))
    node_average, node_peak = node.power_w(average, gpu.max_w), node.power_w(peak, gpu.max_w)
    node_idle = node.idle_w(gpu)
    others = site.network_w + site.storage_w
    it_average = site.nodes * node_average + site.spares * node_idle + others
    return PowerReport(
        gpu_average_w=average,
        gpu_peak_w=peak,
        node_average_w=node_average,
        node_peak_w=node_peak,
        node_idle_w=node_idle,
        it_average_w=it_average,
        it_peak_w=site.nodes * node_peak + site.spares * node_idle + others,
        it_idle_w=(site.nodes + site.spares) * node_idle + others,
        facility_average_w=site.pue * it_average,
        swing_w=plain(np.where(np.asarray(exposed) > 0, site.nodes * node.gpus * (watts[0] - watts[2]), 0.0)),
    )


def energy_per_token_j(power_w: Num, step_s: Num, tokens: Num) -> Num:
    """Joules per token of a step of `tokens` > 0 at a mean power: IT power gives IT energy, facility power the meter's.

    >>> round(energy_per_token_j(2048 * 6701.8, 6.46, 16 * 2**20), 3)
    5.285
    """
    return power_w * step_s / tokens


def run_energy_kwh(facility_w: Num, train_s: Num, *, idle_w: Num = 0.0, idle_s: Num = 0.0) -> Num:
    """Energy of a run: `train_s` at its mean power, `idle_s` (restarts, waiting) at `idle_w`, both with the PUE.

    >>> round(run_energy_kwh(400.0, 3_311_616 * 3600.0))  # Llama 2, GPUs at TDP
    1324646
    """
    return (facility_w * train_s + idle_w * idle_s) / KWH_J


def _check(phases: PhaseSeconds, gpu: Gpu, node: Node, site: Site) -> None:
    rules = (
        (all(np.all(np.asarray(s) >= 0) for s in astuple(phases)), "phases: negative seconds", ""),
        (np.all(np.asarray(phases.total_s) > 0), "phases: the step takes no time", ""),
        (np.all(np.asarray(gpu.idle_w) >= 0), "GPU: idle power is negative", "add power_idle to hardware_db/gpus"),
        (
            np.all((np.asarray(gpu.max_w) > 0) & (np.asarray(gpu.max_w) >= gpu.idle_w)),
            "GPU: power limit is missing or below idle power",
            "add power_limit to hardware_db/gpus",
        ),
        (np.all(np.asarray(site.pue) >= 1), "facility.pue: below 1", "facility power includes IT power"),
        (node.gpus > 0 and site.nodes > 0 and site.spares >= 0, "cluster: no nodes or GPUs", ""),
        (
            all(np.all(np.asarray(w) >= 0) for w in (node.host_w, node.fan_w, site.network_w, site.storage_w)),
            "cluster: negative watts of host, fans, network or storage",
            "",
        ),
    )
    problems = [Problem(message, advice) for good, message, advice in rules if not good]
    if problems:
        raise InputError(problems)
