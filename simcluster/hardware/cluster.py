"""A cluster: nodes of one kind on one fabric, its counts, and the rates that collectives are priced with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.inline import inline_fabric, inline_node
from simcluster.hardware.network import DEFAULT_TIERS, TIER_NAMES, FabricSpec, path_oversubscription, switch_tiers
from simcluster.hardware.node import NodeSpec
from simcluster.shapes import Assumption, NetworkRates

NO_FABRIC = "none"
_SAME = 1e-6  # relative difference of rates that count as one
_USUAL_GPUS = 8  # `usual_nics` of a fabric counts the cards of an eight-GPU node


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes, spares and fabric, with what had to be assumed.

    nodes            working nodes; `spares` come on top and take no part in the job
    nic_bytes_per_s  one card, one direction: the fabric's rate, at most what the PCI Express slot carries
    nics_per_node    cards that carry training traffic
    tiers            switch tiers of the fabric
    oversubscription worst ratio of hosts' ports to uplinks on the way through all tiers, at least 1

    >>> cluster = cluster_from("dgx-h100", 64, catalogue=Catalogue.load())
    >>> cluster.gpus, cluster.fabric.id, cluster.tiers
    (512, 'ib-ndr-400', 2)
    >>> cluster.network_rates().nic_bytes_per_s
    50000000000.0
    """

    node: NodeSpec
    nodes: int
    fabric: FabricSpec
    nics_per_node: int
    nic_bytes_per_s: float
    tiers: int
    oversubscription: float
    spares: int = 0
    assumptions: tuple[Assumption, ...] = ()

    @property
    def gpus(self) -> int:
        """GPUs that take part in the job."""
        return self.nodes * self.node.gpus

    @property
    def total_gpus(self) -> int:
        """GPUs with those of the spare nodes."""
        return (self.nodes + self.spares) * self.node.gpus

    @property
    def nics(self) -> int:
        """Cards for training traffic in the working nodes."""
        return self.nodes * self.nics_per_node

    def network_rates(self) -> NetworkRates:
        """What the collective models need."""
        node = self.node
        return NetworkRates(
            gpu=node.gpu.id,
            scale_up=node.scale_up,
            scale_up_bytes_per_s=node.scale_up_bytes_per_s,
            domain_gpus=node.scale_up_domain,
            gpus_per_node=node.gpus,
            fabric=self.fabric.id,
            protocol=self.fabric.protocol,
            nic_bytes_per_s=self.nic_bytes_per_s,
            nics_per_node=self.nics_per_node,
            oversubscription=self.oversubscription,
        )


def cluster_from(
    node: str | Mapping[str, Any],
    nodes: int,
    fabric: str | Mapping[str, Any] | None = None,
    *,
    catalogue: Catalogue,
    spares: int = 0,
    date: str | None = None,
) -> Cluster:
    """Cluster of catalogue names or of mappings (keys: see `inline.py`).

    node, fabric  name, alias or mapping; no fabric: the node's usual one, listed as an assumption
    nodes, spares [count] nodes >= 1, spares >= 0
    date          ISO date for aliases that changed their meaning

    Raises InputError for unknown names, several nodes without a fabric, and ratios of tiers that do not exist.
    """
    if nodes < 1 or spares < 0:
        raise InputError(Problem(f"cluster: nodes {nodes}, spares {spares}", "nodes from 1 on, spares from 0 on"))
    spec, assumed = (
        catalogue.node(node, date, path="cluster.node") if isinstance(node, str) else inline_node(node, catalogue, date)
    )
    chosen, more = _fabric(spec, nodes, fabric, catalogue, date)
    notes = [*assumed, *more]
    if chosen.protocol == NO_FABRIC:
        return Cluster(spec, nodes, chosen, 0, 0.0, 1, 1.0, spares, tuple(notes))
    count, rate = _cards(spec, chosen, notes)
    tiers = _tiers(chosen, nodes, count, notes)
    worst = path_oversubscription(chosen.oversubscription, tiers)
    return Cluster(spec, nodes, chosen, count, rate, tiers, worst, spares, tuple(notes))


