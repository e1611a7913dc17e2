"""Nodes in repair, spares that cover them, the wait for a node, and running on fewer nodes instead."""

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


def spares_needed(mean: Num, quantile: float = 0.99) -> Num:
    """Smallest number of spares that covers the nodes in repair with that probability.

    mean [nodes, >= 0] from `mean_down`; quantile in (0, 1), else ValueError.

    >>> spares_needed(23.28), spares_needed(0.364, 0.9)
    (35.0, 1.0)
    """
    from scipy.special import pdtr, pdtrik  # slow to import

    if not 0 < quantile < 1:
        raise ValueError(f"quantile {quantile} should lie between 0 and 1")
    safe = np.maximum(np.asarray(mean, dtype=float), 1e-12)
    near = np.maximum(np.ceil(np.nan_to_num(pdtrik(quantile, safe))) - 1, 0)
    for _ in range(3):  # the inverse is real-valued and rounded: step up to the first count that covers
        near = near + (pdtr(near, safe) < quantile)
    return plain(near)


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


def node_wait_s(mean: Num, spares: Num, repair_s: Num, swap_s: Num = SWAP_S) -> Num:
    """Expected seconds until a failed node is replaced: the swap, and a repair where no spare is left.

    A job that finds none waits for the first of spares + 1 repairs. Hot spares in plenty: swap_s; none: a whole repair.

    >>> round(node_wait_s(0.364, 0, 259200.0, 120.0)), round(node_wait_s(0.364, 2, 259200.0, 120.0))
    (259320, 4122)
    """
    first_repair = np.divide(repair_s, np.add(spares, 1.0))
    return plain(np.add(swap_s, short_probability(mean, spares) * first_repair))


def shrink_loss(mean: Num, replicas: Num, failures_per_s: Num = 0.0, reconfigure_s: Num = 0.0) -> Num:
    """Share of throughput lost where the job drops the replica of a node in repair and runs on.

    mean / replicas: each node in repair takes one replica (an upper bound where two hit the same one), plus two changes
    of the job for each failure. replicas [>= 1] are data-parallel copies, failures_per_s [1/s] those of the whole job.

    >>> round(shrink_loss(0.364, 8), 4)
    0.0455
    """
    changes = 2.0 * np.multiply(failures_per_s, reconfigure_s)
    return plain(np.minimum(np.divide(mean, replicas) + changes, 1.0))


def spare_share(nodes: Num, spares: Num) -> Num:
    """Share of all nodes that spares take: what they cost while nothing is in repair.

    >>> round(spare_share(32, 2), 3), round(spare_share(32, 1), 3)
    (0.059, 0.03)
    """
    return plain(np.divide(spares, np.add(nodes, spares)))
