"""Bill of materials of a cluster: what it is made of and the watts of its network; no money."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.clos import ClosCounts, clos_counts
from simcluster.hardware.cluster import NO_FABRIC, Cluster
from simcluster.hardware.entry import Entry
from simcluster.hardware.network import TIER_NAMES

_CABLE = "cable-mpo12"
_STAND_INS = {True: ("qm8700", "qm9700", "q3400"), False: ("sn4600c", "tomahawk-4", "sn5600")}  # InfiniBand or not
_DEFAULT_OPTIC_W_PER_BYTES_PER_S = 15.0 / 100e9  # estimate: 15 W for 800 Gbit/s, modules of 2022 to 2026


@dataclass(frozen=True, slots=True)
class TierBill:
    """One tier: its switches, the cables below it, and the modules at both ends of these by catalogue id."""

    name: str
    switches: int
    cables: int
    optics: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Bill:
    """What a cluster is made of [count]; spare nodes are in every number. NVLink switches belong to the nodes.

    nics             cards for training traffic
    nic_bytes_per_s  one card, one direction
    switch           catalogue id of the switch; `switch_radix` its ports at the cards' rate
    tiers            leaf, spine, core, as far as they exist; empty without a fabric
    optics           modules by catalogue id, at the cards' ends too
    cables           fibres by catalogue id
    switch_w         [W] switches with passive cables
    optics_w         [W] modules
    priced           every module and cable is of a known model
    notes            what had to be assumed
    """

    nodes: int
    gpus: int
    nics: int
    nic_bytes_per_s: float
    protocol: str
    switch: str = ""
    switch_radix: int = 0
    tiers: tuple[TierBill, ...] = ()
    optics: Mapping[str, int] = field(default_factory=dict)
    cables: Mapping[str, int] = field(default_factory=dict)
    switch_w: float = 0.0
    optics_w: float = 0.0
    priced: bool = True
    notes: tuple[str, ...] = ()

    @property
    def switches(self) -> int:
        """All switches."""
        return sum(tier.switches for tier in self.tiers)

    @property
    def switch_counts(self) -> Mapping[str, int]:
        """Switches by catalogue id."""
        return {self.switch: self.switches} if self.tiers else {}

    @property
    def network_w(self) -> float:
        """Power of the network between nodes [W], without the cards, which count with their nodes."""
        return self.switch_w + self.optics_w


def bill_of_materials(catalogue: Catalogue, cluster: Cluster) -> Bill:
    """Nodes, cards, switches, modules and cables of a cluster, spares included.

    Tiers are those that join all cards, which may be more than training traffic crosses. A switch that the fabric
    does not name is taken from its speed and said in `notes`.

    Raises InputError if three tiers cannot hold the cluster.

    >>> from simcluster.hardware.cluster import cluster_from
    >>> bill = bill_of_materials(Catalogue.load(), cluster_from("dgx-h100", 127, catalogue=Catalogue.load(), spares=1))
    >>> bill.switch, [tier.switches for tier in bill.tiers], bill.optics, round(bill.network_w)
    ('qm9700', [32, 16], {'optic-400g-sr4': 1024, 'optic-800g-2xsr4': 1536}, 67088)
    """
    nodes = cluster.nodes + cluster.spares
    bare = Bill(
        nodes, cluster.total_gpus, nodes * cluster.nics_per_node, cluster.nic_bytes_per_s, cluster.fabric.protocol
    )
    if cluster.fabric.protocol == NO_FABRIC or not bare.nics:
        return bare
    switch, radix, notes = _switch(catalogue, cluster)
    planes, told = _told(cluster, "planes", 1), _told(cluster, "tiers", 0)
    counts = clos_counts(
        nodes,
        cluster.nics_per_node,
        radix * planes,
        tiers=0 if cluster.fabric.tiers == told else cluster.fabric.tiers,
        rails=cluster.fabric.rails,
        oversubscription=cluster.fabric.oversubscription,
    )
    tiers, unknown = _tiers(catalogue, cluster, counts, switch, planes)
    optics: Counter[str] = Counter()
    for tier in tiers:
        optics.update(tier.optics)
    lines = sum(counts.cables)
    if unknown:
        notes += ("modules of no known model: 15 W for 800 Gbit/s",)
    known = sum(count * catalogue.entry("networks", id_).number("power_typical") for id_, count in optics.items())
    switches = sum(tier.switches for tier in tiers)
    return Bill(
        bare.nodes, bare.gpus, bare.nics, bare.nic_bytes_per_s, bare.protocol,
        switch=switch.id,
        switch_radix=radix,
        tiers=tiers,
        optics=dict(optics),
        cables={_CABLE: lines},
        switch_w=switches * _switch_power(switch),
        optics_w=known + unknown * _line_rate(cluster) * _DEFAULT_OPTIC_W_PER_BYTES_PER_S,
        priced=not unknown,
        notes=notes,
    )  # fmt: skip


def _line_rate(cluster: Cluster) -> float:
    """Rate of a cable; a slow slot or card does not change the cable."""
    return max(cluster.nic_bytes_per_s, cluster.fabric.link_bytes_per_s)


def _told(cluster: Cluster, key: str, default: int) -> int:
    """Count in the entry of the fabric. Tiers that a cloud's network is thought to have are not the user's wish."""
    entry = cluster.fabric.entry
    return int(entry.number(key, default)) if entry is not None else default


def _parts(catalogue: Catalogue, cluster: Cluster) -> Entry | None:
    """Entry that tells the fabric's switch and modules: its own, else that of its protocol at the cables' rate."""
    own, protocol = cluster.fabric.entry, cluster.fabric.protocol
    if own is not None and own.text("optic"):
        return own
    ending = f"-{_line_rate(cluster) * 8e-9:.0f}"
    known = [id_ for id_ in catalogue.files("networks") if id_.startswith(f"{protocol}-") and id_.endswith(ending)]
    return catalogue.entry("networks", known[0]) if known else own


def _switch(catalogue: Catalogue, cluster: Cluster) -> tuple[Entry, int, tuple[str, ...]]:
    """Switch, its ports at the cards' rate, and what was assumed of it."""
    fabric, rate, parts = cluster.fabric, _line_rate(cluster), _parts(catalogue, cluster)
    switch = fabric.switch or (parts.text("switch") if parts is not None else "")
    if switch:
        entry, _, _ = catalogue.find("networks", switch)
        return entry, fabric.switch_radix or _radix(entry, rate), ()
    known = [catalogue.entry("networks", id_) for id_ in _STAND_INS[fabric.protocol == "ib"]]
    entry = next((one for one in known if one.number("port_rate") >= rate * (1 - 1e-6)), known[-1])
    radix = fabric.switch_radix or _radix(entry, rate)
    return entry, radix, (f"switches of {fabric.id} are not known: taken as {entry.id} with {radix} ports",)


