"""All stages of a layout against the memory of a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from simcluster.memory.allocator import PRIORS, MemoryPriors
from simcluster.memory.setup import MemorySetup
from simcluster.memory.stage import StageMemory, stage_memory
from simcluster.parallel.stages import ChunkContents
from simcluster.shapes import Architecture, Num
from simcluster.timing.software import SoftwareFamily


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """Peaks of all stages and the verdict.

    fits             the largest device figure, with the margin, is within the capacity (an array for array inputs)
    peak_bytes       that figure, without the margin
    capacity_bytes   what a framework can see of one GPU
    kinds            allocated, reserved and device, each of the stage where it is largest
    """

    fits: Any
    peak_bytes: Num
    capacity_bytes: Num
    kinds: dict[str, Num]
    stages: tuple[StageMemory, ...]


def fits(device_bytes: Num, capacity_bytes: Num, margin: float = PRIORS.margin) -> Any:
    """Whether a device figure leaves `margin` (a fraction) of the visible memory free.

    >>> fits(78e9, 80e9), fits(79e9, 80e9)
    (True, False)
    """
    verdict = np.less_equal(device_bytes, np.multiply(capacity_bytes, 1.0 - margin))
    return bool(verdict) if np.ndim(verdict) == 0 else verdict


def summarize(stages: Sequence[StageMemory], capacity_bytes: Num, priors: MemoryPriors = PRIORS) -> MemoryReport:
    """The verdict over stages that are computed already."""
    kinds = {
        "allocated": _largest([stage.allocated_bytes for stage in stages]),
        "reserved": _largest([stage.reserved_bytes for stage in stages]),
        "device": _largest([stage.device_bytes for stage in stages]),
    }
    verdict = fits(kinds["device"], capacity_bytes, priors.margin)
    return MemoryReport(verdict, kinds["device"], capacity_bytes, kinds, tuple(stages))


def memory_report(
    arch: Architecture,
    contents: Sequence[Sequence[ChunkContents]],
    setup: MemorySetup,
    software: SoftwareFamily,
    capacity_bytes: Num,
    priors: MemoryPriors = PRIORS,
) -> MemoryReport:
    """Memory of every stage; `contents[stage]` lists the chunks that the stage holds.

    >>> from simcluster.parallel.stages import stage_contents
    >>> llama = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
    >>> setup = MemorySetup(tp=2, pp=2, dp=2, sequence=4096, micro_batches=8)
    >>> report = memory_report(llama, stage_contents(32, 2), setup, SoftwareFamily("mine"), 80e9)
    >>> report.fits, len(report.stages)
    (True, 2)
    """
    stages = [stage_memory(arch, chunks, i, setup, software, priors) for i, chunks in enumerate(contents)]
    return summarize(stages, capacity_bytes, priors)


def _largest(values: Sequence[Num]) -> Num:
    peak = np.maximum.reduce(np.broadcast_arrays(*values))
    return float(peak) if np.ndim(peak) == 0 else peak