def _fabric(
    node: NodeSpec, nodes: int, given: str | Mapping[str, Any] | None, catalogue: Catalogue, date: str | None
) -> tuple[FabricSpec, tuple[Assumption, ...]]:
    chosen: FabricSpec | None = None
    assumed: tuple[Assumption, ...] = ()
    if isinstance(given, str):
        chosen, assumed = catalogue.fabric(given, date, path="cluster.fabric")
    elif given is not None:
        chosen, assumed = inline_fabric(given, catalogue, date)
    if chosen is not None and not chosen.scale_up:
        if chosen.protocol == NO_FABRIC and nodes > 1:
            message = f"cluster.fabric: {chosen.id!r} cannot join {nodes} nodes"
            raise InputError(Problem(message, f"name a fabric, such as {node.fabric or 'ib-ndr-400'}"))
        return chosen, assumed
    if nodes == 1:
        return catalogue.fabric(NO_FABRIC)[0], assumed
    return _usual_fabric(node, nodes, chosen, catalogue, assumed)


def _usual_fabric(
    node: NodeSpec, nodes: int, inside: FabricSpec | None, catalogue: Catalogue, assumed: tuple[Assumption, ...]
) -> tuple[FabricSpec, tuple[Assumption, ...]]:
    if node.fabric in ("", NO_FABRIC):
        message = f"cluster.fabric: {nodes} nodes of {node.id} need a fabric, and the node has no usual one"
        raise InputError(Problem(message, "add fabric, such as ib-ndr-400 or {protocol: roce, link: 400 Gbit/s}"))
    usual, _ = catalogue.fabric(node.fabric)
    said = f"{inside.id} is a link inside the node" if inside else "not stated"
    return usual, (*assumed, Assumption("cluster.fabric", usual.id, f"{said}; the usual fabric of {node.id}"))


def _cards(node: NodeSpec, fabric: FabricSpec, notes: list[Assumption]) -> tuple[int, float]:
    """Cards per node and rate of one, with notes on what was assumed."""
    count, rate = _count(node, fabric, notes), fabric.link_bytes_per_s
    own = node.nic_bytes_per_s
    why = ""
    if not rate and own:
        rate, why = own, f"{fabric.id} states no rate; that of the cards in {node.id}"
    elif own and abs(rate / own - 1) > _SAME:
        if node.cards_stated:
            rate, why = min(rate, own), f"the slower of the stated cards and {fabric.id}"
        else:
            why = f"cards of {node.id} taken as replaced by cards of {fabric.id}"
    if not count or not rate:
        what = "number of cards per node" if rate else "rate of the link"
        raise InputError(Problem(f"cluster.fabric: the {what} is not known", "add nics: 8x 400 Gbit/s to the node"))
    if rate > node.pcie_bytes_per_s:
        rate, why = node.pcie_bytes_per_s, f"a PCI Express {node.pcie_generation}.0 x16 slot carries no more"
    if why:
        notes.append(Assumption("cluster.fabric.link", rate, why))
    return count, rate


def _count(node: NodeSpec, fabric: FabricSpec, notes: list[Assumption]) -> int:
    if fabric.nics_per_node:
        return fabric.nics_per_node
    own = node.cards_stated or fabric.id == node.fabric or not fabric.usual_nics
    if own:
        return node.nics
    count = max(1, round(fabric.usual_nics * node.gpus / _USUAL_GPUS))
    if count != node.nics:
        why = f"cards per node that {fabric.id} usually has; {node.id} itself has {node.nics}"
        notes.append(Assumption("cluster.fabric.links_per_node", count, why))
    return count


def _tiers(fabric: FabricSpec, nodes: int, nics: int, notes: list[Assumption]) -> int:
    ratios = fabric.oversubscription
    needed = max((TIER_NAMES.index(tier) + 2 for tier in ratios if ratios[tier] != 1), default=1)
    if fabric.tiers:
        if needed > fabric.tiers:
            message = f"cluster.fabric: {fabric.tiers} tiers have no uplinks to oversubscribe above tier {needed - 1}"
            raise InputError(Problem(message, f"set tiers: {needed} or drop the ratio"))
        return fabric.tiers
    if fabric.switch_radix:
        tiers = switch_tiers(nodes, nics, fabric.switch_radix, rails=fabric.rails)
        by_rail = f", rail by rail: {nodes} cards each" if fabric.rails and nics > 1 else ""
        why = f"{nodes * nics} cards on switches of {fabric.switch_radix} ports{by_rail}"
    else:
        tiers, why = DEFAULT_TIERS, "not stated, and the switch is not known"
    tiers = max(tiers, needed)
    notes.append(Assumption("cluster.fabric.tiers", tiers, why))
    return tiers
