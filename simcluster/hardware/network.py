"""The network between nodes: protocol, link, switches, and how many tiers a cluster of a size needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from simcluster.hardware.entry import Entry

TIER_NAMES = ("leaf", "spine", "core")  # switches from the hosts upwards
DEFAULT_TIERS = 2


@dataclass(frozen=True, slots=True)
class FabricSpec:
    """A fabric in SI units; 0 and "" stand for what is not stated.

    link_bytes_per_s  line rate of one card, one direction; 0: the node's own cards set it
    nics_per_node     cards per node that the name or the user states; 0: the node's own number
    tiers             0: follows from radix and size
    oversubscription  ports towards the hosts over ports upwards, by tier ("leaf", "spine"); absent is 1
    scale_up          the name is that of a link inside a node; nothing is said about the network between nodes
    entry             provenance of every value; None for a fabric that the user describes
    """

    id: str
    name: str
    protocol: str
    link_bytes_per_s: float = 0.0
    nics_per_node: int = 0
    usual_nics: int = 0
    tiers: int = 0
    switch: str = ""
    switch_radix: int = 0
    rails: bool = True
    oversubscription: Mapping[str, float] = field(default_factory=dict)
    routing: str = ""
    storage: str = ""
    scale_up: bool = False
    entry: Entry | None = None

    @classmethod
    def of(cls, entry: Entry) -> FabricSpec:
        """Fabric of a complete catalogue entry (type fabric or scale-up)."""
        return cls(
            id=entry.id,
            name=entry.name or entry.id,
            protocol=entry.text("protocol"),
            link_bytes_per_s=entry.number("link_rate"),
            usual_nics=int(entry.number("nics_per_node")),
            tiers=int(entry.number("tiers")),
            switch=entry.text("switch"),
            switch_radix=int(entry.number("switch_radix")),
            scale_up=entry.type == "scale-up",
            entry=entry,
        )


def switch_tiers(nodes: int, nics_per_node: int, radix: int, *, rails: bool = True) -> int:
    """Tiers of a full-bisection folded Clos network (fat tree) of one switch model.

    One tier holds `radix` cards, and one rail each where card i of every node goes to switch i; two tiers hold
    radix^2/2, three radix^3/4 (Leiserson 1985; Al-Fares et al. 2008).

    nodes, nics_per_node   [count] cards are their product
    radix                  [count] ports of a switch at the cards' rate, >= 2

    >>> switch_tiers(32, 8, 64), switch_tiers(128, 8, 64), switch_tiers(256, 8, 64), switch_tiers(257, 8, 64)
    (1, 2, 2, 3)
    """
    cards = nodes * nics_per_node
    if cards <= radix or (rails and nodes <= radix // 2):
        return 1
    tiers, capacity = 2, radix * radix / 2
    while capacity < cards:
        tiers += 1
        capacity *= radix / 2
    return tiers


def path_oversubscription(ratios: Mapping[str, float], tiers: int) -> float:
    """Worst ratio of hosts' ports to the uplinks that carry them, over the tiers below the top one; at least 1.

    Ratios of successive tiers multiply: 2 at the leaf and 3 at the spine leave a sixth of the hosts' rate at the core.

    >>> path_oversubscription({"leaf": 2, "spine": 3}, 3), path_oversubscription({"leaf": 2}, 1)
    (6.0, 1.0)
    """
    worst = share = 1.0
    for name in TIER_NAMES[: max(tiers - 1, 0)]:
        share *= ratios.get(name, 1.0)
        worst = max(worst, share)
    return worst
