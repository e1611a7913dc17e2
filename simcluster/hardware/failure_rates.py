"""How often hardware fails: rates of a job's causes from the fleets that were watched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import stdev

from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.hardware.entry import Entry
from simcluster.hardware.found import Found
from simcluster.hardware.gpu import GpuSpec

_SOFTWARE = "Software"
_PARTS = (  # value of an entry, cause, what it grows with
    ("gpu_failures", "GPU", "gpu"),
    ("host_failures", "Host", "node"),
    ("nic_failures", "Network card", "nic"),
    ("link_failures", "Network link", "port"),
    ("software_failures", _SOFTWARE, "gpu"),
)


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """What can fail in a job [count]; a port is that of a card with its cable and its share of the switches."""

    gpus: int
    nodes: int
    nics: int
    ports: int

    @classmethod
    def of(cls, cluster: Cluster) -> UnitCounts:
        """Counts of the working nodes of a cluster."""
        return cls(cluster.gpus, cluster.nodes, cluster.nics, cluster.nics)

    def number(self, unit: str) -> int:
        """Units of a kind: gpu, node, nic or port."""
        return {"gpu": self.gpus, "node": self.nodes, "nic": self.nics, "port": self.ports}[unit]


@dataclass(frozen=True, slots=True)
class FailureDefault:
    """The fleet whose rates stand for an accelerator.

    name      entry of the catalogue's `reliability`
    ln_sigma  standard deviation of ln rate: how far fleets differ, and how few failures this one saw
    """

    name: str
    why: str
    kind: str
    ln_sigma: float


def failure_causes(catalogue: Catalogue, name: str, counts: UnitCounts) -> Mapping[str, Found]:
    """Rate of each cause of failures of a job [1/s].

    Causes as the fleet counted them, each scaled by the number of what it grows with; else one cause "Node"; else
    parts (GPU, host, network card, link, software), as far as they are known.

    Raises InputError if the entry is unknown or holds no rate.

    >>> counts = UnitCounts(gpus=16384, nodes=2048, nics=16384, ports=16384)
    >>> causes = failure_causes(Catalogue.load(), "llama-3-405b", counts)
    >>> round(sum(cause.value for cause in causes.values()) * 54 * 86400, 6)
    419.0
    """
    entry, _, _ = catalogue.find("reliability", name)
    if entry.type == "failure-rates":
        causes = _counted(entry, counts) or _by_node(entry, counts) or _by_parts(entry, counts)
        if causes:
            return causes
    advice = f"name one such as meta-rsc-1, or add node_failures to hardware_db/reliability/{entry.id}.yaml"
    raise InputError(Problem(f"{entry.id} holds no failure rates", advice))


def keeps_node(catalogue: Catalogue, name: str, cause: str) -> bool:
    """Whether a node works on after a failure of a cause: a fault of software takes none away.

    Where a fleet counts failures by node only, each takes one.

    >>> [keeps_node(Catalogue.load(), "llama-3-405b", cause) for cause in ("Software bug", "Network card")]
    [True, False]
    """
    entry, _, _ = catalogue.find("reliability", name)
    return cause == _SOFTWARE or any(row.name == cause and row.text("keeps_node") == "yes" for row in entry.table)


def default_failures(catalogue: Catalogue, gpu: GpuSpec) -> FailureDefault:
    """Fleet that stands for an accelerator: the largest with the same one, else of its generation, else of its time.

    >>> catalogue = Catalogue.load()
    >>> [default_failures(catalogue, catalogue.gpu(name)[0]).name for name in ("a100-80gb-sxm", "h200", "b300-sxm")]
    ['meta-rsc-1', 'llama-3-405b', 'skt-b200']
    """
    fleets = [entry for entry in catalogue.entries("reliability") if _is_fleet(entry)]
    if not fleets:
        raise InputError(Problem("the catalogue has no fleet with failure rates", "add one to hardware_db/reliability"))
    specs = {entry.id: catalogue.gpu(entry.text("gpu"))[0] for entry in fleets}
    rank = {entry.id: _distance(gpu, specs[entry.id]) for entry in fleets}
    best = min(fleets, key=lambda entry: (rank[entry.id], -entry.number("gpus"), entry.id))
    spread, few = node_rate_spread(catalogue), 1.0 / max(_failures_seen(best), 1.0)
    same = specs[best.id].id == gpu.id
    why = f"rates of {best.name}" + ("" if same else f", the nearest fleet to {gpu.name}")
    kind = best.values["gpus"].provenance.kind
    return FailureDefault(best.id, why, kind if same else "estimate", math.sqrt(spread**2 + few))


def node_rate_spread(catalogue: Catalogue) -> float:
    """Standard deviation of ln node rate over the fleets that state one; ln 2 with fewer than two.

    >>> round(node_rate_spread(Catalogue.load()), 2)
    0.51
    """
    rates = [entry.number("node_failures") for entry in catalogue.entries("reliability")]
    logs = [math.log(rate) for rate in rates if rate > 0]
    return stdev(logs) if len(logs) > 1 else math.log(2.0)


def _counted(entry: Entry, counts: UnitCounts) -> dict[str, Found]:
    """Causes that the fleet counted over a known time."""
    watched = entry.number("watched")
    fleet = _fleet(entry)
    causes = {}
    for row in entry.table:
        unit = row.text("scales_with")
        if unit and watched and fleet.number(unit):
            seen, of = row.quantity.number, fleet.number(unit)
            why = f"{entry.name}: {seen:g} in {watched / 86400:g} days of {of} {unit}s"
            found = Found.of(row.quantity, why)
            causes[row.name] = replace(found, value=seen / watched * counts.number(unit) / of)
    return causes


def _by_node(entry: Entry, counts: UnitCounts) -> dict[str, Found]:
    if "node_failures" not in entry.values:
        return {}
    rate = entry.values["node_failures"]
    why = f"{entry.name}: {rate.number * 86400e3:.3g} in 1000 days of a node"
    return {"Node": Found.of(rate, "").times(counts.nodes, why)}


def _by_parts(entry: Entry, counts: UnitCounts) -> dict[str, Found]:
    causes = {}
    for key, cause, unit in _PARTS:
        if key in entry.values:
            rate = entry.values[key]
            note = f"; {rate.provenance.note}" if rate.provenance.note else ""
            why = f"{entry.name}: {rate.number * 86400e3:.3g} in 1000 days of a {unit}{note}"
            causes[cause] = Found.of(rate, "").times(counts.number(unit), why)
    return causes


def _fleet(entry: Entry) -> UnitCounts:
    gpus = int(entry.number("gpus"))
    nodes = gpus // int(entry.number("gpus_per_node", 8.0))
    nics = nodes * int(entry.number("nics_per_node", 0.0))
    return UnitCounts(gpus, nodes, nics, nics)


def _is_fleet(entry: Entry) -> bool:
    rated = "node_failures" in entry.values or "gpu_failures" in entry.values
    return entry.type == "failure-rates" and rated and entry.number("gpus") > 0 and "gpu" in entry.values


def _distance(one: GpuSpec, other: GpuSpec) -> float:
    """0 for the same accelerator, below 1 for its generation, else whole years between first shipments, and one."""
    if one.id == other.id:
        return 0.0
    return 0.5 if one.generation == other.generation else 1.0 + round(abs(_year(one) - _year(other)))


def _year(gpu: GpuSpec) -> float:
    words = gpu.entry.text("released", "2023").split("-")
    month = float(words[1]) if len(words) > 1 and words[1].isdigit() else 6.0
    return float(words[0][:4]) + month / 12 if words[0][:4].isdigit() else 2023.0


def _failures_seen(entry: Entry) -> float:
    """Failures that a fleet's rate rests on, infinite where the time is not known."""
    watched, fleet = entry.number("watched"), _fleet(entry)
    if not watched:
        return math.inf
    return watched * (entry.number("node_failures") * fleet.nodes or entry.number("gpu_failures") * fleet.gpus)
