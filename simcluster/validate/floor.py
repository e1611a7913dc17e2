"""The naive floor: what a model must beat to be worth running.

It knows one figure for each (GPU, precision, dense or mixture of experts): the median MFU of the shipped `fit` rows
outside the bubble of their pipeline, over model FLOPs with causal attention. A step then takes model FLOPs over that
rate, times 1 + (p - 1) / (v m) (Narayanan et al. 2021). As the GPU and precision of fit row and judged row are the
same, their peak cancels: the floor keeps FLOP/s of a GPU and needs no catalogue of peaks.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from simcluster.data import data_root
from simcluster.formats.published import PublishedRow, read_published
from simcluster.formats.published_checks import flops_per_token, published_step_time, skip_reason
from simcluster.formats.published_facts import PublishedFacts

Key = tuple[str, str, bool]
GpuNames = Callable[[str, str], tuple[str, ...]]  # (text, date) to names of a GPU, the most telling first

_CLASSES = {"bf16": "16-bit", "fp16": "16-bit", "fp8-block": "fp8", "mxfp8": "fp8"}  # precisions with one peak


@dataclass(frozen=True, slots=True)
class Floor:
    """Median FLOP/s of a GPU outside the bubble by (GPU, precision, experts?), and how GPUs are named."""

    flops_per_s: Mapping[Key, float]
    gpu_names: GpuNames

    def step_time_s(self, facts: PublishedFacts) -> float | None:
        """Seconds of a step; None where no fit row has this GPU, precision and kind, or the facts do not do."""
        work = step_flops_per_gpu(facts)
        if work is None:
            return None
        known = [self.flops_per_s[key] for key in _keys(facts, self.gpu_names) if key in self.flops_per_s]
        return work * (1 + pipeline_bubble(facts)) / known[0] if known else None


def pipeline_bubble(facts: PublishedFacts) -> float:
    """Idle over busy time of a pipeline, (p - 1) / (v m).

    >>> pipeline_bubble(PublishedFacts(pp=4, vpp=1, dp=2, global_batch=24, micro_batch=2))
    0.5
    """
    micro_batches = max(1, (facts.global_batch or 1) // ((facts.dp or 1) * (facts.micro_batch or 1)))
    return ((facts.pp or 1) - 1) / (facts.vpp * micro_batches)


def step_flops_per_gpu(facts: PublishedFacts) -> float | None:
    """Model FLOPs of a step on one GPU, causal attention; None where the facts do not tell."""
    per_token = flops_per_token(facts, "causal")
    if per_token is None or not facts.global_batch or not facts.sequence_length or not facts.n_gpus:
        return None
    return per_token * facts.global_batch * facts.sequence_length / facts.n_gpus


def _keys(facts: PublishedFacts, gpu_names: GpuNames) -> list[Key]:
    precision = _CLASSES.get(facts.precision or "", facts.precision or "")
    return [(name, precision, facts.experts > 0) for name in gpu_names(facts.gpu, facts.date)]


def fit_floor(rows: Iterable[PublishedRow], gpu_names: GpuNames) -> Floor:
    """The floor of some rows; those that cannot be compared are left out. A row counts under each name of its GPU."""
    rates: dict[Key, list[float]] = {}
    for row in rows:
        found, work = published_step_time(row), step_flops_per_gpu(row.facts)
        if found is None or work is None or skip_reason(row) is not None:
            continue
        for key in _keys(row.facts, gpu_names):
            rates.setdefault(key, []).append(work * (1 + pipeline_bubble(row.facts)) / found[0])
    return Floor({key: statistics.median(values) for key, values in rates.items()}, gpu_names)


@cache
def shipped_rows() -> tuple[PublishedRow, ...]:
    """The published training results that ship with simcluster."""
    return read_published(data_root("calibration") / "published" / "training.csv")


def shipped_floor(gpu_names: GpuNames) -> Floor:
    """The floor of the shipped fit rows, whatever table is judged."""
    return fit_floor((row for row in shipped_rows() if row.result.split == "fit"), gpu_names)
