"""An accelerator: the catalogue entry as numbers, and the rates that timing and memory work with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simcluster.hardware.entry import Entry
from simcluster.shapes import GpuRates

_PEAK = "peak_"


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One accelerator of the catalogue, in SI units.

    peak_flops            dense peaks by precision: bf16, fp16, fp8, fp4, tf32, fp32, fp64, int8 (those that exist)
    memory_label_bytes    the size in the product's name; `memory_bytes` is what a framework can see
    scale_up_bytes_per_s  one GPU, one direction
    entry                 unit, source, date, kind and conflicts of every value
    """

    id: str
    name: str
    generation: str
    peak_flops: Mapping[str, float]
    memory_bytes: float
    memory_label_bytes: float
    memory_bytes_per_s: float
    sms: int
    power_limit_w: float
    power_idle_w: float
    scale_up: str
    scale_up_bytes_per_s: float
    scale_up_domain: int
    pcie_generation: int
    entry: Entry

    @classmethod
    def of(cls, entry: Entry) -> GpuSpec:
        """Accelerator of a complete catalogue entry."""
        return cls(
            id=entry.id,
            name=entry.name or entry.id,
            generation=entry.text("generation"),
            peak_flops={key[len(_PEAK) :]: entry.number(key) for key in entry.values if key.startswith(_PEAK)},
            memory_bytes=entry.number("memory_visible"),
            memory_label_bytes=entry.number("memory_label"),
            memory_bytes_per_s=entry.number("memory_bandwidth"),
            sms=int(entry.number("sms")),
            power_limit_w=entry.number("power_limit"),
            power_idle_w=entry.number("power_idle"),
            scale_up=entry.text("scale_up"),
            scale_up_bytes_per_s=entry.number("scale_up_rate"),
            scale_up_domain=int(entry.number("scale_up_domain", 1.0)),
            pcie_generation=int(entry.number("pcie_generation")),
            entry=entry,
        )

    def rates(self) -> GpuRates:
        """What the timing functions need."""
        return GpuRates(
            id=self.id,
            generation=self.generation,
            peak_flops=self.peak_flops,
            hbm_bytes_per_s=self.memory_bytes_per_s,
            hbm_bytes=self.memory_bytes,
            sms=self.sms,
            power_limit_w=self.power_limit_w,
            power_idle_w=self.power_idle_w,
        )
