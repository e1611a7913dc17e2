"""Time of matrix multiplications: measured tables, smoothed, between and beyond their points.

z = ln(roofline / measured) varies slowly with ln m, ln n, ln k; a local regression gives it inside the measured box,
and outside it keeps the value of the nearest face, so that efficiency saturates and no slope is extrapolated. The
roofline sqrt(compute^2 + memory^2) + latency carries the scaling. Times are made non-decreasing in every dimension by
the mean of the running maximum from below and the running minimum from above; a shape that was measured keeps its own
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simcluster.shapes import GRADES, Estimate, Num
from simcluster.timing.profile import peak_flops
from simcluster.timing.records import ELEMENT_BYTES, TABLE_OF, GemmTable, KernelProfile
from simcluster.timing.regression import Array, local_fit

Layout = Literal["TN", "NN", "NT"]  # forward, input gradient, weight gradient (cuBLAS names, column-major)

_STEP = 0.4  # spacing of the smoothed surface [ln units]
_LEAST, _MOST = np.log(8.0), np.log(2.0**18)  # dimensions that the surface covers
# Further uncertainty for each e-fold below the measured box: what the bf16 tables of five GPUs miss, root mean square,
# when their lowest one or two e-folds of a dimension are left out: 0.10 to 0.11 (m 0.05, n 0.08 to 0.10, k 0.12 to
# 0.17); with the 8- and 4-bit tables 0.15.
_BELOW_SIGMA = 0.10
# And above it. Estimate: efficiency has saturated by the end of the box. The highest e-folds left out, inside which it
# still rises, are missed by 0.07 to 0.10 (bf16).
_ABOVE_SIGMA = 0.02
_PRIOR_SIGMA = 0.25  # whole waves of tiles against the same tables: 0.13 to 0.23 by GPU, rounded up
_WEAK = 0.1  # nearest weight below which an estimate counts as extrapolated
_PROLOGUE_K = 64.0  # multiply-add steps in which a tile fills and drains its pipeline, as many tiles share an SM
_TILES = ((256, 128, 1.0), (128, 256, 1.0), (128, 128, 0.95), (128, 64, 0.8), (64, 128, 0.8), (64, 64, 0.65))


def gemm_time(
    profile: KernelProfile,
    m: Num,
    n: Num,
    k: Num,
    *,
    batch: Num = 1,
    dtype: str = "bf16",
    accumulate: bool = False,
    layout: Layout = "TN",
) -> Estimate:
    """Time of y[m, n] = x[m, k] w[k, n], `batch` of them in one kernel, alone on the device.

    Parameters
    ----------
    profile
        Rates of the device.
    m, n, k, batch
        Dimensions, at least 1; numbers or arrays that broadcast.
    dtype
        Precision of the inputs: bf16, fp16 (read as bf16), fp8, fp8-block, mxfp8, nvfp4, tf32, fp32.
    accumulate
        Adds into an fp32 buffer, as weight gradients do (layout NT).
    layout
        TN forward, NN input gradient, NT weight gradient.

    Returns
    -------
    Estimate: seconds (the gap on the device included, host launches not); grade 0 for an exact hit in a table of this
    device, 1 inside the table, 2 where it is far from every point, 3 without a table.

    Raises InputError if the profile states no peak for the precision.

    Examples
    --------
    A row of the A100 table and shapes between rows, in TFLOP/s:

    >>> from simcluster.timing.profile import load_profile
    >>> a100 = load_profile("a100-80gb-sxm")
    >>> hit = gemm_time(a100, 4096, 4096, 4096)
    >>> int(hit.grade), round(2 * 4096**3 / hit.seconds / 1e12)
    (0, 267)
    >>> between = gemm_time(a100, [2048, 3072], 4608, 12288)
    >>> [int(grade) for grade in between.grade], [int(2 * m * 4608 * 12288 / t / 1e12) for m, t in
    ...     zip((2048, 3072), between.seconds)]
    ([1, 1], [257, 261])
    """
    m, n, k, batch = (np.asarray(x, dtype=float) for x in np.broadcast_arrays(m, n, k, batch))
    key = "NT-accumulate" if accumulate else layout
    table = profile.gemm.tables.get(TABLE_OF.get(dtype, dtype))
    if table is None:
        time = _tile_time(profile, dtype, m, n, k, batch)
        grade, sigma = np.full(m.shape, 3), np.full(m.shape, _PRIOR_SIGMA)
    else:
        time, grade, sigma = _table_time(profile, table, dtype, (m, n, k, batch))
    time = time / (_layout_rate(profile, key) * _alignment_rate(profile, key, m, n, k))
    compute, memory, latency = _parts(profile, dtype, (m, n, k, batch), 8.0 if accumulate else 0.0)
    if accumulate:  # small products may live in the cache, but the fp32 buffer is read and written
        time = np.maximum(time, memory)
    bound = np.where(compute >= memory, "compute", "memory")
    return _estimate(time, grade, sigma, np.where(np.maximum(compute, memory) < latency, "launch", bound))


def _estimate(seconds: Array, grade: NDArray[Any], sigma: Array, bound: NDArray[Any]) -> Estimate:
    """Arrays as they are, plain Python values where the input was a single shape."""
    if np.ndim(seconds):
        return Estimate(seconds, grade, sigma, bound)
    return Estimate(float(seconds), int(grade), float(sigma), str(bound))


def roofline(m: Num, n: Num, k: Num, flops: float, bytes_per_s: float, element: float, latency_s: float) -> Array:
    """Smooth roofline of a GEMM [s]: sqrt(compute^2 + memory^2) + latency, every operand moved once.

    >>> round(float(roofline(4096, 4096, 4096, 1e15, 1e20, 2, 0.0)) * 1e6, 2)
    137.44
    """
    rows = np.stack(np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (m, n, k))), axis=-1)
    return np.asarray(np.hypot(2 * rows.prod(axis=-1) / flops, element * _elements(rows) / bytes_per_s) + latency_s)


def _elements(rows: Array) -> Array:
    """Elements of both inputs and the output of shapes [..., 3]."""
    m, n, k = np.moveaxis(rows, -1, 0)
    return np.asarray(m * k + k * n + m * n)


def _roof(compute_s: Array, traffic_bytes: Array, profile: KernelProfile, latency_s: float) -> Array:
    return np.asarray(np.hypot(compute_s, traffic_bytes / profile.device.hbm_bytes_per_s) + latency_s)


@dataclass(frozen=True, slots=True, eq=False)
class _Surface:
    """The smoothed table on a regular lattice of ln m, ln n, ln k that reaches beyond the measured box."""

    low: Array  # measured box [axis]
    high: Array
    start: Array  # first node of the lattice [axis]
    step: Array
    fields: Array  # ln seconds, ln of the nearest weight, relative sigma; axes [m, n, k, quantity]
    keys: NDArray[np.int64]  # exact shapes, packed and sorted, with their measured seconds
    seconds: Array


@lru_cache(maxsize=256)
def _surface(table: GemmTable, element: float) -> _Surface:
    """Evaluate the regression once on a lattice over the measured box, carry z on beyond it, and make time monotone."""
    shapes, measured = table.points[:, :3], table.points[:, 3]
    x = np.log(shapes)
    low, high = x.min(axis=0), np.maximum(x.max(axis=0), x.min(axis=0) + 1e-3)
    counts = np.ceil((high - low) / _STEP).astype(int) + 1
    step = (high - low) / (counts - 1)
    fit = local_fit(
        _nodes(low, step, counts),
        x,
        np.log(_reference(table, shapes, element) / measured),
        table.fit.kernel(),
        np.median(np.log(_reference(table, shapes, element) / measured)),
    )
    pad = np.stack([np.ceil((low - _LEAST) / step), np.ceil((_MOST - high) / step)], axis=1).clip(0, 60).astype(int)
    start = low - pad[:, 0] * step
    z, near, sigma = (
        np.pad(field.reshape(counts), pad, mode="edge")
        for field in (fit.value, np.log(np.maximum(fit.nearest, 1e-12)), _sigma(table, fit.support))
    )
    roof = _reference(table, np.exp(_nodes(start, step, np.array(z.shape))), element)
    fields = np.stack([_monotone(np.log(roof).reshape(z.shape) - z), near, sigma], axis=-1)
    keys = _pack(shapes)
    order = np.argsort(keys, kind="stable")
    return _Surface(low, high, start, step, fields, keys[order], measured[order])


def _nodes(start: Array, step: Array, counts: NDArray[Any]) -> Array:
    """Coordinates of a regular lattice, axes [node, axis]."""
    axes = [start[i] + step[i] * np.arange(counts[i]) for i in range(3)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)


def _monotone(values: Array) -> Array:
    """Mean of the largest value not above and the smallest not below a node in every axis: non-decreasing in each."""
    below, above = values, values
    for axis in range(values.ndim):
        below = np.maximum.accumulate(below, axis=axis)
        above = np.flip(np.minimum.accumulate(np.flip(above, axis), axis=axis), axis)
    return np.asarray(0.5 * (below + above))


def _sigma(table: GemmTable, support: Array) -> Array:
    """Relative uncertainty: noise of a measurement and the leave-one-out error, more where points are rare."""
    fit = table.fit
    spread = fit.loo_median / 0.6745  # median to standard deviation of a normal distribution
    return np.sqrt(fit.noise**2 + spread**2 * (1 + fit.prior_weight / (support + fit.prior_weight)))


def _reference(table: GemmTable, shapes: Array, element: float) -> Array:
    """Roofline of the measured device, shapes [..., 3]."""
    m, n, k = np.moveaxis(shapes, -1, 0)
    return roofline(m, n, k, table.reference_flops, table.reference_bytes_per_s, element, table.latency_s)


def _pack(shapes: Array) -> NDArray[np.int64]:
    """One integer for each shape; dimensions below 2**21."""
    whole = np.minimum(np.rint(shapes), 2**21 - 1).astype(np.int64)
    return np.asarray((whole[..., 0] << 42) | (whole[..., 1] << 21) | whole[..., 2])


def _table_time(
    profile: KernelProfile, table: GemmTable, dtype: str, shape: tuple[Array, ...]
) -> tuple[Array, NDArray[Any], Array]:
    """Seconds, grade and sigma from a table.

    A batch of large products (groups of experts) runs like one tall product of the same tiles; one of thin products
    (the heads of unfused attention) lies outside any table and is priced by whole waves of tiles.
    """
    m, n, k, batch = shape
    element = ELEMENT_BYTES[dtype]
    surface = _surface(table, ELEMENT_BYTES[TABLE_OF.get(dtype, dtype)])
    rows = np.stack([m * batch, n, k], axis=-1)
    x = np.log(rows)
    held, fields = _interpolate(surface, x)
    ln_time, ln_near, sigma = np.moveaxis(fields, -1, 0)
    hit, seconds = _exact(surface, rows, batch)
    at = np.where(hit[..., None], rows, np.exp(held))
    z = np.log(_reference(table, at, element)) - np.where(hit, np.log(seconds), ln_time)
    flops = peak_flops(profile, dtype)
    weights = (batch - 1) * element * k * n  # beyond those of the tall product
    roof = _roof(2 * rows.prod(axis=-1) / flops, element * _elements(rows) + weights, profile, table.latency_s)
    time = np.maximum(roof * np.exp(-z), 2 * rows.prod(axis=-1) / (flops * table.max_efficiency))
    beyond = np.stack([np.maximum(surface.low - x, 0), np.maximum(x - surface.high, 0)])
    far = ln_near - 0.5 * np.square(beyond.sum(axis=0) / np.asarray(table.fit.lengths)).sum(axis=-1) < np.log(_WEAK)
    below, above = np.linalg.norm(beyond, axis=-1)
    sigma = np.where(
        hit, table.fit.noise, np.sqrt(sigma**2 + (_BELOW_SIGMA * below) ** 2 + (_ABOVE_SIGMA * above) ** 2)
    )
    grade = np.maximum(np.where(hit, 0, np.where(far, 2, 1)), GRADES.index(table.best))
    many = batch > 1  # nobody measured these
    if many.any():
        thin = np.minimum(n / table.points[:, 1].min(), k / table.points[:, 2].min()) < 1  # heads of attention
        tiles = _tile_time(profile, dtype, m, n, k, batch)
        time = np.where(many, np.where(thin, tiles, time * _filled(m) * _filled(n)), time)
    return time, np.where(many, 3, grade), np.where(many, _PRIOR_SIGMA, sigma)


def _filled(size: Array) -> Array:
    """Executed over useful rows of the tiles that cover `size`: 128 wide, 64 when that is enough, 16 at least."""
    tile = np.where(size > 64, 128.0, np.where(size > 16, 64.0, 16.0))
    return np.asarray(np.ceil(size / tile) * tile / size)


def _exact(surface: _Surface, rows: Array, batch: Array) -> tuple[NDArray[np.bool_], Array]:
    """Which shapes were measured as they are, and their seconds (1.0 elsewhere)."""
    keys = _pack(rows)
    at = np.minimum(np.searchsorted(surface.keys, keys), len(surface.keys) - 1)
    hit = (surface.keys[at] == keys) & (rows == np.rint(rows)).all(axis=-1) & (batch == 1)
    return np.asarray(hit), np.where(hit, surface.seconds[at], 1.0)


def _interpolate(surface: _Surface, x: Array) -> tuple[Array, Array]:
    """Where x [..., 3] lies when held inside the lattice, and trilinear values there, axes [..., quantity]."""
    counts = np.array(surface.fields.shape[:3])
    position = np.clip((x - surface.start) / surface.step, 0, counts - 1)
    cell = np.minimum(position.astype(int), counts - 2)
    part = position - cell
    total = np.zeros((*x.shape[:-1], surface.fields.shape[3]))
    for corner in np.ndindex(2, 2, 2):
        weight = np.prod(np.where(np.array(corner), part, 1 - part), axis=-1)
        i, j, h = np.moveaxis(cell + np.array(corner), -1, 0)
        total += weight[..., None] * surface.fields[i, j, h]
    return surface.start + position * surface.step, total


def _parts(profile: KernelProfile, dtype: str, shape: tuple[Array, ...], output: float) -> tuple[Array, Array, float]:
    """Compute at peak, traffic at the stream rate, fixed latency [s]; `output` bytes per result if it accumulates."""
    m, n, k, batch = shape
    element = ELEMENT_BYTES[dtype]
    compute = 2 * batch * m * n * k / peak_flops(profile, dtype)
    traffic = batch * (element * (m * k + k * n) + (output or min(element, 2.0)) * m * n)
    return compute, traffic / profile.streaming.bytes_per_s.value, profile.launch.device_gap_s


def _tile_time(profile: KernelProfile, dtype: str, m: Array, n: Array, k: Array, batch: Array) -> Array:
    """Whole waves of output tiles over the SMs, the best tile of a small set, or memory traffic (no measurement)."""
    sms, rate = profile.device.sms, peak_flops(profile, dtype) * profile.gemm.efficiency_prior.value
    best = np.full(np.shape(m), np.inf)
    for rows, columns, speed in _TILES:
        waves = np.ceil(batch * np.ceil(m / rows) * np.ceil(n / columns) / sms)
        best = np.minimum(best, waves * sms * 2 * rows * columns * (k + _PROLOGUE_K) / (rate * speed))
    memory = _parts(profile, dtype, (m, n, k, batch), 0.0)[1]
    return np.asarray(np.maximum(best, memory) + profile.launch.device_gap_s)


def _layout_rate(profile: KernelProfile, key: str) -> float:
    figure = profile.gemm.layouts.get(key)
    return figure.value if figure else 1.0


def _alignment_rate(profile: KernelProfile, key: str, m: Array, n: Array, k: Array) -> Array:
    """Rate of the worst contiguous dimension: n and k, or m and n for a weight gradient."""
    rates = {name: figure.value for name, figure in profile.gemm.alignment.items()}
    rate = np.ones(np.shape(m))
    for size in (m if key.startswith("NT") else k, n):
        grain = np.where(size % 64 == 0, rates["64"], np.where(size % 8 == 0, rates["8"], rates["1"]))
        rate = np.minimum(rate, grain)
    return rate
