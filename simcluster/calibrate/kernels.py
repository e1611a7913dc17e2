"""Fits kernel profiles to measured tables and says, by leaving each point out, how well they predict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simcluster.calibrate.measured import DTYPES, AttentionSource, GemmSource, Row, attention_points, gemm_points
from simcluster.timing.attention import attention_time, base_log_efficiency, log_efficiency, points_work
from simcluster.timing.gemm import roofline
from simcluster.timing.priors import derived_attention
from simcluster.timing.records import (
    ELEMENT_BYTES,
    AttentionTable,
    DeviceRates,
    Figure,
    Fit,
    GemmRates,
    GemmTable,
    Grade,
    KernelProfile,
    LaunchRates,
    Origin,
    StreamingRates,
    peak_name,
)
from simcluster.timing.regression import Array, Kernel, leave_one_out

# Smoothing that the leave-one-out and leave-one-plane-out errors of all tables prefer, as one compromise.
GEMM_KERNEL = Kernel((0.5, 0.5, 0.5), prior_weight=0.01, ridge=0.2)
GEMM_LATENCY_S = 4e-6
ATTENTION_KERNEL = Kernel((0.4,) * 6, prior_weight=0.01, ridge=0.05)
FIGURE_KERNEL = Kernel((0.8, 1e3, 1e3, 1e3, 0.6, 0.6), prior_weight=0.02, ridge=0.05)  # the base knows the other axes
ATTENTION_LATENCY_S = 1e-5


@dataclass(frozen=True, slots=True)
class Recipe:
    """What makes a profile: the device's datasheet, and which rows of the measured tables it takes."""

    id: str
    generation: str
    device: DeviceRates
    gemm: Sequence[GemmSource]
    attention: Sequence[AttentionSource]
    streaming: StreamingRates
    launch: LaunchRates
    noise: float  # relative, of one measurement
    date: str = ""  # of the measured tables
    layouts: Mapping[str, Figure] = field(default_factory=dict)
    alignment: Mapping[str, Figure] = field(default_factory=dict)
    references: Mapping[str, DeviceRates] = field(default_factory=dict)  # of measured devices that are not this one


def fit_gemm_table(
    points: Array, *, dtype: str, device: DeviceRates, origin: Origin, best: Grade = "A", noise: float = 0.02
) -> GemmTable:
    """A table from measured points, columns m, n, k, seconds.

    `device` is the measured one. Repeated shapes are merged to their median.

    >>> chip = DeviceRates(100, 1e12, {"bf16": 1e14}, Origin("none", "2026", "estimate"))
    >>> sizes = [512.0, 1024.0, 2048.0]
    >>> rows = np.array([[m, n, k, 2 * m * n * k / 8e13 + 4e-6] for m in sizes for n in sizes for k in sizes])
    >>> table = fit_gemm_table(rows, dtype="bf16", device=chip, origin=chip.origin)
    >>> table.fit.loo_median < 0.05, round(table.max_efficiency, 2)
    (True, 0.79)
    """
    points = merge_repeats(points)
    flops = device.peak_flops[peak_name(device.peak_flops, dtype)]
    m, n, k, seconds = points.T
    roof = roofline(m, n, k, flops, device.hbm_bytes_per_s, ELEMENT_BYTES[dtype], GEMM_LATENCY_S)
    z = np.log(roof / seconds)
    error = leave_one_out(np.log(points[:, :3]), z, GEMM_KERNEL, np.median(z)) - z
    efficiency = float((2 * m * n * k / (flops * seconds)).max())
    fit = _fit(GEMM_KERNEL, error, noise)
    return GemmTable(flops, device.hbm_bytes_per_s, GEMM_LATENCY_S, efficiency, best, fit, origin, points)


def merge_repeats(points: Array) -> Array:
    """Points in order of their shape, measurements of one shape merged to the median of the last column."""
    shapes, back = np.unique(points[:, :-1], axis=0, return_inverse=True)
    back = np.reshape(back, -1)
    medians = [np.median(points[back == i, -1]) for i in range(len(shapes))]
    return np.column_stack([shapes, medians])


def _fit(kernel: Kernel, error: Array, noise: float) -> Fit:
    """Summary of leave-one-out errors of ln time."""
    size = np.abs(np.expm1(error))
    median, p90 = (float(f"{v:.4g}") for v in (np.median(size), np.percentile(size, 90)))
    return Fit(kernel.lengths, kernel.prior_weight, kernel.ridge, max(median, 1e-6), max(p90, 1e-6), noise)


