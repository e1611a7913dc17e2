"""What a catalogue entry may hold: one row for each value, with its dimension, limits and meaning.

The reader, `hardware check`, `hardware show` and the reference page all work from these rows. A kind is a folder of
the catalogue; the entries in it are of one or more types. Kinds without a row here (`models`) belong to other rooms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from simcluster import units

Dimension: TypeAlias = "units.Dimension | Literal['text', 'degrees', 'op_per_s', 'rack_units']"

OWN_UNITS: Mapping[str, Mapping[str, float]] = {
    "count": {"count": 1.0},
    "degrees": {"degC": 1.0},
    "op_per_s": {"TOP/s": 1e12},
    "rack_units": {"rack-unit": 1.0},
    "fraction": {"ratio": 1.0, "%": 0.01},
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an entry.

    dimension  fixes the SI unit of the value; "text" for words
    low, high  what is physically plausible, in SI units
    refers     kind whose id the text must be
    """

    dimension: Dimension
    doc: str
    required: bool = False
    low: float = 0.0
    high: float = float("inf")
    refers: str = ""


def si_factor(unit: str, dimension: Dimension) -> float:
    """SI size of one `unit`; ValueError if it is unknown or of another dimension.

    >>> si_factor("TFLOP/s", "flop_per_s"), si_factor("GiB", "bytes"), si_factor("degC", "degrees")
    (1000000000000.0, 1073741824.0, 1.0)
    """
    own = OWN_UNITS.get(dimension)
    if own is not None:
        if unit not in own:
            raise ValueError(f"{unit!r} is not a unit of {dimension}; write {' or '.join(own)}")
        return own[unit]
    return units.factor(unit, dimension)  # type: ignore[arg-type]


def _peak(what: str, low: float = 1e12, high: float = 1e17, *, required: bool = False) -> Field:
    return Field("flop_per_s", f"dense {what} peak without sparsity", required, low, high)


GPU: Mapping[str, Field] = {
    "vendor": Field("text", "maker"),
    "generation": Field("text", "architecture family: ampere, hopper, blackwell", True),
    "form": Field("text", "form factor"),
    "released": Field("text", "first shipments, year-month"),
    "peak_fp64": _peak("FP64", 1e11),
    "peak_fp32": _peak("FP32"),
    "peak_tf32": _peak("TF32 tensor"),
    "peak_bf16": _peak("BF16 tensor", required=True),
    "peak_fp16": _peak("FP16 tensor"),
    "peak_fp8": _peak("FP8 tensor"),
    "peak_fp4": _peak("FP4 tensor"),
    "peak_int8": Field("op_per_s", "dense INT8 peak", low=1e12, high=1e17),
    "memory_label": Field("bytes", "memory size in the product's name", low=1e9, high=4e12),
    "memory_visible": Field("bytes", "memory that a framework can see", True, 1e9, 4e12),
    "memory_type": Field("text", "HBM2, HBM2e, HBM3, HBM3e"),
    "memory_bandwidth": Field("bytes_per_s", "memory bandwidth", True, 1e11, 1e14),
    "l2_cache": Field("bytes", "L2 cache", low=1e5, high=1e10),
    "sms": Field("count", "streaming multiprocessors (compute units)", True, 1, 2000),
    "clock_boost": Field("hertz", "highest core clock", low=1e8, high=1e10),
    "power_limit": Field("watts", "board power limit (TDP, TGP)", True, 10, 5000),
    "power_idle": Field("watts", "board power without work", low=1, high=1000),
    "temperature_max": Field("degrees", "highest operating temperature", low=40, high=130),
    "temperature_slowdown": Field("degrees", "clocks fall from here on", low=40, high=130),
    "scale_up": Field("text", "link between GPUs of a node: nvlink3, nvlink4, pcie4", True),
    "scale_up_rate": Field("bytes_per_s", "scale-up link of one GPU, one direction", True, 1e9, 1e13),
    "scale_up_domain": Field("count", "GPUs that usually share a scale-up domain", low=1, high=1e4),
    "pcie_generation": Field("count", "PCI Express generation", True, 1, 8),
    "pcie_lanes": Field("count", "PCI Express lanes", low=1, high=32),
    "matmul_measured_bf16": Field("flop_per_s", "best BF16 matmul that was measured", low=1e11, high=1e17),
    "matmul_measured_fp8": Field("flop_per_s", "best FP8 matmul that was measured", low=1e11, high=1e17),
}