def _radix(switch: Entry, rate: float) -> int:
    return int(switch.number("ports")) * max(1, int(switch.number("port_rate") / rate + 1e-6))


def _tiers(
    catalogue: Catalogue, cluster: Cluster, counts: ClosCounts, switch: Entry, planes: int
) -> tuple[tuple[TierBill, ...], int]:
    """Tiers of the network, and module ends of no known model. Planes split a card's line, not its cable."""
    parts = _parts(catalogue, cluster)
    card_optic = parts.text("optic") if parts is not None else ""
    tiers, unknown = [], 0
    for index, (name, switches, cables) in enumerate(zip(TIER_NAMES, counts.switches, counts.cables)):
        if not switches:
            break
        optics: Counter[str] = Counter()
        below, above = (card_optic if index == 0 else switch.text("optic")), switch.text("optic")
        for id_ in (below, above):
            if id_:
                optics[id_] += ceil(cables / _lines(catalogue.entry("networks", id_), _line_rate(cluster)))
            else:
                unknown += cables
        tiers.append(TierBill(name, switches * planes, cables, dict(optics)))
    return tuple(tiers), unknown


def _lines(optic: Entry, rate: float) -> int:
    """Cables at the cards' rate that end in one module."""
    return max(1, int(optic.number("ports", 1.0) * optic.number("port_rate") / rate + 1e-6))


def _switch_power(switch: Entry) -> float:
    return switch.number("power_typical") or switch.number("power_max")
