"""How much slower a synchronous step gets because it waits for the slowest node.

Closed forms of independent node speeds, a first answer: simulating each node's operators says more about where in a
pipeline a slow node costs less.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num

_REACH = 10.0  # standard deviations that the integrals cover
_POINTS = 4001


def normal_maximum(count: Num) -> Num:
    """Expected maximum of `count` [>= 1] independent standard normal values.

        integral of x N phi(x) Phi(x)^(N - 1) dx

    by the trapezoid rule, which is exact to rounding here. N at least 1, arrays allowed.

    >>> round(normal_maximum(64), 4), normal_maximum(1)
    (2.3437, 0.0)
    """
    from scipy.special import log_ndtr  # slow to import

    x = np.linspace(-_REACH, _REACH, _POINTS)
    n = np.asarray(count, dtype=float)[..., None]
    density = n * np.exp((n - 1.0) * log_ndtr(x) - 0.5 * x * x) / np.sqrt(2.0 * np.pi)
    half = np.sum(x * (density - density[..., ::-1]), axis=-1) / 2.0  # pairs x and -x, so that one node gives exactly 0
    return plain(np.maximum(half * (x[1] - x[0]), 0.0))


def two_point_maximum(count: Num, probability: Num, excess: Num) -> Num:
    """Expected slowest of nodes that are each slower by `excess` with a probability: excess (1 - (1 - q)^N).

    >>> round(two_point_maximum(512, 0.005, 1.0), 5)
    0.92319
    """
    return plain(np.multiply(excess, -np.expm1(np.multiply(count, np.log1p(-np.asarray(probability))))))


def slowest_factor(nodes: int, node_sigma: float = 0.0, slow_nodes: Iterable[tuple[int, float]] = ()) -> float:
    """Expected time of the slowest node over that of a typical one.

    nodes [count] in all; node_sigma [relative standard deviation of node speeds, >= 0]; slow_nodes: (count,
    factor >= 1) of nodes known to be slow. E[max(1 + sigma max(Z_1 … Z_n), factor)] over the n other nodes; speeds do
    not multiply. Never below 1.

    >>> round(slowest_factor(64, 0.01), 4), round(slowest_factor(64, 0.01, [(1, 1.02)]), 4)
    (1.0234, 1.0239)
    >>> slowest_factor(64, 0.0, [(1, 1.02)])
    1.02
    """
    known = [(count, factor) for count, factor in slow_nodes if count > 0]
    healthy = nodes - sum(count for count, _ in known)
    floor = max([factor for _, factor in known], default=0.0)
    if node_sigma <= 0 or healthy < 1:
        return max(floor, 1.0)
    return max(1.0, _maximum_above(healthy, node_sigma, floor) if known else 1 + node_sigma * _mean(healthy))


def step_slow_down(
    nodes: int, compute_share: float, node_sigma: float = 0.0, slow_nodes: Iterable[tuple[int, float]] = ()
) -> float:
    """Factor on the step time, >= 1: only the compute share [0 to 1] of the step runs at the nodes' speed.

    >>> round(step_slow_down(64, 0.7, slow_nodes=[(1, 1.02)]), 4)
    1.014
    """
    return 1.0 + compute_share * (slowest_factor(nodes, node_sigma, slow_nodes) - 1.0)


def droppable_excess(nodes: Num) -> Num:
    """Slowness above which a job of equal work a node is faster without its slowest node: 1/(nodes - 1), nodes >= 2.

    >>> round(droppable_excess(64), 4)
    0.0159
    """
    return plain(np.divide(1.0, np.subtract(nodes, 1.0)))


def _mean(count: int) -> float:
    return float(normal_maximum(count))


def _maximum_above(count: int, sigma: float, floor: float) -> float:
    """E[max(floor, 1 + sigma max Z)] = floor + sigma * integral from z0 of (1 - Phi(z)^N) dz."""
    from scipy.special import log_ndtr  # slow to import

    start = min(max((floor - 1.0) / sigma, -_REACH), _REACH)
    z, step = np.linspace(start, _REACH, _POINTS, retstep=True)
    above = -np.expm1(count * log_ndtr(z))
    return floor + sigma * float(np.sum(above) - 0.5 * (above[0] + above[-1])) * float(step)
