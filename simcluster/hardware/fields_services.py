"""What an entry of storage, of a cloud, of prices, of a facility or of failures may hold, and the tables in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.hardware.field import Dimension, Field

DRIVE: Mapping[str, Field] = {
    "interface": Field("text", "PCI Express generation and form factor"),
    "capacity": Field("bytes", "usable size of one drive", low=1e10, high=1e15),
    "read_rate": Field("bytes_per_s", "sequential read of one drive", True, 1e8, 1e12),
    "write_rate": Field("bytes_per_s", "sequential write of one drive", True, 1e7, 1e12),
    "price_per_capacity": Field("usd_per_byte", "purchase price of flash"),
}

STORAGE_SYSTEM: Mapping[str, Field] = {
    "per": Field("text", "what the rates are for: node, appliance, TiB, cluster", True),
    "read_rate": Field("bytes_per_s", "sustained read", True, 1e6, 1e14),
    "write_rate": Field("bytes_per_s", "sustained write; absent if nobody says", low=1e6, high=1e14),
    "height": Field("rack_units", "height in a rack", low=0.1, high=100),
    "power_max": Field("watts", "rated power", low=10, high=1e6),
    "price_per_capacity": Field("usd_per_byte", "purchase price of usable capacity"),
    "price_rent": Field("usd_per_byte_s", "rent of usable capacity"),
}

CLOUD: Mapping[str, Field] = {
    "notice": Field("seconds", "warning before a spot instance is taken back", high=3600),
}

FAILURE_RATES: Mapping[str, Field] = {
    "gpu": Field("text", "accelerator of the fleet", refers="gpus"),
    "gpus": Field("count", "accelerators that were watched", low=1, high=1e7),
    "gpus_per_node": Field("count", "accelerators in a node", low=1, high=128),
    "nics_per_node": Field("count", "network cards, each with one port, in a node", low=1, high=128),
    "watched": Field("seconds", "time that the fleet was watched", low=3600, high=1e9),
    "node_failures": Field("per_s", "failures of one node that stop a job", high=1e-3),
    "gpu_failures": Field("per_s", "failures of one accelerator, memory and its link included", high=1e-4),
    "gpu_memory_failures": Field("per_s", "of these, those of its memory", high=1e-4),
    "host_failures": Field("per_s", "failures of one host: power, drives, board, processor, maintenance", high=1e-4),
    "nic_failures": Field("per_s", "failures of one network card", high=1e-4),
    "link_failures": Field("per_s", "failures of one network port: cable, optic or switch", high=1e-4),
    "software_failures": Field("per_s", "failures of software, for each accelerator", high=1e-4),
    "silent_corruptions": Field("per_s", "silent data corruptions that were found, for each accelerator", high=1e-4),
}

NOTHING: Mapping[str, Field] = {}

TERMS = ("on-demand", "1y", "3y", "5y", "spot", "preemptible", "capacity-block", "cluster")


@dataclass(frozen=True, slots=True)
class Table:
    """The rows that an entry of a type may carry besides its values.

    columns    words and numbers that tell a row from the others
    dimension  of the value of every row; None: the unit of the row tells
    named      every row has a name, and no two have the same
    by_date    rows of other dates are other rows, not newer versions of one
    """

    columns: Mapping[str, Field]
    dimension: Dimension | None = None
    named: bool = True
    by_date: bool = False


_FACTS = Table(
    {
        "of": Field("text", "product, system or place that it is about"),
        "gpus": Field("count", "accelerators of the job or system", low=1, high=1e7),
        "period": Field("text", "time over which it was seen"),
        "per": Field("text", "what the value is for"),
    }
)
SCALES = ("gpu", "node", "nic", "port")
_CAUSES = Table(
    {
        **_FACTS.columns,
        "scales_with": Field("text", "of a row that counts a cause: what it grows with", choices=SCALES),
        "keeps_node": Field("text", "of a row that counts a cause: the node works on after it", choices=("yes",)),
    }
)
_RENTALS = Table(
    {
        "instance": Field("text", "the provider's name of what is rented", True),
        "node": Field("text", "node of the catalogue that it is", refers="nodes"),
        "gpu": Field("text", "accelerator", True, refers="gpus"),
        "gpus": Field("count", "accelerators of one instance", True, 1, 1e4),
        "term": Field("text", "how long one is bound", True, choices=TERMS),
        "region": Field("text", "where it holds"),
        "node_usd_per_h": Field("count", "list price of the whole instance in USD per hour", low=0.01, high=1e5),
    },
    "usd_per_gpu_s",
    named=False,
)
_HISTORY = Table(
    {"tier": Field("text", "who rents it out", True, choices=("hyperscaler", "neocloud", "contract-1y"))},
    "usd_per_gpu_s",
    named=False,
    by_date=True,
)
_TOPOLOGIES = Table(
    {
        "system": Field("text", "node of the design", True),
        "fabric": Field("text", "fabric", True, refers="networks"),
        "switch": Field("text", "switch", True, refers="networks"),
        "scalable_units": Field("count", "scalable units", True, 1, 1e4),
        "nodes": Field("count", "nodes", True, 1, 1e6),
        "leaf": Field("count", "leaf switches", low=0, high=1e5),
        "spine": Field("count", "spine switches", low=0, high=1e5),
        "core": Field("count", "core switches", low=0, high=1e5),
        "cables_node_leaf": Field("count", "cables from nodes to leaf switches", low=0, high=1e7),
        "cables_leaf_spine": Field("count", "cables from leaf to spine switches", low=0, high=1e7),
        "cables_spine_core": Field("count", "cables from spine to core switches", low=0, high=1e7),
    },
    "count",
    named=False,
)

TABLES: Mapping[str, Table] = {
    "facts": _FACTS,
    "cloud": _RENTALS,
    "rental-history": _HISTORY,
    "topologies": _TOPOLOGIES,
    "failure-rates": _CAUSES,
    "drive": _FACTS,
    "storage-system": _FACTS,
}
