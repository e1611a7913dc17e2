"""What hardware costs to buy: a node, the network between nodes, storage. Each price says where it comes from."""

from __future__ import annotations

from simcluster.errors import InputError, Problem
from simcluster.hardware.bill import Bill
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry, Row
from simcluster.hardware.found import Found, age_note, fact, found_fact, joined
from simcluster.hardware.node import NodeSpec

_WITH_SERVER = "GPU with its server"  # label `per` of purchase prices that hold the whole node
_REFERENCE_BYTES_PER_S = 50e9  # the network costs per GPU were gathered on cards of 400 Gbit/s


def node_price(catalogue: Catalogue, node: NodeSpec) -> Found:
    """Purchase price of one node [USD], its network cards included.

    The node's own price, else its accelerators' prices times what a server adds (an estimate).
    Raises InputError that names the file to add a price to.

    >>> found = node_price(Catalogue.load(), Catalogue.load().node("hgx-b200")[0])
    >>> found.value, found.why
    (338496.0, 'price of HGX B200 8-GPU server, 2026-01-15')
    """
    own = _own_price(catalogue, node)
    if own is not None:
        return own
    row = _gpu_row(catalogue, node.gpu.id)
    if row is None:
        raise InputError(_no_price(catalogue, node))
    each = Found.of(row.quantity, "", row.name)
    what, old = f"{node.gpus}x {each.value:,.0f} USD for {row.name}", age_note(catalogue, each.date)
    if row.text("per") == _WITH_SERVER:
        return each.times(node.gpus, joined(f"no price of {node.id}; {what}", old), "estimate")
    server = fact(catalogue, "prices", "node-purchase", "server over the accelerators in it").quantity.number
    why = joined(f"no price of {node.id}; {what}, times {server:g} for the server", old)
    return each.times(node.gpus * server, why, "estimate")


def _own_price(catalogue: Catalogue, node: NodeSpec) -> Found | None:
    entry = node.entry
    if entry is None or "price" not in entry.values or not _is_entry(node, entry):
        return None
    price = entry.values["price"]
    date, note = price.provenance.date, price.provenance.note
    said = joined(f"price of {entry.name}, {date}", note, age_note(catalogue, date))
    return Found.of(price, said, entry.name)


def _is_entry(node: NodeSpec, entry: Entry) -> bool:
    """Whether a node still has the accelerators of the entry that it was made from."""
    return entry.text("gpu") == node.gpu.id and int(entry.number("gpus")) == node.gpus


def _gpu_row(catalogue: Catalogue, gpu: str) -> Row | None:
    rows = catalogue.entry("prices", "gpu-purchase").table
    return next((row for row in rows if row.text("of") == gpu), None)


def _no_price(catalogue: Catalogue, node: NodeSpec) -> Problem:
    known = node.entry.id if node.entry is not None and _is_entry(node, node.entry) else ""
    file = f"nodes/{known}.yaml" if known else "prices/gpu-purchase.yaml"
    where = str(catalogue.roots[-1] / file) if len(catalogue.roots) > 1 else f"hardware_db/{file}"
    advice = f"add it to {where} (or to that file in a folder of --hardware-db), or state acquire.own.price"
    return Problem(f"the catalogue has no purchase price of {node.id} or of {node.gpu.id}", advice)


def network_price(catalogue: Catalogue, bill: Bill) -> Found:
    """Purchase price of the network between nodes [USD]: switches, modules and cables; cards belong to the nodes.

    Where a part has no price: the known cost per GPU of InfiniBand or Ethernet at 400 Gbit/s a card, times the rate
    of the cards of a node (an estimate).
    """
    if not bill.tiers:
        return Found(0.0, "no network between nodes", "arithmetic", "", "derived")
    parts = {**bill.switch_counts, **bill.optics, **bill.cables}
    entries = {id_: catalogue.entry("networks", id_) for id_ in parts}
    if bill.priced and all("price" in entry.values for entry in entries.values()):
        total = sum(count * entries[id_].number("price") for id_, count in parts.items())
        told = entries[bill.switch].values["price"].provenance
        lists = ", ".join(f"{count} {id_}" for id_, count in parts.items())
        return Found(total, f"prices of {lists}", told.source, told.date, "estimate", row=" and ".join(sorted(parts)))
    name = "InfiniBand network per GPU" if bill.protocol == "ib" else "Ethernet network per GPU"
    each = found_fact(catalogue, "prices", "network-cost", name)
    share = bill.nics * bill.nic_bytes_per_s / (bill.gpus * _REFERENCE_BYTES_PER_S)
    why = f"{name} ({each.value:,.0f} USD at 400 Gbit/s), scaled to {share * 400:.0f} Gbit/s a GPU"
    return each.times(bill.gpus * share, why, "estimate")


def storage_price(catalogue: Catalogue, capacity_bytes: float, system: str | None = None) -> Found:
    """Purchase price of storage [USD] of a capacity [bytes]: that of a named system, else of flash file systems.

    >>> round(storage_price(Catalogue.load(), 1e15).value, 2)
    500000.0
    """
    if system is not None:
        entry, _, _ = catalogue.find("storage", system)
        if "price_per_capacity" in entry.values:
            price = entry.values["price_per_capacity"]
            why = f"price of {entry.name}, {price.provenance.date}"
            return Found.of(price, "", entry.name).times(capacity_bytes, joined(why, price.provenance.note))
    name = "flash file system, raw"
    found = found_fact(catalogue, "prices", "storage-and-memory", name)
    return found.times(capacity_bytes, joined(found.why, age_note(catalogue, found.date)))
