"""Nodes in repair, spares that cover them, the wait for a node."""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num

SWAP_S = 120.0  # a hot spare takes the place of a node in 1 to 3 minutes (estimate)


def mean_down(nodes: Num, failures_per_node_s: Num, repair_s: Num) -> Num:
    """Mean number of nodes in repair: nodes * rate * repair time.

    failures_per_node_s [1/s] counts failures that take a node away. The number is Poisson whatever the law of repair
    times (M/G/infinity).

    >>> round(mean_down(2048, 3.789e-3 / 86400, 3 * 86400), 2)
    23.28
    """
    return plain(np.multiply(nodes, np.multiply(failures_per_node_s, repair_s)))


def short_probability(mean: Num, spares: Num) -> Num:
    """Probability that a failing node of a running job finds every spare in repair already (Erlang's B).

        B = (a^s / s!) / sum_(k <= s) a^k / k!

    The job waits while it is short of a node, so nodes in repair are an Erlang loss system with spares as its servers:
    insensitive to the law of repair times (Erlang 1917).

    >>> round(short_probability(0.364, 2), 4)
    0.0463
    """
    from scipy.special import gammaln, pdtr, xlogy  # slow to import

    count, load = np.asarray(spares, dtype=float), np.asarray(mean, dtype=float)
    return plain(np.exp(xlogy(count, load) - load - gammaln(count + 1.0)) / pdtr(count, load))


def spares_needed(mean: Num, short: float = 0.05) -> Num:
    """Smallest number of spares with which at most that share of failing nodes finds none.

    mean [nodes, >= 0] from `mean_down`; short in (0, 1), else ValueError.

    >>> spares_needed(23.28), spares_needed(0.364, 0.01)
    (29.0, 3.0)
    """
    if not 0 < short < 1:
        raise ValueError(f"share {short} should lie between 0 and 1")
    load = np.asarray(mean, dtype=float)
    blocked, spares = np.where(load > 0, 1.0, 0.0), np.zeros_like(load)
    while np.any(blocked > short):  # B(s) = a B(s-1) / (s + a B(s-1)), and falls with s
        count = spares + 1.0
        fewer = load * blocked / (count + load * blocked)
        spares, blocked = np.where(blocked > short, count, spares), np.where(blocked > short, fewer, blocked)
    return plain(spares)


def repair_wait_s(mean: Num, spares: Num, repair_s: Num) -> Num:
    """Expected seconds that a failed node's job waits for a repair because no spare is left.

    A job that finds none waits for the first of spares + 1 repairs; without spares each failure takes a whole one.

    >>> round(repair_wait_s(0.364, 0, 259200.0)), round(repair_wait_s(0.364, 2, 259200.0))
    (259200, 4002)
    """
    return plain(short_probability(mean, spares) * np.divide(repair_s, np.add(spares, 1.0)))


def spares_that_pay(nodes: int, mean: float) -> int:
    """Number of spares with which work costs least: (1 + s/nodes) machines for (1 + waiting) of its time.

    mean [nodes in repair, >= 0] from `mean_down`; waiting over working is mean B(s) / (s + 1). Machines are taken to
    cost alike whether they wait or work.

    >>> spares_that_pay(32, 0.364), spares_that_pay(2048, 23.28), spares_that_pay(1, 0.01)
    (2, 38, 0)
    """
    found, least = 0, 1.0 + mean
    blocked = 1.0
    for spares in range(1, nodes + int(mean) + 2):
        blocked = mean * blocked / (spares + mean * blocked)
        if 1.0 + spares / nodes >= least:
            break
        cost = (1.0 + spares / nodes) * (1.0 + mean * blocked / (spares + 1.0))
        if cost < least:
            found, least = spares, cost
    return found
