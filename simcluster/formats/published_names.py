"""Names of fabrics and frameworks as published tables write them."""

from __future__ import annotations

import csv
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from simcluster.data import data_root


@dataclass(frozen=True, slots=True)
class Fabric:
    """A network between nodes as a cell names it.

    id       fabric id ("ib-hdr-200", "roce-100", …); "none" on a single node
    nics     network cards per node, None when the text does not say
    assumed  the usual reading of a text that does not settle the id
    """

    id: str
    nics: int | None = None
    assumed: bool = False


@cache
def _table() -> Mapping[tuple[str, str], tuple[dict[str, str], ...]]:
    path = data_root("calibration") / "published" / "names.csv"
    found: dict[tuple[str, str], tuple[dict[str, str], ...]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            key = (row["kind"], _plain(row["alias"]))
            found[key] = (*found.get(key, ()), row)
    return types.MappingProxyType(found)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


_PROTOCOLS = (
    ("none", r"single node|^none\b|^n/?a\b|one node"),
    ("opa", r"omni-?path|\bopa\b"),
    ("slingshot", r"slingshot"),
    ("efa", r"\befa"),
    ("roce", r"roce|spectrum"),
    ("tcp", r"\btcp\b|ethernet|gbe\b"),
    ("ib", r"infiniband|\bib\b|\b[exhn]dr|connectx|quantum|rdma"),
)
_ONE_RATE = {"opa": "opa-100", "slingshot": "slingshot-11", "efa": "efa"}
_LINK_RATES = frozenset({10, 25, 40, 100, 200, 400, 800, 1600})
_GENERATIONS = {100: "edr", 200: "hdr", 400: "ndr", 800: "xdr"}


def fabric(text: str, gpus_per_node: int | None = None) -> Fabric | None:
    """The fabric that a cell names: by the table of names, else by pattern; None when it names none.

    >>> fabric("4 x 100 Gb RoCE per node")
    Fabric(id='roce-100', nics=4, assumed=False)
    >>> fabric("8x 200 Gb/s InfiniBand (my cluster)")
    Fabric(id='ib-hdr-200', nics=8, assumed=True)
    """
    word = _plain(text)
    rows = _table().get(("fabric", word))
    if rows:
        row = rows[0]
        nics = int(row["nics"]) if row["nics"] else gpus_per_node if "per gpu" in word else None
        return None if row["id"] == "unknown" else Fabric(row["id"], nics, row["assumed"] == "yes")
    return _by_pattern(word, gpus_per_node)


def _by_pattern(word: str, gpus_per_node: int | None) -> Fabric | None:
    protocol = next((name for name, pattern in _PROTOCOLS if re.search(pattern, word)), "")
    if protocol == "none":
        return Fabric("none", None, True)
    gbits, nics = _links(word, gpus_per_node)
    if protocol in _ONE_RATE:
        return Fabric(_ONE_RATE[protocol], nics, True)
    if protocol in {"roce", "tcp"} and gbits:
        return Fabric(f"{protocol}-{gbits}", nics, True)
    if gbits in _GENERATIONS:
        return Fabric(f"ib-{_GENERATIONS[gbits]}-{gbits}", nics, True)
    return Fabric(protocol, nics, True) if protocol else None


def _links(word: str, gpus_per_node: int | None) -> tuple[int, int | None]:
    """Rate of one link in Gbit/s (0: not printed) and links per node; a node's total is shared out over its GPUs."""
    many = re.search(r"\b(\d{1,2})\s*[x×*]|[x×*]\s*(\d{1,2})\b|\b(\d{1,2}) (?:nics|hcas|cards|links|rails|ports)", word)
    nics = int(next(part for part in many.groups() if part)) if many else gpus_per_node if "per gpu" in word else None
    gbits = _gbits(word)
    if gbits not in _LINK_RATES and nics is None and gpus_per_node and gbits // gpus_per_node in _LINK_RATES:
        return gbits // gpus_per_node, gpus_per_node
    return (gbits if gbits in _LINK_RATES else 0), nics


def _gbits(word: str) -> int:
    found = re.search(r"(\d{1,4}(?:\.\d)?)\s*(tb|gb)|(\d{2,3})g\b|[ehnx]dr[- ]?(\d{3})", word)
    if not found:
        return next((rate for rate, name in _GENERATIONS.items() if re.search(rf"\b{name}\b", word)), 0)
    if found[2] == "tb":
        return round(1000 * float(found[1]))
    rate = round(float(found[1] or found[3] or found[4]))
    return rate * 8 if re.search(r"\d\s*gb/s", word) and rate * 8 in _LINK_RATES and rate not in _LINK_RATES else rate


def framework_id(text: str, date: str = "") -> str:
    """Id of a framework by the table of names, empty when the text is not listed (it is then read by pattern).

    >>> framework_id("Megatron-LM", "2021-04"), framework_id("InternEvo"), framework_id("MyTrainer")
    ('megatron-lm-2021', 'internevo', '')
    """
    month = date if len(date) != 4 else f"{date}-07"
    rows = _table().get(("framework", _plain(text)), ())
    dated = [row["id"] for row in rows if row["when"] and month and _holds(row["when"], month)]
    undated = [row["id"] for row in rows if not row["when"]]
    return (dated or undated or [""])[0]


def _holds(when: str, month: str) -> bool:
    """A span as names.csv writes it: "<2022-05", "2022-05..2022-12", ">=2023"."""
    if when.startswith("<"):
        return month < when[1:]
    if when.startswith(">="):
        return month >= when[2:]
    first, _, last = when.partition("..")
    return first <= month <= f"{last}~"
