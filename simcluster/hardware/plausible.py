"""Rules on the values of one entry together: peaks, memory, links, power and prices that cannot be right.

Each `check_…` yields (key of the value, what is wrong, advice).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from simcluster.hardware.entry import Entry

if TYPE_CHECKING:
    from simcluster.hardware.catalogue import Catalogue

Finding: TypeAlias = "tuple[str, str, str]"

_PRECISIONS = ("tf32", "bf16", "fp8", "fp4")  # narrower ones are never slower
_VISIBLE_OVER_LABEL = 1.08  # GiB printed as GB make 1.0737
_SAME = 0.01
_MONTH = re.compile(r"\d{4}-(?:\d{2}|H[12])")
# Pairs of which the second is never smaller.
_ORDERED = (
    ("power_idle", "power_limit"),
    ("power_typical", "power_max"),
    ("power_training", "power_max"),
    ("temperature_max", "temperature_slowdown"),
    ("ram", "ram_max"),
    ("write_rate", "read_rate"),
    ("clock_base", "clock_boost"),
    ("matmul_measured_bf16", "peak_bf16"),
    ("matmul_measured_fp8", "peak_fp8"),
    ("gpu_memory_failures", "gpu_failures"),
)


def implausible(entry: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """Everything about an entry's values that contradicts itself or the entries that it names."""
    yield from check_peaks(entry)
    yield from check_order(entry)
    yield from check_memory(entry)
    yield from check_scale_up(entry, catalogue)
    yield from check_cards(entry)
    yield from check_rents(entry)


def check_peaks(entry: Entry) -> Iterator[Finding]:
    """Narrower numbers are never slower: FP4 >= FP8 >= BF16 >= TF32."""
    known = [f"peak_{name}" for name in _PRECISIONS if f"peak_{name}" in entry.values]
    for wide, narrow in pairwise(known):
        if entry.number(narrow) < entry.number(wide) * (1 - _SAME):
            yield narrow, f"{narrow} is below {wide}", "give dense peaks, all without or all with fp32 accumulation"


def check_order(entry: Entry) -> Iterator[Finding]:
    """Typical is not above maximal, a measured matmul not above the peak."""
    for small, large in _ORDERED:
        if small in entry.values and large in entry.values and entry.number(small) > entry.number(large) * (1 + _SAME):
            yield small, f"{small} is above {large}", "mend one of the two"


def check_memory(entry: Entry) -> Iterator[Finding]:
    """A framework sees at most what the label says, even where the label means GiB."""
    label, visible = entry.number("memory_label"), entry.number("memory_visible")
    if label and visible > label * _VISIBLE_OVER_LABEL:
        yield "memory_visible", "memory_visible is larger than memory_label", "labels are GB, or GiB printed as GB"


def check_scale_up(entry: Entry, catalogue: Catalogue) -> Iterator[Finding]:
    """The rate is that of one direction: half of both, and not above what the link's generation carries."""
    one, both = entry.number("scale_up_rate"), entry.number("scale_up_rate_both")
    if one and both and abs(both / (2 * one) - 1) > _SAME:
        yield "scale_up_rate", "scale_up_rate is not half of scale_up_rate_both", "give the rate of one direction"
    link = entry.text("scale_up")
    if entry.kind != "gpus" or link not in catalogue.files("networks"):
        return
    most = catalogue.entry("networks", link).number("scale_up_rate")
    if most and one > most * (1 + _SAME):
        yield "scale_up_rate", f"scale_up_rate is above that of {link}", "give the rate of one direction"


def check_cards(entry: Entry) -> Iterator[Finding]:
    """Cards have a rate; a switch carries at least what its ports carry (it may have uplinks besides)."""
    if entry.number("nics") and not entry.number("nic_rate"):
        yield "nics", "nics without nic_rate", "add nic_rate"
    capacity, ports = entry.number("capacity"), entry.number("ports") * entry.number("port_rate")
    if entry.type == "switch" and capacity and capacity < ports * (1 - _SAME):
        yield "capacity", "capacity is below ports times port_rate", "give all ports together, one direction"


def check_rents(entry: Entry) -> Iterator[Finding]:
    """A rent carries the month it was asked for, and the price of the whole instance fits that of its parts."""
    if entry.type != "cloud":
        return
    for row in entry.table:
        what = " ".join(row.text(label) for label in ("instance", "gpu", "term"))
        if not _MONTH.match(row.quantity.provenance.date):
            yield "table", f"price of {what} has no month", 'date it, like "2026-09"'
        whole = row.labels.get("node_usd_per_h")
        if isinstance(whole, str) or whole is None:
            continue
        together = row.quantity.number * 3600 * float(row.labels["gpus"])
        if abs(whole / together - 1) > _SAME:
            yield "table", f"price of {what}: the instance is not its GPUs' prices together", "mend one of the two"
