"""What a catalogue entry may hold: one row for each value, with its dimension, limits and meaning.

The reader, `hardware check`, `hardware show` and the reference page all work from these rows. A kind is a folder of
the catalogue; the entries in it are of one or more types. Kinds without a row here (`models`) belong to other rooms.
"""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.hardware.field import OWN_UNITS, Dimension, Field, dimension_of, si_factor
from simcluster.hardware.fields_machine import CPU, GPU, NODE
from simcluster.hardware.fields_network import FABRIC, LINK, NIC, PROTOCOLS, SCALE_UP, SWITCH
from simcluster.hardware.fields_services import (
    CLOUD,
    DRIVE,
    FAILURE_RATES,
    NOTHING,
    STORAGE_SYSTEM,
    TABLES,
    Table,
)

KINDS: Mapping[str, Mapping[str, Mapping[str, Field]]] = {
    "gpus": {"gpu": GPU},
    "cpus": {"cpu": CPU},
    "nodes": {"node": NODE},
    "networks": {
        "fabric": FABRIC,
        "scale-up": SCALE_UP,
        "switch": SWITCH,
        "nic": NIC,
        "optic": LINK,
        "cable": LINK,
        "topologies": NOTHING,
        "facts": NOTHING,
    },
    "storage": {"drive": DRIVE, "storage-system": STORAGE_SYSTEM, "facts": NOTHING},
    "clouds": {"cloud": CLOUD},
    "prices": {"rental-history": NOTHING, "facts": NOTHING},
    "facilities": {"facts": NOTHING},
    "reliability": {"failure-rates": FAILURE_RATES, "facts": NOTHING},
}

# Of each group an entry of the type needs at least one value.
ONE_OF: Mapping[str, tuple[tuple[str, ...], ...]] = {"gpu": (("peak_bf16", "peak_fp16"),)}

SINGULAR: Mapping[str, str] = {
    "gpu": "gpus",
    "cpu": "cpus",
    "node": "nodes",
    "network": "networks",
    "cloud": "clouds",
    "price": "prices",
    "facility": "facilities",
}

__all__ = [
    "KINDS",
    "ONE_OF",
    "OWN_UNITS",
    "PROTOCOLS",
    "SINGULAR",
    "TABLES",
    "Dimension",
    "Field",
    "Table",
    "dimension_of",
    "si_factor",
]