def fit_kernel_profile(recipe: Recipe, gemm_rows: Sequence[Row], attention_rows: Sequence[Row]) -> KernelProfile:
    """A profile from measured tables; each table carries its leave-one-out errors.

    `gemm_rows` have the columns gpu, dtype, m, n, k, layout, time_us, source, kind; `attention_rows` have gpu, kernel,
    pass, head_dim, causal, seq_len, batch, num_heads, num_kv_heads, time_us or tflops, source.

    Raises InputError if a source of the recipe matches no row.
    """
    tables = {}
    for item in recipe.gemm:
        points, source = gemm_points(gemm_rows, item)
        origin = Origin(source, recipe.date, "measured", item.device, item.note)
        device = recipe.references.get(item.device, recipe.device)
        dtype = DTYPES[item.dtype]
        tables[dtype] = fit_gemm_table(
            points, dtype=dtype, device=device, origin=origin, best=item.best, noise=recipe.noise
        )
    gemm = GemmRates(tables, efficiency_prior(tables, recipe), dict(recipe.layouts), dict(recipe.alignment))
    start = KernelProfile(
        recipe.id, recipe.id, recipe.generation, recipe.device, gemm, {}, recipe.streaming, recipe.launch
    )
    for attention in recipe.attention:
        table = _attention_table(start, recipe, attention, attention_rows)
        start = replace(start, attention={**start.attention, attention.key: table})
    return start


def efficiency_prior(tables: Mapping[str, GemmTable], recipe: Recipe) -> Figure:
    """Fraction of peak that full tiles reach: median of the large bf16 products of the table."""
    table = tables.get("bf16")
    if table is None:
        return Figure(0.6, "1", "engineering prior, no measurement", recipe.date, "estimate")
    m, n, k, seconds = table.points.T
    large = np.minimum(np.minimum(m, n), k) >= 4096
    value = float(np.median((2 * m * n * k / (table.reference_flops * seconds))[large])) if large.any() else 0.6
    return Figure(round(value, 3), "1", table.origin.source, table.origin.date, "derived", "median of m, n, k >= 4096")


def _attention_table(
    profile: KernelProfile, recipe: Recipe, source: AttentionSource, rows: Sequence[Row]
) -> AttentionTable:
    """One attention table, relative to its base; a forward-and-backward pass is solved for the backward."""
    reference = recipe.references.get(source.device, recipe.device)
    flops, memory = reference.peak_flops["bf16"], reference.hbm_bytes_per_s
    if not source.kernel:
        prior = Origin("engineering prior, no measurement", recipe.date, "estimate", "", source.note)
        return derived_attention(source.base, source.speed, flops, memory, source.best, prior, source.base_at)
    points, name = attention_points(rows, source)
    if source.passes == "fwd+bwd":
        points = _solve_backward(profile, source, points)
    origin = Origin(
        name, recipe.date, "derived" if source.passes == "fwd+bwd" else "measured", source.device, source.note
    )
    kernel = FIGURE_KERNEL if source.base else ATTENTION_KERNEL
    fit = _fit(kernel, np.zeros(1), recipe.noise)
    points = merge_repeats(points)
    table = AttentionTable(
        source.base,
        source.base_at,
        float(np.log(source.speed)),
        flops,
        memory,
        ATTENTION_LATENCY_S,
        source.best,
        fit,
        origin,
        points,
    )
    return _with_errors(profile, source, table)


def _solve_backward(profile: KernelProfile, source: AttentionSource, points: Array) -> Array:
    """Backward seconds: what the forward kernel does not explain of both."""
    head_dim, causal, seq, batch, heads, kv_heads, both = points.T
    kernel = source.key.split("/")[0]
    forward = np.array(
        [
            attention_time(profile, b, h, g, s, s, d, causal=bool(c), kernel=kernel).seconds
            for d, c, s, b, h, g in zip(head_dim, causal, seq, batch, heads, kv_heads)
        ]
    )
    good = forward < 0.6 * both  # else the two do not belong together
    return np.asarray(np.column_stack([points[:, :-1], both - forward])[good])


def _with_errors(profile: KernelProfile, source: AttentionSource, table: AttentionTable) -> AttentionTable:
    """The table with its shift (median difference to the base) and leave-one-out errors."""
    work = points_work(table, source.key)
    z = log_efficiency(table, profile.device.sms, work, table.points[:, -1])
    if source.base:
        z = z - base_log_efficiency(profile, table, work)
    shift = float(np.median(z))
    error = leave_one_out(work.x, z, table.fit.kernel(), shift) - z
    return replace(table, shift=round(shift, 4), fit=_fit(table.fit.kernel(), error, table.fit.noise))
