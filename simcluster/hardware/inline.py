"""Nodes and fabrics that the user writes out instead of naming them; keys as in a scenario's `cluster`.

    node:   {base, gpu, gpus, host, nics: {count, link} or "8x 400 Gbit/s", ram, nvme, scale_up, scale_up_domain, power}
    fabric: {base, protocol, link, links_per_node, rails, tiers, switch, oversubscription: {leaf, spine}, routing,
             storage}

Numbers are SI, text carries its unit; None counts as absent. `base` names a catalogue entry that gives the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from simcluster import units
from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.network import FabricSpec
from simcluster.hardware.node import NodeSpec
from simcluster.hardware.reading import near
from simcluster.hardware.schema import PROTOCOLS
from simcluster.shapes import Assumption

NODE_KEYS = (
    "base", "gpu", "gpus", "host", "nics", "ram", "nvme", "scale_up", "scale_up_domain", "power",
)  # fmt: skip
FABRIC_KEYS = (
    "base", "protocol", "link", "links_per_node", "rails", "tiers", "switch", "oversubscription", "routing", "storage",
)  # fmt: skip
_IB_NAMES = {100: "ib-edr-100", 200: "ib-hdr-200", 400: "ib-ndr-400", 800: "ib-xdr-800"}
_NICS = re.compile(r"\s*(\d+)\s*[x*]\s*(\S.*)")


def inline_node(
    given: Mapping[str, Any], catalogue: Catalogue, date: str | None = None
) -> tuple[NodeSpec, tuple[Assumption, ...]]:
    """Node from the user's words; InputError with every problem.

    >>> node, assumed = inline_node({"gpu": "a100-80gb-sxm", "gpus": 4, "nics": "2x 200 Gbit/s"}, Catalogue.load())
    >>> node.nics, node.nic_bytes_per_s, [a.path for a in assumed]
    (2, 25000000000.0, ['cluster.node.scale_up_domain'])
    """
    words = _Words(given, "cluster.node", NODE_KEYS)
    base, assumed = _base_node(words, catalogue, date)
    words.finish()
    base, more = _with_parts(base, words, catalogue, date)
    assumed += more
    count, rate = words.nics()
    gpus = words.whole("gpus") or base.gpus
    domain = words.whole("scale_up_domain")
    if not domain and ("base" not in words.given or (gpus != base.gpus and base.scale_up_domain == base.gpus)):
        domain = gpus
        why = "not stated; all GPUs of the node share its scale-up link"
        assumed += (Assumption("cluster.node.scale_up_domain", gpus, why),)
    node = replace(
        base,
        gpus=gpus,
        scale_up_domain=domain or base.scale_up_domain,
        nics=count or base.nics,
        nic_bytes_per_s=rate or base.nic_bytes_per_s,
        cards_stated=count > 0,
        fabric=base.fabric if rate in (0.0, base.nic_bytes_per_s) else "",
        host_cpu=words.text("host") or base.host_cpu,
        ram_bytes=words.number("ram", "bytes") or base.ram_bytes,
        nvme_bytes=words.number("nvme", "bytes") or base.nvme_bytes,
        power_max_w=words.number("power", "watts") or base.power_max_w,
    )
    words.finish()
    return node, assumed


def inline_fabric(
    given: Mapping[str, Any], catalogue: Catalogue, date: str | None = None
) -> tuple[FabricSpec, tuple[Assumption, ...]]:
    """Fabric from the user's words; InputError with every problem.

    The id is that of the catalogue's fabric of the same protocol and rate, where there is just one.

    >>> fabric, _ = inline_fabric({"protocol": "roce", "link": "400 Gbit/s", "switch": "sn5600"}, Catalogue.load())
    >>> fabric.id, fabric.link_bytes_per_s, fabric.switch_radix
    ('roce-400', 50000000000.0, 128)
    """
    words = _Words(given, "cluster.fabric", FABRIC_KEYS)
    name = words.text("base")
    base, assumed = catalogue.fabric(name, date, path="cluster.fabric.base") if name else (None, ())
    protocol = words.text("protocol") or (base.protocol if base else "")
    link = words.number("link", "bytes_per_s") or (base.link_bytes_per_s if base else 0.0)
    words.check(protocol in PROTOCOLS, "protocol", f"protocol {protocol!r} is unknown", near(protocol, PROTOCOLS))
    words.check(base is not None or link > 0, "link", "link is missing", "write link: 400 Gbit/s")
    words.finish()
    if base is None or (protocol, link) != (base.protocol, base.link_bytes_per_s):
        base = _same_fabric(protocol, link, catalogue)
    fabric = replace(
        base,
        nics_per_node=words.whole("links_per_node") or base.nics_per_node,
        tiers=words.whole("tiers") or base.tiers,
        rails=words.flag("rails", base.rails),
        oversubscription=words.ratios(),
        routing=words.text("routing"),
        storage=words.text("storage"),
    )
    switch = words.text("switch")
    words.finish()
    return (_switched(fabric, switch, catalogue) if switch else fabric), assumed


def _base_node(words: _Words, catalogue: Catalogue, date: str | None) -> tuple[NodeSpec, tuple[Assumption, ...]]:
    name = words.text("base")
    if name:
        base, assumed = catalogue.node(name, date, path="cluster.node.base")
        return replace(base, id=f"{base.id}-changed", name=f"{base.name}, changed"), assumed
    gpu_name, gpus = words.text("gpu"), words.whole("gpus")
    words.check(bool(gpu_name), "gpu", "gpu is missing", "name a GPU, or base: a catalogue node")
    words.check(gpus > 0, "gpus", "gpus is missing", "say how many GPUs a node has")
    words.finish()
    gpu, _ = catalogue.gpu(gpu_name, date)
    node = NodeSpec(
        id="inline",
        name=f"{gpus}x {gpu.name}",
        gpu=gpu,
        gpus=gpus,
        scale_up_domain=gpus,
        nics=0,
        nic_bytes_per_s=0.0,
        fabric="",
        pcie_generation=gpu.pcie_generation,
        scale_up=gpu.scale_up,
        scale_up_bytes_per_s=gpu.scale_up_bytes_per_s,
    )
    return node, ()


def _with_parts(
    node: NodeSpec, words: _Words, catalogue: Catalogue, date: str | None
) -> tuple[NodeSpec, tuple[Assumption, ...]]:
    """The node with the accelerator and the scale-up link that the user names."""
    assumed: tuple[Assumption, ...] = ()
    name, link = words.text("gpu"), words.text("scale_up")
    if name:
        gpu, assumed = catalogue.gpu(name, date, path="cluster.node.gpu")
        if gpu.id != node.gpu.id:
            node = replace(node, gpu=gpu, **_link_of(gpu.scale_up, gpu.scale_up_bytes_per_s))
    if link:
        node = replace(node, **_link_of(link, _scale_up_rate(link, node, catalogue)))
    return node, assumed


def _link_of(link: str, rate: float) -> dict[str, Any]:
    return {"scale_up": link, "scale_up_bytes_per_s": rate}


def _scale_up_rate(link: str, node: NodeSpec, catalogue: Catalogue) -> float:
    if link == node.gpu.scale_up:
        return node.gpu.scale_up_bytes_per_s
    entry, _, _ = catalogue.find("networks", link)
    rate = entry.number("scale_up_rate")
    if not rate:
        raise InputError(Problem(f"scale_up: {link!r} has no rate of its own", "name a generation, such as nvlink4"))
    return rate


def _same_fabric(protocol: str, link: float, catalogue: Catalogue) -> FabricSpec:
    """The catalogue's fabric of this protocol and rate if there is just one, else one without switches."""
    gbit = round(link * 8e-9)
    id_ = _IB_NAMES.get(gbit, f"ib-{gbit}") if protocol == "ib" else f"{protocol}-{gbit}"
    if id_ in catalogue.files("networks"):
        found, _ = catalogue.fabric(id_)
        if found.protocol == protocol and abs(found.link_bytes_per_s / link - 1) < 1e-6:
            return replace(found, switch="")
    return FabricSpec(id=id_, name=f"{protocol} {gbit} Gbit/s", protocol=protocol, link_bytes_per_s=link)


