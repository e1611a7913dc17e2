"""What hardware costs to rent: from the price list of a node's own cloud, or from the market of its accelerator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import log
from statistics import median, stdev

from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry, Row
from simcluster.hardware.found import Found, age_note, date_key, fact, joined
from simcluster.hardware.node import NodeSpec
from simcluster.shapes import TERM_MONTHS
from simcluster.units import HOUR_S

_MARKET = "market"
_SAME_AS = {"spot": ("spot", "preemptible")}
_DISCOUNTS = {"1y": "one year, off the list", "3y": "three years, off the list", "spot": "spot, off on-demand"}
_BOUND_SHORTER = {"1y": ("on-demand",), "3y": ("1y", "on-demand"), "spot": ("on-demand",)}


def rent_price(catalogue: Catalogue, node: NodeSpec, term: str) -> Found:
    """List price of renting [USD per GPU and second].

    A cloud's node: the newest row of its cloud for the term (spot takes preemptible ones too); without one, a discount
    off its on-demand price (an estimate). Any other node: the market of its accelerator, an estimate; a longer term
    never costs more there than a shorter one. Upfront payment and the like are told in `why` where the list says so.

    term   on-demand, 1y, 3y or spot

    Raises InputError that names the file where a price is missing.

    >>> catalogue = Catalogue.load()
    >>> round(rent_price(catalogue, catalogue.node("aws-p5")[0], "on-demand").value * 3600, 3)
    6.88
    """
    if term not in TERM_MONTHS:
        raise InputError(Problem(f"rent term {term!r} is unknown", f"one of {', '.join(TERM_MONTHS)}"))
    found = _listed(catalogue, node, term) if node.provider else _market(catalogue, node.gpu.id, term)
    if found is None:
        raise InputError(_no_rent(catalogue, node, term))
    return found


def _listed(catalogue: Catalogue, node: NodeSpec, term: str) -> Found | None:
    """Price in the list of the node's own cloud."""
    cloud = catalogue.entry("clouds", node.provider)
    row = _own_row(cloud, node, _SAME_AS.get(term, (term,)))
    if row is not None:
        return _row_price(catalogue, cloud, row, node)
    listed = _own_row(cloud, node, ("on-demand",))
    if listed is not None:
        return _discounted(catalogue, _row_price(catalogue, cloud, listed, node), term)
    row = _own_row(cloud, node, ("capacity-block", "cluster")) if term == "on-demand" else None
    if row is None:
        return None
    found = _row_price(catalogue, cloud, row, node)
    return found.times(1.0, joined(found.why, "no on-demand price"), "estimate")


def _own_row(cloud: Entry, node: NodeSpec, terms: tuple[str, ...]) -> Row | None:
    """Newest row of a node: named for it, else of its instance, else of its accelerator in the same cloud."""
    tests = (("node", node.id), ("instance", node.instance), ("gpu", node.gpu.id))
    for label, wanted in tests:
        for term in terms:
            rows = [row for row in cloud.table if wanted and row.text(label) == wanted and row.text("term") == term]
            if rows:
                return max(rows, key=lambda row: date_key(row.quantity.provenance.date))
    return None


def _row_price(catalogue: Catalogue, cloud: Entry, row: Row, node: NodeSpec) -> Found:
    told = row.quantity.provenance
    where = f" in {row.text('region')}" if row.text("region") else ""
    why = f"{cloud.name} {row.text('instance')}, {row.text('term')}{where}, {told.date}"
    other = row.text("node", node.id) != node.id
    offer = f"{cloud.name} {row.text('instance')}, {row.text('term')}"
    found = Found.of(row.quantity, joined(why, told.note, age_note(catalogue, told.date)), offer)
    return found.times(1.0, f"no price of {node.id}; {found.why}", "estimate") if other else found


