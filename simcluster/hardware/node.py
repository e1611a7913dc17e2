"""A node: accelerators, network cards and host, from the catalogue or from the user's own mapping."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.hardware.entry import Entry
from simcluster.hardware.gpu import GpuSpec

# One direction of an x16 slot after line coding (PCI-SIG base specifications 3.0 to 6.0): 8, 16, 32 GT/s with
# 128b/130b, 64 GT/s with 242B/256B flits.
PCIE_X16_BYTES_PER_S = {3: 15.75e9, 4: 31.5e9, 5: 63.0e9, 6: 121.0e9}


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """One node in SI units; 0 and "" stand for what is not known.

    scale_up         link between the GPUs: nvlink4, pcie4; its rate is that of one GPU, one direction
    scale_up_domain  GPUs that reach each other over the scale-up link (8 in a DGX, 72 in an NVL72)
    nic_bytes_per_s  line rate of one card, one direction; 0 if the fabric sets it
    cards_stated     the user wrote the cards out: a fabric does not replace them
    fabric           catalogue id of the fabric that the node usually has, "" if none is known
    provider         cloud that rents it, "" for a node that is bought
    entry            provenance of every value; None for a node that the user describes
    """

    id: str
    name: str
    gpu: GpuSpec
    gpus: int
    scale_up_domain: int
    nics: int
    nic_bytes_per_s: float
    fabric: str
    pcie_generation: int
    scale_up: str
    scale_up_bytes_per_s: float
    provider: str = ""
    instance: str = ""
    host_cpu: str = ""
    host_cores: int = 0
    ram_bytes: float = 0.0
    nvme_bytes: float = 0.0
    power_max_w: float = 0.0
    power_training_w: float = 0.0
    price_usd: float = 0.0
    cards_stated: bool = False
    entry: Entry | None = None

    @classmethod
    def of(cls, entry: Entry, gpu: GpuSpec) -> NodeSpec:
        """Node of a complete catalogue entry, with the accelerator that it names."""
        return cls(
            id=entry.id,
            name=entry.name or entry.id,
            gpu=gpu,
            gpus=int(entry.number("gpus")),
            scale_up_domain=int(entry.number("scale_up_domain")),
            nics=int(entry.number("nics")),
            nic_bytes_per_s=entry.number("nic_rate"),
            fabric=entry.text("fabric"),
            pcie_generation=int(entry.number("pcie_generation")),
            scale_up=gpu.scale_up,
            scale_up_bytes_per_s=gpu.scale_up_bytes_per_s,
            provider=entry.text("provider"),
            instance=entry.text("instance"),
            host_cpu=entry.text("host_cpu"),
            host_cores=int(entry.number("host_cores")) or int(entry.number("vcpus")) // 2,
            ram_bytes=entry.number("ram"),
            nvme_bytes=entry.number("nvme"),
            power_max_w=entry.number("power_max"),
            power_training_w=entry.number("power_training"),
            price_usd=entry.number("price"),
            entry=entry,
        )

    @property
    def pcie_bytes_per_s(self) -> float:
        """One direction of the slot that a network card sits in; infinite for an unknown generation."""
        return PCIE_X16_BYTES_PER_S.get(self.pcie_generation, float("inf"))