def _switched(fabric: FabricSpec, switch: str, catalogue: Catalogue) -> FabricSpec:
    """The fabric built of a given switch; a port splits into as many links as fit its rate."""
    entry, _, _ = catalogue.find("networks", switch)
    if entry.type != "switch":
        raise InputError(
            Problem(f"switch: {switch!r} is a {entry.type}, not a switch", "name a switch, such as qm9700")
        )
    split = max(1, int(entry.number("port_rate") / (fabric.link_bytes_per_s or entry.number("port_rate")) + 1e-9))
    if fabric.link_bytes_per_s > entry.number("port_rate") * (1 + 1e-9):
        raise InputError(Problem(f"switch: the ports of {entry.id} are slower than the link", "name a faster switch"))
    return replace(fabric, switch=entry.id, switch_radix=int(entry.number("ports")) * split)


class _Words:
    """Reads the user's mapping; problems are gathered and raised by `finish`."""

    def __init__(self, given: Mapping[str, Any], path: str, allowed: tuple[str, ...]) -> None:
        self.given = {key: value for key, value in given.items() if value is not None}
        self.path = path
        self.problems = [
            Problem(f"{path}: unknown key {key!r}", near(key, allowed)) for key in self.given if key not in allowed
        ]

    def finish(self) -> None:
        if self.problems:
            raise InputError(self.problems)

    def check(self, fine: bool, key: str, message: str, advice: str = "") -> None:
        if not fine:
            self.problems.append(Problem(f"{self.path}.{key}: {message}", advice))

    def text(self, key: str) -> str:
        value = self.given.get(key, "")
        self.check(isinstance(value, str), key, f"must be a name, not {value!r}")
        return value if isinstance(value, str) else ""

    def number(self, key: str, dimension: units.Dimension, value: Any = None) -> float:
        value = self.given.get(key) if value is None else value
        if value is None:
            return 0.0
        try:
            number = units.parse(value, dimension, bare=not isinstance(value, str) or None)
        except ValueError as error:
            self.check(False, key, str(error))
            return 0.0
        self.check(number > 0, key, f"must be greater than 0, not {value!r}")
        return number

    def whole(self, key: str, value: Any = None) -> int:
        value = self.given.get(key) if value is None else value
        if value is None:
            return 0
        fine = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 1 and value == int(value)
        self.check(fine, key, f"must be a whole number from 1 on, not {value!r}")
        return int(value) if fine else 0

    def flag(self, key: str, default: bool) -> bool:
        value = self.given.get(key, default)
        self.check(isinstance(value, bool), key, f"must be true or false, not {value!r}")
        return bool(value)

    def nics(self) -> tuple[int, float]:
        """Count and rate of the cards, (0, 0.0) if nothing is said."""
        raw = self.given.get("nics")
        if isinstance(raw, str):
            match = _NICS.fullmatch(raw)
            self.check(match is not None, "nics", f"{raw!r} is not understood", "write '8x 400 Gbit/s'")
            raw = {"count": int(match[1]), "link": match[2]} if match else None
        if raw is None:
            return 0, 0.0
        if isinstance(raw, Mapping):
            return self.whole("nics", raw.get("count", 0)), self.number("nics", "bytes_per_s", raw.get("link"))
        return self.whole("nics", raw), 0.0

    def ratios(self) -> dict[str, float]:
        raw = self.given.get("oversubscription") or {}
        ratios = dict(raw) if isinstance(raw, Mapping) else {"leaf": raw}
        for tier, ratio in ratios.items():
            self.check(tier in ("leaf", "spine", "core"), "oversubscription", f"unknown tier {tier!r}", "leaf, spine")
            fine = isinstance(ratio, (int, float)) and not isinstance(ratio, bool) and ratio > 0
            self.check(fine, "oversubscription", f"{tier} must be a number above 0, not {ratio!r}")
        return {} if self.problems else {str(tier): float(ratio) for tier, ratio in ratios.items()}
