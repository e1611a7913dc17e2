"""Fits the sustained GEMM rate of a GPU generation to published runs.

One number for each generation: the factor on isolated GEMM rates under which predicted step times agree best with
published ones. Rows come as predictions on a grid of factors, so the fit needs no gradients and no simulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Floats = NDArray[np.float64]

SCALE = 0.08  # relative error at which a row begins to count less than its square (soft L1)


@dataclass(frozen=True, slots=True)
class FactorFit:
    """A fitted factor.

    sigma     from the curvature of the loss at the optimum, with the rows' own scatter
    residual  robust standard deviation of ln(predicted/published) at the optimum
    """

    value: float
    sigma: float
    residual: float
    median_absolute_error: float
    rows: int


def family_weights(families: Sequence[str]) -> Floats:
    """Weight of each row: 1/(n + 1) for one of n rows of its family, so that families vote and rows do not.

    This is the weight of a random effect that spreads as much between families as rows do within one.

    >>> family_weights(["a", "b", "b", "b"]).tolist()
    [0.5, 0.25, 0.25, 0.25]
    """
    counts = {family: list(families).count(family) for family in set(families)}
    return np.array([1.0 / (1.0 + counts[family]) for family in families])


def fit_factor(
    grid: Floats, log_ratio: Floats, weights: Floats, prior: float, prior_sigma: float, low: float, high: float
) -> FactorFit:
    """Minimises the soft-L1 loss of ln(predicted/published) over one factor, with a normal prior, within bounds.

    Parameters: `grid` (k,) factors, rising; `log_ratio` (rows, k) ln(predicted/published) at each; `weights` (rows,).

    >>> grid = np.linspace(0.5, 1.0, 6)
    >>> rows = -np.log(grid)[None, :] + np.log(0.8) + np.array([[-0.02], [0.0], [0.02]])
    >>> round(fit_factor(grid, rows, np.ones(3), 0.8, 0.1, 0.5, 1.0).value, 2)
    0.8
    """

    def residuals(factor: float) -> Floats:
        right = int(np.clip(np.searchsorted(grid, factor), 1, len(grid) - 1))
        share = (factor - grid[right - 1]) / (grid[right] - grid[right - 1])
        return np.asarray((1 - share) * log_ratio[:, right - 1] + share * log_ratio[:, right])

    def loss(factor: float) -> float:
        z = residuals(factor) / SCALE
        fit = 2.0 * (np.sqrt(1.0 + z**2) - 1.0)
        return float((weights * fit).sum() + ((factor - prior) / prior_sigma) ** 2)

    best = float(minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-4}).x)
    left = residuals(best)
    step = 0.02
    curvature = (loss(min(best + step, high)) - 2 * loss(best) + loss(max(best - step, low))) / step**2
    scatter = max(1.0, float(np.median(np.abs(left))) / 0.6745 / SCALE)
    sigma = scatter * float(np.sqrt(2.0 / max(curvature, 2.0 / prior_sigma**2)))
    errors = np.abs(np.expm1(left))
    spread = float(np.median(np.abs(left - np.median(left)))) / 0.6745
    return FactorFit(best, sigma / best, spread, float(np.median(errors)), len(left))
