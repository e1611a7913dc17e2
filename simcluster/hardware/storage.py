"""Storage of a cluster: how fast it reads and writes, how much of it there is, what power it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry
from simcluster.hardware.found import Found, found_fact

_UNIT_NODES = 32  # nodes of a SuperPOD scalable unit
_TIB = 2.0**40
_MANAGED = "lustre-cloud-1000"  # what is rented with machines where nobody says
_DEFAULT = ("superpod-su-better", "superpod-node-better")
_WRITE_OVER_READ = 0.5  # estimate: as in the SuperPOD guidelines, for systems that state no write rate


@dataclass(frozen=True, slots=True)
class StorageRates:
    """What all nodes together read and write [bytes/s]."""

    read: Found
    write: Found


def storage_rates(catalogue: Catalogue, system: str | None, nodes: int, capacity_bytes: float) -> StorageRates:
    """Rates of a storage system of the catalogue, or of what a SuperPOD of this size should have.

    system          name in the catalogue; None: the middle of the SuperPOD guidelines (Reference Architecture of DGX
                    H100: 40 and 20 GB/s for 32 nodes, at most 8 and 4 GB/s a node)
    nodes           [count] that use it, >= 1
    capacity_bytes  [bytes] of the system; the rate of some grows with it

    Raises InputError for an unknown name and for a single drive.

    >>> rates = storage_rates(Catalogue.load(), None, 64, 1e15)
    >>> rates.read.value, rates.write.value
    (80000000000.0, 40000000000.0)
    """
    if system is None:
        return StorageRates(*(_guideline(catalogue, key, nodes) for key in ("read_rate", "write_rate")))
    entry, _, _ = catalogue.find("storage", system)
    if entry.type != "storage-system":
        advice = "name a storage system, or write {drives: 24, drive: …, nic: 100 Gbit/s}"
        raise InputError(Problem(f"{system!r} is a {entry.type}, not a storage system", advice))
    factor, words = _factor(entry, nodes, capacity_bytes)
    why = f"{entry.name}{words}"
    read = Found.of(entry.values["read_rate"], "").times(factor, why)
    if "write_rate" not in entry.values:
        return StorageRates(read, read.times(_WRITE_OVER_READ, f"half of what {entry.name} reads", "estimate"))
    return StorageRates(read, Found.of(entry.values["write_rate"], "").times(factor, why))


def written_storage_rates(
    catalogue: Catalogue, drives: int, drive: str, nic_bytes_per_s: float, replicas: int = 1
) -> StorageRates:
    """Rates of a system that is written out: its drives, at most its network; each byte is stored `replicas` times.

    drives, replicas  [count] >= 1
    nic_bytes_per_s   [bytes/s] of the whole system, > 0

    >>> rates = written_storage_rates(Catalogue.load(), 24, "nvme-8tb", 12.5e9, 2)
    >>> rates.read.value, rates.write.value
    (12500000000.0, 6250000000.0)
    """
    entry, _, _ = catalogue.find("storage", drive)
    if entry.type != "drive":
        raise InputError(Problem(f"{drive!r} is a {entry.type}, not a drive", "name one, such as nvme-8tb"))
    why = f"{drives} {entry.name}, network {nic_bytes_per_s * 8e-9:.0f} Gbit/s, {replicas} copies"
    rates = []
    for key, copies in (("read_rate", 1), ("write_rate", replicas)):
        one = Found.of(entry.values[key], "")
        rates.append(one.times(min(drives * one.value, nic_bytes_per_s) / copies / one.value, why))
    return StorageRates(*rates)


def written_capacity_bytes(catalogue: Catalogue, drives: int, drive: str) -> float:
    """Capacity of all drives together [bytes], copies of data not counted apart.

    >>> written_capacity_bytes(Catalogue.load(), 10, "nvme-8tb")
    76800000000000.0
    """
    entry, _, _ = catalogue.find("storage", drive)
    return drives * entry.number("capacity")


def needed_capacity(catalogue: Catalogue, checkpoint_bytes: float, kept: int, dataset_bytes: float) -> Found:
    """Capacity that a job's checkpoints and data take [bytes], with room: they should not fill all of it.

    >>> needed_capacity(Catalogue.load(), 1e12, 3, 1e12).value
    5000000000000.0
    """
    fill = found_fact(catalogue, "storage", "data", "share of a file system that data may fill")
    needed = checkpoint_bytes * kept + dataset_bytes
    what = f"{kept} checkpoints" + (" and the data" if dataset_bytes else "")
    why = f"what this job keeps: {what} fill {fill.value:.0%}"
    return replace(fill, value=needed / fill.value, why=why, kind="derived")


def usual_capacity(catalogue: Catalogue, gpus: int) -> Found:
    """Capacity that training clusters have [bytes], by their number of GPUs.

    >>> usual_capacity(Catalogue.load(), 256).value
    1024000000000000.0
    """
    each = found_fact(catalogue, "storage", "data", "capacity for each GPU of a training cluster")
    return each.times(gpus, f"{each.value / 1e12:g} TB for each of {gpus} GPUs: {each.why}")


def managed_rates(catalogue: Catalogue, capacity_bytes: float) -> StorageRates:
    """Rates of a cloud's managed file system: they grow with its capacity [bytes].

    >>> managed_rates(Catalogue.load(), 20 * 2.0**40).write.value
    20000000000.0
    """
    return storage_rates(catalogue, _MANAGED, 1, capacity_bytes)


def managed_price(catalogue: Catalogue, capacity_bytes: float) -> Found:
    """Rent of a cloud's managed file system [USD/s] of a capacity [bytes].

    >>> round(managed_price(Catalogue.load(), 1e12).value * 3600 * 730.5)
    600
    """
    entry = catalogue.entry("storage", _MANAGED)
    why = f"rent of {entry.name}, {entry.values['price_rent'].provenance.date}"
    return Found.of(entry.values["price_rent"], "", entry.name).times(capacity_bytes, why)


def storage_power_w(catalogue: Catalogue, capacity_bytes: float) -> Found:
    """Power of flash storage [W] of a capacity [bytes]."""
    found = found_fact(catalogue, "storage", "data", "power of flash")
    return found.times(capacity_bytes, found.why)


def _guideline(catalogue: Catalogue, key: str, nodes: int) -> Found:
    unit, node = (catalogue.entry("storage", id_) for id_ in _DEFAULT)
    shared, own = unit.number(key) * max(nodes / _UNIT_NODES, 1.0), node.number(key) * nodes
    why = "SuperPOD guideline 'better' of the DGX H100 generation, {}"
    if own < shared:
        return Found.of(node.values[key], "").times(nodes, why.format(f"for {nodes} nodes"), "estimate")
    units = max(nodes / _UNIT_NODES, 1.0)
    return Found.of(unit.values[key], "").times(units, why.format(f"{units:.3g} units of 32 nodes"), "estimate")


def _factor(entry: Entry, nodes: int, capacity_bytes: float) -> tuple[float, str]:
    """How many times the entry's rate the cluster gets."""
    per = entry.text("per")
    if per == "node":
        return float(nodes), f", {nodes} nodes"
    if per == "connection":
        return float(nodes), f", one connection from each of {nodes} nodes"
    if per == "TiB":
        return capacity_bytes / _TIB, f", {capacity_bytes / _TIB:.4g} TiB"
    if per.startswith("scalable unit"):
        return max(nodes / _UNIT_NODES, 1.0), f", {max(nodes / _UNIT_NODES, 1.0):.3g} units of 32 nodes"
    return 1.0, ""
