"""Time of fused attention kernels: measured tables by kernel generation and direction.

Executed work is 4 batch heads seq_q seq_k head_dim forward (Dao, FlashAttention-2, 2023), 2.5 times that backward
(five products against two), (1 + 128/seq_k)/2 of it when causal (the diagonal blocks are computed whole), over the
share of SMs that the blocks of queries can fill. A table gives ln(roofline / measured) as a local regression over
sequence length, sequences times heads, sequences, query heads per key head, head size and masking. A table may be
relative to another one (its base): the few points of a training kernel correct the many of an inference kernel.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import InputError, Problem
from simcluster.shapes import GRADES, Estimate, Num
from simcluster.timing.profile import peak_flops
from simcluster.timing.records import ELEMENT_BYTES, TABLE_OF, AttentionTable, KernelProfile
from simcluster.timing.regression import Array, local_fit

Direction = Literal["forward", "backward"]

BLOCK = 128.0  # rows of queries (and keys) that one block handles
BACKWARD_WORK = 2.5  # products backward over forward
BACKWARD_TRAFFIC = 3.0  # bytes backward over forward
NEUTRAL = (0.5 * np.log(2.0), 0.5 * np.log(8.0))  # two sequences, groups of eight heads
_HEAD_DIMS = {
    "flash-1": (16, 32, 64, 128),
    "flash-2": (32, 64, 96, 128, 160, 192, 224, 256),
    "flash-3": (64, 96, 128, 192, 256),
}  # sizes that the kernels are compiled for; others are padded up
_WEAK = 0.1
# Further uncertainty for each e-fold beyond the measured points: what tables miss when 1.5 e-folds of lengths or heads
# at either end are left out, 0.04 to 0.20 by table and end, median 0.10.
_FAR_SIGMA = 0.10
_PRIOR_SIGMA = 0.25  # spread of ln(roofline / measured) within the tables: 0.02 to 0.25, the widest taken


def attention_time(
    profile: KernelProfile,
    batch: Num,
    heads: Num,
    kv_heads: Num,
    seq_q: Num,
    seq_k: Num,
    head_dim: Num,
    causal: bool = True,
    direction: Direction = "forward",
    kernel: str = "flash-2",
    dtype: str = "bf16",
) -> Estimate:
    """Time of one fused attention kernel, alone on the device.

    Parameters
    ----------
    profile
        Rates of the device.
    batch, heads, kv_heads, seq_q, seq_k, head_dim
        Sequences, query and key heads on this device, lengths, size of a head; numbers or arrays that broadcast.
    causal
        Half the products (those above the diagonal) are skipped.
    direction, kernel
        "forward" or "backward"; "flash-1", "flash-2", "flash-3", "cudnn", or another one that the profile has.
    dtype
        Precision; what is not bf16 or fp16 scales with the peak (grade 3).

    Returns
    -------
    Estimate: grade 0 for a shape in the table, 1 inside it, 2 far from it or where a kernel of the same family stands
    in, 3 for priors.

    Raises InputError if the profile has no such kernel.

    Examples
    --------
    FlashAttention-3, 16k tokens of 16 heads; its authors show 616 TFLOP/s:

    >>> from simcluster.timing.profile import load_profile
    >>> time = attention_time(load_profile("h100-80gb-sxm"), 1, 16, 16, 16384, 16384, 128, kernel="flash-3")
    >>> round(2 * 16 * 16384**2 * 128 / time.seconds / 1e12), GRADES[time.grade]
    (616, 'A')
    """
    key = _table_key(profile, kernel, direction)
    names = (batch, heads, kv_heads, seq_q, seq_k, head_dim)
    arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in names))
    shape = arrays[0].shape
    rows = np.stack([*(a.reshape(-1) for a in arrays), np.full(arrays[0].size, float(causal))], axis=1)
    rows, back = np.unique(rows, axis=0, return_inverse=True)
    work = _work(rows, kernel, direction)
    z, grade, sigma = _look_up(profile, key, work)
    flops = peak_flops(profile, dtype)
    limits = _limits(work, flops, profile.device.hbm_bytes_per_s, profile.device.sms, ELEMENT_BYTES[dtype])
    compute, memory = limits
    time = np.maximum((np.hypot(compute, memory) + profile.attention[key].latency_s) * np.exp(-z), work.flops / flops)
    if TABLE_OF.get(dtype, dtype) != "bf16":
        grade, sigma = np.full(grade.shape, 3), np.full(sigma.shape, _PRIOR_SIGMA)
    bound = np.where(compute >= memory, "compute", "memory")
    bound = np.where(np.maximum(compute, memory) < profile.attention[key].latency_s, "launch", bound)
    back = np.reshape(back, -1)
    return _estimate(shape, time[back], grade[back], sigma[back], bound[back])


def _estimate(shape: tuple[int, ...], time: Array, grade: Array, sigma: Array, bound: NDArray[Any]) -> Estimate:
    if shape:
        return Estimate(*(np.reshape(a, shape) for a in (time, grade, sigma, bound)))
    return Estimate(float(time[0]), int(grade[0]), float(sigma[0]), str(bound[0]))


def _table_key(profile: KernelProfile, kernel: str, direction: str) -> str:
    key = f"{kernel}/{direction}"
    if key not in profile.attention:
        near = difflib.get_close_matches(key, profile.attention, 1)
        known = ", ".join(sorted({name.split("/")[0] for name in profile.attention if name.endswith(direction)}))
        hint = f"did you mean {near[0]}? known: {known}" if near else f"known: {known}"
        raise InputError(Problem(f"{profile.id} has no attention kernel {key!r}", hint))
    return key


@dataclass(frozen=True, slots=True)
class Work:
    """What a call executes, axis [query]; `x` are the coordinates of the regression, axes [query, axis]."""

    flops: Array
    elements: Array  # moved, queries keys values and output once, times 3 backward
    blocks: Array  # independent blocks of queries
    x: Array


def attention_work(
    batch: Num,
    heads: Num,
    kv_heads: Num,
    seq_q: Num,
    seq_k: Num,
    head_dim: Num,
    causal: Num,
    kernel: str,
    direction: str,
) -> Work:
    """Executed work of attention calls and where they lie in the regression.

    >>> round(float(attention_work(1, 32, 32, 8192, 8192, 128, 0, "flash-2", "forward").flops[0]) / 1e12, 4)
    1.0995
    """
    arrays = np.broadcast_arrays(batch, heads, kv_heads, seq_q, seq_k, head_dim, causal)
    return _work(np.stack([np.asarray(a, dtype=float).reshape(-1) for a in arrays], axis=1), kernel, direction)


def _work(rows: Array, kernel: str, direction: str) -> Work:
    batch, heads, kv_heads, seq_q, seq_k, head_dim, causal = rows.T
    sizes = np.asarray(_HEAD_DIMS.get(kernel, ()), dtype=float)
    if sizes.size:  # beyond the largest size nothing is padded
        at = np.searchsorted(sizes, head_dim)
        head_dim = np.where(at < sizes.size, sizes[np.minimum(at, sizes.size - 1)], head_dim)
    share = np.where(causal > 0, (1 + BLOCK / np.maximum(seq_k, BLOCK)) / 2, 1.0)
    flops = 4 * batch * heads * seq_q * seq_k * head_dim * share
    elements = batch * head_dim * (2 * heads * seq_q + 2 * kv_heads * seq_k)
    length, instances = np.sqrt(seq_q * seq_k), batch * heads
    group = np.maximum(heads / kv_heads, 1e-6)
    x = [np.log(length), np.log(instances), 0.5 * np.log(batch), 0.5 * np.log(group), np.log(head_dim), causal]
    backward = direction == "backward"
    return Work(
        flops * (BACKWARD_WORK if backward else 1.0),
        elements * (BACKWARD_TRAFFIC if backward else 1.0),
        instances * np.ceil(seq_q / BLOCK),
        np.stack(x, axis=1),
    )


def _limits(work: Work, flops: float, bytes_per_s: float, sms: int, element: float) -> tuple[Array, Array]:
    """Seconds of the arithmetic on the SMs that have a block, and of the traffic."""
    return work.flops / (flops * np.minimum(1.0, work.blocks / sms)), element * work.elements / bytes_per_s


def log_efficiency(table: AttentionTable, sms: int, work: Work, seconds: Array) -> Array:
    """Z = ln(roofline / measured) of measured calls, axis [point]."""
    compute, memory = _limits(work, table.reference_flops, table.reference_bytes_per_s, sms, 2.0)
    return np.asarray(np.log((np.hypot(compute, memory) + table.latency_s) / seconds))


def points_work(table: AttentionTable, key: str) -> Work:
    """Work of the points of a table."""
    head_dim, causal, seq, batch, heads, kv_heads, _ = table.points.T
    return attention_work(batch, heads, kv_heads, seq, seq, head_dim, causal, *key.split("/"))


def base_log_efficiency(profile: KernelProfile, table: AttentionTable, work: Work) -> Array:
    """What the base of a table predicts for `work`: its z, axis [query]."""
    return _base(profile, table, work)[0]


@lru_cache(maxsize=256)
def _points(profile: KernelProfile, key: str) -> tuple[Array, Array, Array]:
    """Coordinates of a table's points, their z, and that of its base there (0 without one)."""
    table = profile.attention[key]
    work = points_work(table, key)
    z = log_efficiency(table, profile.device.sms, work, table.points[:, -1])
    return work.x, z, base_log_efficiency(profile, table, work) if table.base and len(z) else np.zeros(len(z))