def _discounted(catalogue: Catalogue, listed: Found, term: str) -> Found:
    discount = fact(catalogue, "prices", "discounts", _DISCOUNTS[term]).quantity
    why = f"no {term} price; {discount.written:g} % ({_DISCOUNTS[term]}) off {listed.value * HOUR_S:.2f} USD/GPU-h"
    found = listed.times(1.0 - discount.number, joined(why, listed.why), "estimate")
    return replace(found, row=f"{listed.row.rpartition(', ')[0]}, {term}")


def _market(catalogue: Catalogue, gpu: str, term: str) -> Found | None:
    """Price over all clouds, capped by what shorter terms cost; else a discount off on-demand."""
    found = _over_clouds(catalogue, gpu, term)
    shorter = [(name, _over_clouds(catalogue, gpu, name)) for name in _BOUND_SHORTER.get(term, ())]
    known = [(name, price) for name, price in shorter if price is not None]
    if found is None:
        listed = dict(known).get("on-demand")
        return None if listed is None else _discounted(catalogue, listed, term)
    name, least = min(known, key=lambda one: one[1].value, default=(term, found))
    if least.value < found.value:
        same = least.times(1.0, f"{term} taken as no dearer than {name}: {least.why}")
        return replace(same, row=f"market of {gpu}, {term}")
    return found


def _over_clouds(catalogue: Catalogue, gpu: str, term: str) -> Found | None:
    """Newest index of the market; else the median over providers, with which an index of low confidence counts."""
    index = _newest(catalogue.entry("clouds", _MARKET), gpu, term) if _MARKET in catalogue.files("clouds") else []
    if index and all(row.quantity.confidence != "low" for row in index):
        return _median(catalogue, gpu, term, {"market": index})
    voices = {cloud.id: _newest(cloud, gpu, term) for cloud in catalogue.entries("clouds")}
    voices = {id_: rows for id_, rows in voices.items() if rows}
    return _median(catalogue, gpu, term, voices) if voices else None


def _newest(cloud: Entry, gpu: str, term: str) -> list[Row]:
    """Rows of the newest date that a cloud has for an accelerator and a term."""
    for name in _SAME_AS.get(term, (term,)):
        rows = [row for row in cloud.table if row.text("gpu") == gpu and row.text("term") == name]
        if rows:
            last = max(date_key(row.quantity.provenance.date) for row in rows)
            return [row for row in rows if date_key(row.quantity.provenance.date) == last]
    return []


def _median(catalogue: Catalogue, gpu: str, term: str, voices: dict[str, list[Row]]) -> Found:
    rows = [row for chosen in voices.values() for row in chosen]
    prices = [row.quantity.number * HOUR_S for row in rows]
    value = median(median(_hourly(chosen)) for chosen in voices.values())
    date = max((row.quantity.provenance.date for row in rows), key=date_key)
    sources = list(dict.fromkeys(row.quantity.provenance.source for row in rows))
    many = len(rows) > 1
    span = f", {min(prices):.2f} to {max(prices):.2f} USD/GPU-h" if many else ""
    names = ", ".join(voices) if len(voices) > 1 else f"{len(rows)} prices of {next(iter(voices))}"
    who = f"median of {names}" if many else f"{next(iter(voices))}: {rows[0].text('instance')}"
    why = joined(f"market of {gpu}, {term}: {who}{span}, {date}", age_note(catalogue, date))
    spread = stdev(map(log, prices)) if many else 0.0
    return Found(value / HOUR_S, why, " and ".join(sources), date, "estimate", spread, f"market of {gpu}, {term}")


def _hourly(rows: Iterable[Row]) -> list[float]:
    return [row.quantity.number * HOUR_S for row in rows]


def _no_rent(catalogue: Catalogue, node: NodeSpec, term: str) -> Problem:
    file = f"clouds/{node.provider or _MARKET}.yaml"
    where = str(catalogue.roots[-1] / file) if len(catalogue.roots) > 1 else f"hardware_db/{file}"
    advice = f"add a row to {where} (or to that file in a folder of --hardware-db), or state acquire.rent.price"
    what = node.id if node.provider else node.gpu.id
    return Problem(f"the catalogue has no {term} rent of {what}, and no on-demand one to work it out from", advice)
