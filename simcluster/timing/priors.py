"""Kernel rates where nobody measured: typical fractions of the datasheet, all marked as estimates of grade D."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from simcluster.shapes import GpuRates
from simcluster.timing.records import (
    ATTENTION_COLUMNS,
    AttentionTable,
    DeviceRates,
    Figure,
    Fit,
    GemmRates,
    Grade,
    KernelProfile,
    LaunchRates,
    Origin,
    StreamingRates,
)

_PRIOR = Origin("engineering prior, no measurement", "2026-11", "estimate")
_EFFICIENCY_PRIORS = {"ampere": 0.80, "hopper": 0.70, "blackwell": 0.65}


def prior_profile(gpu: GpuRates) -> KernelProfile:
    """A profile of priors alone (grade D), for an accelerator that nobody measured.

    >>> rates = GpuRates("x1", "hopper", {"bf16": 5e14}, 2e12, 64e9, 100)
    >>> profile = prior_profile(rates)
    >>> profile.id, profile.gemm.efficiency_prior.value, profile.gemm.tables
    ('x1', 0.7, {})
    """
    device = DeviceRates(gpu.sms, gpu.hbm_bytes_per_s, dict(gpu.peak_flops), replace(_PRIOR, kind="datasheet"))
    efficiency = _figure(_EFFICIENCY_PRIORS.get(gpu.generation, 0.6), "1")
    streaming = StreamingRates(_figure(0.85 * gpu.hbm_bytes_per_s, "B/s"), _figure(HALF_BYTES, "B"), "D")
    launch = LaunchRates(DEVICE_GAP_S, _PRIOR)
    gemm = GemmRates({}, efficiency, default_layouts(), default_alignment())
    return KernelProfile(
        gpu.id, gpu.id, gpu.generation, device, gemm, prior_attention(device, gpu.generation), streaming, launch
    )


# Priors that have no measurement behind them; profiles carry them as estimates.
HALF_BYTES = 4e6
DEVICE_GAP_S = 1.5e-6
_NO_FIT = Fit((0.4,) * 6, 0.01, 0.05, 0.15, 0.3, 0.15)
_FLASH_PRIORS = {"ampere": 0.65, "hopper": 0.37, "blackwell": 0.25}  # fraction of peak, long sequences


def _figure(value: float, unit: str, note: str = "") -> Figure:
    return Figure(value, unit, _PRIOR.source, _PRIOR.date, "estimate", note)


def default_alignment() -> dict[str, Figure]:
    """Rate by the largest of 64, 8, 1 that divides the contiguous dimensions of both inputs and the output."""
    note = "tensor-core kernels load 128-byte rows; smaller multiples cost partial loads, odd ones the async copies"
    return {key: _figure(value, "1", note) for key, value in (("64", 1.0), ("8", 0.8), ("1", 0.45))}


def default_layouts() -> dict[str, Figure]:
    """Rate of the training layouts relative to the forward one (TN), where nobody measured them."""
    return {key: _figure(value, "1") for key, value in (("NN", 1.0), ("NT", 1.0), ("NT-accumulate", 0.94))}


def prior_attention(device: DeviceRates, generation: str) -> dict[str, AttentionTable]:
    """Attention without a measurement: flash-2 at a typical fraction of peak, the others relative to it."""
    peak = device.peak_flops.get("bf16", max(device.peak_flops.values(), default=1e12))
    fraction = _FLASH_PRIORS.get(generation, 0.3)
    rows = [("flash-2/forward", "", fraction), ("flash-2/backward", "flash-2/forward", 0.85)]
    rows += [("flash-1/forward", "flash-2/forward", 0.55), ("flash-1/backward", "flash-2/backward", 0.55)]
    rows += [("cudnn/forward", "flash-2/forward", 1.0 if generation == "ampere" else 1.6)]
    rows += [("cudnn/backward", "cudnn/forward", 0.8)]
    return {key: derived_attention(base, speed, peak, device.hbm_bytes_per_s, "D", _PRIOR) for key, base, speed in rows}


def derived_attention(
    base: str,
    speed: float,
    flops: float,
    bytes_per_s: float,
    best: Grade,
    origin: Origin,
    base_at: Literal["same", "neutral"] = "same",
) -> AttentionTable:
    """A table without points: `speed` times its base (times the roofline if there is no base)."""
    none = np.empty((0, len(ATTENTION_COLUMNS)))
    return AttentionTable(base, base_at, float(np.log(speed)), flops, bytes_per_s, 1e-5, best, _NO_FIT, origin, none)