NODE: Mapping[str, Field] = {
    "gpu": Field("text", "accelerator", True, refers="gpus"),
    "gpus": Field("count", "accelerators in a node", True, 1, 128),
    "scale_up_domain": Field("count", "accelerators that reach each other over the scale-up link", True, 1, 1e4),
    "provider": Field("text", "cloud that rents the node; absent if it is bought"),
    "instance": Field("text", "the provider's name of the instance"),
    "nics": Field("count", "network cards for training traffic", True, 0, 128),
    "nic_rate": Field("bytes_per_s", "line rate of one card, one direction", low=1e8, high=1e12),
    "nic": Field("text", "model of the card"),
    "fabric": Field("text", "fabric that the cards usually belong to", True, refers="networks"),
    "storage_nics": Field("count", "further cards for storage and management", low=0, high=64),
    "storage_nic_rate": Field("bytes_per_s", "line rate of one storage card", low=1e8, high=1e12),
    "pcie_generation": Field("count", "PCI Express generation of the cards' slots", True, 1, 8),
    "gpus_per_pcie_switch": Field("count", "accelerators below one PCI Express switch", low=1, high=16),
    "host_cpu": Field("text", "processor"),
    "host_sockets": Field("count", "processors", low=1, high=64),
    "host_cores": Field("count", "cores of all processors", low=1, high=4096),
    "vcpus": Field("count", "virtual processors of a rented node", low=1, high=4096),
    "ram": Field("bytes", "host memory", low=1e9, high=1e14),
    "ram_max": Field("bytes", "host memory when fully fitted", low=1e9, high=1e14),
    "nvme": Field("bytes", "local drives for data, all together", low=1e10, high=1e16),
    "power_max": Field("watts", "rated power of the node", low=100, high=2e6),
    "power_training": Field("watts", "power in steady training", low=100, high=2e6),
    "height": Field("rack_units", "height in a rack", low=0.1, high=100),
    "price": Field("usd", "purchase price of the node", low=100, high=1e8),
}

FABRIC: Mapping[str, Field] = {
    "protocol": Field("text", "ib, roce, efa, tcp, slingshot, opa or none", True),
    "link_rate": Field("bytes_per_s", "line rate of one card, one direction", low=1e8, high=1e12),
    "nics_per_node": Field("count", "cards in a node that usually has this fabric", low=1, high=128),
    "switch": Field("text", "usual switch", refers="networks"),
    "switch_radix": Field("count", "ports of that switch at the link rate", low=2, high=4096),
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
    "port_rate": Field("bytes_per_s", "line rate of a port, one direction", True, 1e8, 1e12),
    "latency": Field("seconds", "port to port", low=1e-9, high=1e-4),
    "power_typical": Field("watts", "power with passive cables", low=1, high=2e4),
    "power_max": Field("watts", "highest power with optics", low=1, high=2e4),
    "price": Field("usd", "purchase price", low=100, high=1e7),
}

KINDS: Mapping[str, Mapping[str, Mapping[str, Field]]] = {
    "gpus": {"gpu": GPU},
    "nodes": {"node": NODE},
    "networks": {"fabric": FABRIC, "scale-up": SCALE_UP, "switch": SWITCH},
}

PROTOCOLS = ("ib", "roce", "efa", "tcp", "slingshot", "opa", "none")
