"""Power of a node besides its accelerators: the host and the fans.

A node at work takes 1.06 (GPUs + host) + fans, the fans in step with the GPUs' power; 1.06 is the loss of supplies.
"""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.found import Found, fact, found_fact
from simcluster.hardware.node import NodeSpec

_LIQUID_DOMAIN = 36  # accelerators in one scale-up domain from which on a rack is liquid-cooled
_LEAST_REST = 0.2  # share of the GPUs' power below which a full load leaves no room for host and fans


@dataclass(frozen=True, slots=True)
class NodePower:
    """Constants of a node's power.

    host           [W] processors, memory, cards, drives, switches of the node, before supply losses
    fans           [W] at full load
    supply_factor  power in over power out of the supplies, >= 1
    """

    host: Found
    fans: Found
    supply_factor: Found

    def full_load_w(self, node: NodeSpec) -> float:
        """Power of the node with its accelerators at their limits [W].

        >>> catalogue = Catalogue.load()
        >>> node, _ = catalogue.node("hgx-h100")
        >>> round(node_power(catalogue, node).full_load_w(node))
        8403
        """
        return self.supply_factor.value * (node.gpus * node.gpu.power_limit_w + self.host.value) + self.fans.value


def is_liquid_cooled(node: NodeSpec) -> bool:
    """Whether liquid takes most of the node's heat: as its entry says, or as all racks with one large NVLink domain.

    >>> [is_liquid_cooled(Catalogue.load().node(name)[0]) for name in ("dgx-gb300", "dgx-b200")]
    [True, False]
    """
    said = node.entry is not None and node.entry.number("liquid_share") > 0.5
    return said or node.scale_up_domain >= _LIQUID_DOMAIN


def node_power(catalogue: Catalogue, node: NodeSpec) -> NodePower:
    """Host and fans of a node.

    Stated in the node's entry, else in that of a server with the same accelerator, else what the full load of such a
    server (its power in training, or 83 % of its rating) leaves beside the accelerators, else the shares of an H100
    server. All but the first are estimates.
    """
    supply = found_fact(catalogue, "facilities", "node-power", "supplies and converters, power in over power out")
    twin = node if _powered(node) else _twin(catalogue, node)
    if twin is None:
        host, fans = _shares(catalogue, node)
    elif _stated(twin):
        assert twin.entry is not None
        host, fans = (Found.of(twin.entry.values[key], _said(key, twin)) for key in ("host_power", "fan_power"))
    else:
        host, fans = _derived(catalogue, twin, supply.value)
    if twin is not None and (twin.id != node.id or twin.gpus != node.gpus):
        scale, why = node.gpus / twin.gpus, f"; taken for {node.id} by number of GPUs"
        host, fans = (one.times(scale, one.why + why, "estimate") for one in (host, fans))
    return NodePower(host, fans, supply)


def _said(key: str, node: NodeSpec) -> str:
    return f"{'host' if key == 'host_power' else 'fans'} of {node.name}"


def _stated(node: NodeSpec) -> bool:
    entry = node.entry
    return entry is not None and {"host_power", "fan_power"} <= set(entry.values) and _has_own_gpus(node)


def _has_own_gpus(node: NodeSpec) -> bool:
    entry = node.entry
    return entry is not None and (entry.text("gpu"), entry.number("gpus")) == (node.gpu.id, node.gpus)


def _powered(node: NodeSpec) -> bool:
    """Whether anything is known of the node's own power."""
    if _stated(node):
        return True
    return node.gpu.power_limit_w > 0 and node.power_max_w > 0 and (node.entry is None or _has_own_gpus(node))


def _twin(catalogue: Catalogue, node: NodeSpec) -> NodeSpec | None:
    """A server with the same accelerator whose power is known: stated first, then of the nearest size."""
    nodes = [catalogue.node(entry.id)[0] for entry in catalogue.entries("nodes") if entry.text("gpu") == node.gpu.id]
    known = [other for other in nodes if _powered(other)]
    return min(known, key=lambda other: (not _stated(other), abs(other.gpus - node.gpus), other.id), default=None)


def _derived(catalogue: Catalogue, node: NodeSpec, supply: float) -> tuple[Found, Found]:
    """What full load leaves beside the accelerators, shared between host and fans as the cooling has it."""
    share = fact(catalogue, "facilities", "node-power", "power at full load, share of the rating").quantity
    gpus_w = node.gpus * node.gpu.power_limit_w
    rated = share.number * node.power_max_w
    full, what = max((rated, f"{share.number:.0%} of its rating"), (node.power_training_w, "in training"))
    if full < gpus_w * (supply + _LEAST_REST):
        full, what = node.power_max_w, "its rating"
    rest = full - supply * gpus_w
    if rest <= 0:
        return _shares(catalogue, node)
    host, fans = _shares(catalogue, node)
    whole = supply * host.value + fans.value
    why = f"full load of {node.name} {full:,.0f} W ({what}), less its GPUs at their limits"
    factor = rest / whole
    return host.times(factor, f"host: {why}", "estimate"), fans.times(factor, f"fans: {why}", "estimate")


def _shares(catalogue: Catalogue, node: NodeSpec) -> tuple[Found, Found]:
    cooled = "fans of a liquid-cooled node" if is_liquid_cooled(node) else "fans of an air-cooled node"
    names = ("host of a node, share of the power of its GPUs", f"{cooled}, share of the power of its GPUs")
    gpus_w = node.gpus * node.gpu.power_limit_w
    host, fans = (
        found.times(gpus_w, f"{found.value:.0%} of {gpus_w:,.0f} W: {name}", "estimate")
        for name in names
        for found in (found_fact(catalogue, "facilities", "node-power", name),)
    )
    return host, fans
