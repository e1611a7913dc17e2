"""Flows of a step: what a stage's ranks move, over which of their links, and what that takes from their computing.

One rank stands for its stage, as everywhere: the ranks of a stage do the same at the same time, each with its share of
the node's network cards.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.parallel.mesh import stage_pair
from simcluster.program.plan import StepPlan, message_bytes
from simcluster.program.pricing import Machine
from simcluster.program.wiring import Flow
from simcluster.shapes import CollectiveKind, GroupShape

NETWORKS = ("scale-up", "network")
DIRECTIONS = ("out", "in")
_PER_STAGE = len(NETWORKS) * len(DIRECTIONS)


@dataclass(frozen=True, slots=True)
class Interference:
    """What communication takes from computing beside it.

    scale_up_sms, network_sms   multiprocessors that a collective holds on scale-up links, over network cards (a channel
                                holds one; rings use 16 to 32 and 4 to 16 of them: estimates within that)
    message_sms                 those of a message (two for one card: NVIDIA/nccl issue 689)
    hbm_bytes_per_byte          memory traffic of a byte on the wire (2 to 3: estimate)
    """

    scale_up_sms: float = 20.0
    network_sms: float = 8.0
    message_sms: float = 2.0
    hbm_bytes_per_byte: float = 2.5


NO_INTERFERENCE = Interference(0.0, 0.0, 0.0, 0.0)


def link_name(stage: int, network: str, direction: str) -> str:
    """Name of a stage's link.

    >>> link_name(3, "network", "out")
    'stage 3 network out'
    """
    return f"stage {stage} {network} {direction}"


def link_number(stage: int, network: str, direction: str) -> int:
    """Its place in the wiring of a step.

    >>> link_number(3, "network", "out")
    14
    """
    return stage * _PER_STAGE + NETWORKS.index(network) * len(DIRECTIONS) + DIRECTIONS.index(direction)


def link_names(stages: int) -> tuple[str, ...]:
    """Names of all links of a step, in the order of their numbers."""
    return tuple(
        link_name(stage, network, way) for stage in range(stages) for network in NETWORKS for way in DIRECTIONS
    )


def link_rates(machine: Machine, stages: int) -> list[float]:
    """Capacities of one rank's share of them [B/s]."""
    network = machine.network
    cards = network.nics_per_node * network.nic_bytes_per_s / network.gpus_per_node / max(network.oversubscription, 1.0)
    return ([network.scale_up_bytes_per_s] * 2 + [cards] * 2) * stages


@dataclass(frozen=True, slots=True)
class Exchange:
    """One collective of a transfer: its kind, bytes as `collective_time` counts them, group."""

    kind: CollectiveKind
    bytes: float
    group: GroupShape


class StepFlows:
    """Makes flows and numbers the distinct ones."""

    def __init__(self, plan: StepPlan, machine: Machine, interference: Interference) -> None:
        self.plan, self.machine, self.interference = plan, machine, interference
        self.bytes_per_s = link_rates(machine, plan.mesh.pp)
        self.numbers: dict[Flow, int] = {}

    @property
    def flows(self) -> tuple[Flow, ...]:
        """All of them, by number."""
        return tuple(self.numbers)

    def message(self, source: int, target: int) -> tuple[int, float] | None:
        """Flow and planned seconds of a message between stages; None if it goes nowhere."""
        network = self.machine.network
        pair = stage_pair(self.plan.mesh, source, target, network.domain_gpus, network.gpus_per_node)
        size = message_bytes(self.plan)
        if pair.ranks == 1 or size <= 0:
            return None
        seconds = float(self.machine.transfer("sendrecv", size, pair).seconds)
        level = NETWORKS[int(pair.domains > 1)]
        links = (link_number(source, level, "out"), link_number(target, level, "in"))
        one = Exchange("sendrecv", size, pair)
        return self._flow([one], seconds, links, self.interference.message_sms), seconds

    def collective(self, exchanges: Sequence[Exchange], seconds: float, stages: Sequence[int]) -> int | None:
        """Flow of collectives that follow each other and take `seconds` alone; None if nothing moves."""
        used = [one for one in exchanges if one.bytes > 0 and one.group.ranks > 1]
        if not used or seconds <= 0:
            return None
        level = NETWORKS[int(any(one.group.domains > 1 for one in used))]
        sms = self.interference.network_sms if level == "network" else self.interference.scale_up_sms
        links = tuple(link_number(stage, level, way) for stage in stages for way in DIRECTIONS)
        return self._flow(used, seconds, links, sms)

    def _flow(self, exchanges: Sequence[Exchange], seconds: float, links: tuple[int, ...], sms: float) -> int:
        """A flow that takes `seconds` alone: the time of next to nothing first, then it fills its links."""
        latency = min(seconds, sum(float(self.machine.transfer(x.kind, 1.0, x.group).seconds) for x in exchanges))
        moving = seconds - latency
        size = sum(one.bytes for one in exchanges) if moving > 0 else 0.0
        rate = size / moving if moving > 0 else 1.0
        device = self.machine.kernels.device
        fastest = max(self.bytes_per_s[link] for link in links)
        flow = Flow(
            bytes=size,
            path=tuple((link, self.bytes_per_s[link] / rate) for link in links) if moving > 0 else (),
            latency_s=latency,
            limit_bytes_per_s=rate,
            streams=tuple(sorted({link // _PER_STAGE for link in links})),
            sms=sms / device.sms,
            hbm=min(1.0, self.interference.hbm_bytes_per_byte * fastest / device.hbm_bytes_per_s),
        )
        return self.numbers.setdefault(flow, len(self.numbers))
