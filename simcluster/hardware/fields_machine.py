"""What an entry of an accelerator, a processor or a node may hold."""

from __future__ import annotations

from collections.abc import Mapping

from simcluster.hardware.field import Field


def _peak(what: str, low: float = 1e12, high: float = 1e17) -> Field:
    return Field("flop_per_s", f"dense {what} peak without sparsity", False, low, high)


GPU: Mapping[str, Field] = {
    "vendor": Field("text", "maker"),
    "generation": Field("text", "architecture family: ampere, hopper, blackwell", True),
    "form": Field("text", "form factor"),
    "released": Field("text", "first shipments, year-month"),
    "peak_fp64": _peak("FP64", 1e11),
    "peak_fp32": _peak("FP32"),
    "peak_tf32": _peak("TF32 tensor"),
    "peak_bf16": _peak("BF16 tensor"),
    "peak_fp16": _peak("FP16 tensor"),
    "peak_fp8": _peak("FP8 tensor"),
    "peak_fp4": _peak("FP4 tensor"),
    "peak_int8": Field("op_per_s", "dense INT8 peak", low=1e12, high=1e17),
    "memory_label": Field("bytes", "memory size in the product's name", low=1e9, high=4e12),
    "memory_visible": Field("bytes", "memory that a framework can see", True, 1e9, 4e12),
    "memory_type": Field("text", "HBM2, HBM2e, HBM3, HBM3e"),
    "memory_bandwidth": Field("bytes_per_s", "memory bandwidth", True, 1e11, 1e14),
    "l2_cache": Field("bytes", "L2 cache", low=1e5, high=1e10),
    "sms": Field("count", "streaming multiprocessors (compute units, cores)", True, 1, 2000),
    "clock_boost": Field("hertz", "highest core clock", low=1e8, high=1e10),
    "power_limit": Field("watts", "board power limit (TDP, TGP); absent if it is not published", low=10, high=5000),
    "power_idle": Field("watts", "board power without work", low=1, high=1000),
    "temperature_max": Field("degrees", "highest operating temperature", low=40, high=130),
    "temperature_slowdown": Field("degrees", "clocks fall from here on", low=40, high=130),
    "scale_up": Field("text", "link between GPUs of a node: nvlink3, nvlink4, pcie4", True, refers="networks"),
    "scale_up_rate": Field("bytes_per_s", "scale-up link of one GPU, one direction", True, 1e9, 1e13),
    "scale_up_rate_both": Field("bytes_per_s", "the same, both directions together, as brochures print it", low=1e9),
    "scale_up_domain": Field("count", "GPUs that usually share a scale-up domain", low=1, high=1e4),
    "bridge": Field("text", "optional bridge between few cards", refers="networks"),
    "bridge_rate": Field("bytes_per_s", "bridge of one GPU, one direction", low=1e9, high=1e13),
    "bridge_gpus": Field("count", "GPUs that a bridge joins", low=2, high=8),
    "host_link_rate": Field("bytes_per_s", "coherent link to the host processor, one direction", low=1e9, high=1e13),
    "pcie_generation": Field("count", "PCI Express generation", low=1, high=8),
    "pcie_lanes": Field("count", "PCI Express lanes", low=1, high=32),
    "matmul_measured_bf16": Field("flop_per_s", "best BF16 matmul that was measured", low=1e11, high=1e17),
    "matmul_measured_fp8": Field("flop_per_s", "best FP8 matmul that was measured", low=1e11, high=1e17),
}

CPU: Mapping[str, Field] = {
    "vendor": Field("text", "maker"),
    "generation": Field("text", "architecture family: zen4, sapphire-rapids, neoverse-v2"),
    "released": Field("text", "first shipments, year-month"),
    "cores": Field("count", "cores of one processor", True, 1, 1024),
    "clock_base": Field("hertz", "base clock", low=1e8, high=1e10),
    "clock_boost": Field("hertz", "highest clock", low=1e8, high=1e10),
    "l3_cache": Field("bytes", "last-level cache", low=1e6, high=1e10),
    "memory_type": Field("text", "DDR4-3200, DDR5-4800, LPDDR5X"),
    "memory_channels": Field("count", "memory channels", low=1, high=64),
    "memory_bandwidth": Field("bytes_per_s", "memory bandwidth of one processor", True, 1e9, 1e13),
    "memory_max": Field("bytes", "largest memory of one processor", low=1e9, high=1e14),
    "pcie_generation": Field("count", "PCI Express generation", low=1, high=8),
    "pcie_lanes": Field("count", "PCI Express lanes", low=1, high=256),
    "power_limit": Field("watts", "power limit (TDP)", low=10, high=1500),
}

NODE: Mapping[str, Field] = {
    "gpu": Field("text", "accelerator", True, refers="gpus"),
    "gpus": Field("count", "accelerators in a node", True, 1, 128),
    "scale_up_domain": Field("count", "accelerators that reach each other over the scale-up link", True, 1, 1e4),
    "provider": Field("text", "cloud that rents the node; absent if it is bought", refers="clouds"),
    "instance": Field("text", "the provider's name of the instance"),
    "nics": Field("count", "network cards for training traffic", True, 0, 256),
    "nic_rate": Field("bytes_per_s", "line rate of one card, one direction", low=1e8, high=1e12),
    "nic": Field("text", "model of the card", refers="networks"),
    "fabric": Field("text", "fabric that the cards usually belong to", True, refers="networks"),
    "storage_nics": Field("count", "further cards for storage and management", low=0, high=256),
    "storage_nic_rate": Field("bytes_per_s", "line rate of one storage card", low=1e8, high=1e12),
    "pcie_generation": Field("count", "PCI Express generation of the cards' slots", True, 1, 8),
    "gpus_per_pcie_switch": Field("count", "accelerators below one PCI Express switch", low=1, high=16),
    "host_cpu": Field("text", "processor", refers="cpus"),
    "host_sockets": Field("count", "processors", low=1, high=64),
    "host_cores": Field("count", "cores of all processors", low=1, high=4096),
    "vcpus": Field("count", "virtual processors of a rented node", low=1, high=4096),
    "ram": Field("bytes", "host memory", low=1e9, high=1e14),
    "ram_max": Field("bytes", "host memory when fully fitted", low=1e9, high=1e14),
    "nvme": Field("bytes", "local drives for data, all together", low=1e10, high=1e16),
    "power_max": Field("watts", "rated power of the node", low=100, high=2e6),
    "power_training": Field("watts", "power in steady training", low=100, high=2e6),
    "host_power": Field("watts", "processors, memory, cards and drives, before supply losses", low=10, high=1e6),
    "fan_power": Field("watts", "fans at full load", high=1e5),
    "power_supplies": Field("text", "power supplies and their redundancy"),
    "airflow": Field("m3_per_s", "air that it needs at full load", low=1e-3, high=100),
    "liquid_share": Field("fraction", "share of the heat that leaves with the liquid", high=1.0),
    "height": Field("rack_units", "height in a rack", low=0.1, high=100),
    "nodes_per_rack": Field("count", "nodes in a usual rack", low=0.01, high=200),
    "rack_power": Field("watts", "power of such a rack", low=100, high=2e6),
    "price": Field("usd", "purchase price of the node", low=100, high=1e8),
}
