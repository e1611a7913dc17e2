"""Local regression on logarithmic axes: what lies between and beyond the points of a measurement table.

A table gives z = ln(roofline / measured) at points x. The estimate at a query is the intercept of a plane fitted to the
points around it, each weighted by a Gaussian of its distance (locally weighted regression; Cleveland and Devlin, 1988).
One pseudo-observation of weight `prior_weight` at `prior` and a ridge on the slopes make it fall back to the prior, and
to no slope, where points are rare.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_CHUNK_CELLS = 2_000_000  # distances held at once, which bounds the memory of one call


@dataclass(frozen=True, slots=True)
class Kernel:
    """Shape of the weights: one length per axis [ln units], weight of the prior, ridge on the slopes."""

    lengths: tuple[float, ...]
    prior_weight: float = 0.03
    ridge: float = 0.05


@dataclass(frozen=True, slots=True)
class LocalFit:
    """Estimates at the queries, axis [query]; `support` sums the weights, `nearest` is the largest of them."""

    value: Array
    support: Array
    nearest: Array


def local_fit(query: Array, points: Array, values: Array, kernel: Kernel, prior: Any = 0.0) -> LocalFit:
    """Local-linear estimate of `values` at `query`.

    Parameters
    ----------
    query, points
        Coordinates, axes [query, axis] and [point, axis], same units as `kernel.lengths`.
    values
        Axis [point].
    kernel
        Lengths, prior weight and ridge; all positive.
    prior
        Value far from every point, a number or axis [query].

    Examples
    --------
    Between two points of equal value the estimate is that value, far away it is the prior:

    >>> x = np.array([[0.0], [1.0]])
    >>> fit = local_fit(np.array([[0.5], [90.0]]), x, np.array([2.0, 2.0]), Kernel((1.0,), 1e-6), prior=-1.0)
    >>> [round(float(v), 3) for v in fit.value]
    [2.0, -1.0]
    """
    query = np.atleast_2d(query)
    start = np.broadcast_to(np.asarray(prior, dtype=float), (len(query),))
    if len(points) == 0:
        zero = np.zeros(len(query))
        return LocalFit(np.array(start), zero, zero)
    lengths = np.asarray(kernel.lengths, dtype=float)
    step = max(1, _CHUNK_CELLS // max(1, points.size))
    parts = [
        _fit_chunk(query[i : i + step] / lengths, points / lengths, values, kernel, start[i : i + step])
        for i in range(0, len(query), step)
    ]
    return LocalFit(*(np.concatenate([part[j] for part in parts]) for j in range(3)))


def _fit_chunk(query: Array, points: Array, values: Array, kernel: Kernel, prior: Array) -> tuple[Array, Array, Array]:
    """Solve the weighted normal equations of all queries at once; coordinates are already in kernel lengths."""
    offset = points[None, :, :] - query[:, None, :]
    weight = np.exp(-0.5 * np.einsum("qpa,qpa->qp", offset, offset))
    return _solve(offset, weight, values, kernel, prior), weight.sum(axis=1), weight.max(axis=1)


def _solve(offset: Array, weight: Array, values: Array, kernel: Kernel, prior: Array) -> Array:
    """Intercepts of the weighted planes around the origin of `offset`, axes [query, point, axis]."""
    axes = offset.shape[2]
    weighted = offset * weight[:, :, None]
    normal = np.empty((len(offset), axes + 1, axes + 1))
    normal[:, 0, 0] = weight.sum(axis=1) + kernel.prior_weight
    normal[:, 0, 1:] = normal[:, 1:, 0] = weighted.sum(axis=1)
    normal[:, 1:, 1:] = np.einsum("qpa,qpb->qab", weighted, offset, optimize=True) + kernel.ridge * np.eye(axes)
    residual = values[None, :] - prior[:, None]  # about the prior, so that the pseudo-observation is zero
    right = np.empty((len(offset), axes + 1))
    right[:, 0] = (weight * residual).sum(axis=1)
    right[:, 1:] = np.einsum("qpa,qp->qa", weighted, residual, optimize=True)
    return np.asarray(prior + np.linalg.solve(normal, right[:, :, None])[:, 0, 0])


def leave_one_out(points: Array, values: Array, kernel: Kernel, prior: Any = 0.0, *, leave_same: Any = None) -> Array:
    """Estimate at every point from all the others, axis [point].

    `leave_same` groups the points (axis [point]): every point of the same group is left out together.

    >>> x = np.linspace(0.0, 3.0, 13)[:, None]
    >>> estimate = leave_one_out(x, 2.0 * x[:, 0], Kernel((0.5,), 1e-9, 1e-9))
    >>> bool(np.allclose(estimate, 2.0 * x[:, 0], atol=1e-6))
    True
    """
    lengths = np.asarray(kernel.lengths, dtype=float)
    scaled = points / lengths
    start = np.broadcast_to(np.asarray(prior, dtype=float), values.shape)
    group = np.arange(len(values)) if leave_same is None else np.asarray(leave_same)
    offset = scaled[None, :, :] - scaled[:, None, :]
    weight = np.exp(-0.5 * np.einsum("qpa,qpa->qp", offset, offset))
    weight[group[:, None] == group[None, :]] = 0.0
    return _solve(offset, weight, values, kernel, np.array(start))
