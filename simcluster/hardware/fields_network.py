"""What an entry of a fabric, a link, a switch, a card, an optic or a cable may hold."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.hardware.field import Field

_PRICE = Field("usd", "purchase price", low=1, high=1e7)
_LINE_RATE = Field("bytes_per_s", "line rate of a port, one direction", True, 1e8, 1e12)

FABRIC: Mapping[str, Field] = {
    "protocol": Field("text", "ib, roce, efa, tcp, slingshot, opa or none", True),
    "link_rate": Field("bytes_per_s", "line rate of one card, one direction", low=1e8, high=1e12),
    "nics_per_node": Field("count", "cards in a node that usually has this fabric", low=1, high=128),
    "switch": Field("text", "usual switch", refers="networks"),
    "switch_radix": Field("count", "ports of that switch at the link rate", low=2, high=4096),
    "optic": Field("text", "usual module at the card's end of a cable", refers="networks"),
    "planes": Field("count", "equal networks that each card is split over; absent is 1", low=1, high=8),
    "tiers": Field("count", "switch tiers, where they do not follow from radix and size", low=1, high=5),
    "mtu": Field("bytes", "largest payload of a packet", low=256, high=65536),
    "large_message_efficiency": Field("fraction", "share of the line rate that large messages reach", high=1.0),
}

SCALE_UP: Mapping[str, Field] = {
    "protocol": Field("text", "none: nothing lies between nodes", True),
    "scale_up_rate": Field("bytes_per_s", "link of one GPU, one direction", low=1e9, high=1e13),
}

SWITCH: Mapping[str, Field] = {
    "ports": Field("count", "ports", True, 2, 4096),
    "port_rate": _LINE_RATE,
    "capacity": Field("bytes_per_s", "all ports together, one direction", low=1e8, high=1e15),
    "latency": Field("seconds", "port to port", low=1e-9, high=1e-4),
    "power_typical": Field("watts", "power with passive cables", low=1, high=2e4),
    "power_max": Field("watts", "highest power with optics", low=1, high=2e4),
    "optic": Field("text", "usual module in its cages", refers="networks"),
    "price": _PRICE,
}

NIC: Mapping[str, Field] = {
    "ports": Field("count", "ports", True, 1, 16),
    "port_rate": _LINE_RATE,
    "latency": Field("seconds", "one message from memory to memory", low=1e-9, high=1e-3),
    "power_typical": Field("watts", "power without optics", low=1, high=500),
    "power_max": Field("watts", "highest power without optics", low=1, high=500),
    "price": _PRICE,
}

LINK: Mapping[str, Field] = {
    "ports": Field("count", "line ends in one module", low=1, high=16),
    "port_rate": Field("bytes_per_s", "line rate of one of them, one direction", low=1e8, high=1e12),
    "reach": Field("metres", "longest run", low=0.1, high=1e5),
    "power_typical": Field("watts", "power of one end", high=500),
    "power_max": Field("watts", "highest power of one end", high=500),
    "price": _PRICE,
}

PROTOCOLS = ("ib", "roce", "efa", "tcp", "slingshot", "opa", "none")