def _look_up(profile: KernelProfile, key: str, work: Work) -> tuple[Array, NDArray[Any], Array]:
    """z, grade and sigma at the calls of `work`; what was measured as it is keeps its own value."""
    value, grade, sigma = _smooth(profile, key, work)
    table = profile.attention[key]
    points, z, _ = _points(profile, key)
    for i, row in enumerate(work.x):
        same = np.flatnonzero(np.abs(points - row).max(axis=1) < 1e-9)
        if same.size:
            value[i], grade[i], sigma[i] = np.median(z[same]), GRADES.index(table.best), table.fit.noise
    return value, grade, sigma


def _base(profile: KernelProfile, table: AttentionTable, work: Work) -> tuple[Array, NDArray[Any], Array]:
    """z, grade and sigma of what a table is relative to: another table, or the roofline itself."""
    if not table.base:
        size = len(work.x)
        return np.zeros(size), np.full(size, 3), np.full(size, _PRIOR_SIGMA)
    if table.base_at == "neutral":
        x = work.x.copy()
        x[:, 2:4] = NEUTRAL
        work = replace(work, x=x)
    return _smooth(profile, table.base, work)


def _smooth(profile: KernelProfile, key: str, work: Work) -> tuple[Array, NDArray[Any], Array]:
    """z, grade and sigma from the regression of a table on top of its base."""
    table = profile.attention[key]
    base, base_grade, base_sigma = _base(profile, table, work)
    best = GRADES.index(table.best)
    if not len(table.points):
        return base + table.shift, np.maximum(base_grade, best), np.hypot(base_sigma, table.fit.noise)
    points, z, z_base = _points(profile, key)
    inside = np.clip(work.x, points.min(axis=0), points.max(axis=0))
    excess = work.x - inside
    fit = local_fit(inside, points, z - z_base, table.fit.kernel(), table.shift)
    rare = table.fit.prior_weight / (fit.support + table.fit.prior_weight)
    spread = table.fit.loo_median / 0.6745  # median to standard deviation of a normal distribution
    far = _FAR_SIGMA * np.linalg.norm(excess, axis=1)
    sigma = np.sqrt(table.fit.noise**2 + spread**2 * (1 + rare) + far**2)
    near = fit.nearest * np.exp(-0.5 * np.square(excess / np.asarray(table.fit.lengths)).sum(axis=1)) >= _WEAK
    grade = np.where(near, 1, np.maximum(base_grade, 2) if table.base else 2)
    return base + fit.value, np.maximum(grade, best), sigma
