"""A kernel profile for an accelerator that nobody measured: that of its own chip in another package, else priors."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Literal

from simcluster.data import data_root
from simcluster.shapes import GpuRates
from simcluster.timing.priors import prior_profile
from simcluster.timing.profile import load_profile
from simcluster.timing.records import KernelProfile

SAME_PEAK = 0.02  # relative difference of peaks up to which two products hold the same chip
_STANDING: Literal["C"] = "C"


@cache
def _measured() -> tuple[KernelProfile, ...]:
    folder = data_root("calibration") / "profiles"
    return tuple(load_profile(path.stem) for path in sorted(folder.glob("*.yaml")) if path.stem != "collectives")


def stand_in_profile(gpu: GpuRates) -> KernelProfile:
    """Profile of a GPU without measurements.

    A measured GPU of the same generation and peak holds the same chip: its tables serve (grade C), memory-bound rates
    scale with the memory. Otherwise everything is a prior (grade D).

    >>> h800 = GpuRates("h800", "hopper", {"bf16": 989.4e12}, 3.35e12, 80e9, 132)
    >>> stand_in_profile(h800).gemm.tables["bf16"].best
    'C'
    >>> stand_in_profile(replace(h800, generation="unheard-of")).gemm.tables
    {}
    """
    own = gpu.peak_flops.get("bf16", 0.0)
    for profile in _measured():
        theirs = profile.device.peak_flops.get("bf16", 0.0)
        if profile.generation == gpu.generation and own and abs(theirs / own - 1) <= SAME_PEAK:
            return _lent(profile, gpu)
    return prior_profile(gpu)


def _lent(profile: KernelProfile, gpu: GpuRates) -> KernelProfile:
    """The tables of another product with the same chip, with this product's memory."""
    share = gpu.hbm_bytes_per_s / profile.device.hbm_bytes_per_s
    rate = replace(profile.streaming.bytes_per_s, value=profile.streaming.bytes_per_s.value * share)
    lent = downgraded(profile)
    return replace(
        lent,
        id=gpu.id,
        gpu=gpu.id,
        device=replace(profile.device, hbm_bytes_per_s=gpu.hbm_bytes_per_s),
        streaming=replace(lent.streaming, bytes_per_s=rate),
    )


def downgraded(profile: KernelProfile) -> KernelProfile:
    """The same rates for another product than the measured one: grade C at best.

    >>> downgraded(load_profile("h100-80gb-sxm")).gemm.tables["bf16"].best
    'C'
    """
    tables = {name: replace(table, best=_STANDING) for name, table in profile.gemm.tables.items()}
    return replace(
        profile,
        gemm=replace(profile.gemm, tables=tables),
        attention={name: replace(table, best=_STANDING) for name, table in profile.attention.items()},
        streaming=replace(profile.streaming, best=_STANDING),
    )
