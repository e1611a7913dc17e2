"""What slow nodes cost, one by one, and what could be done about them.

All for nodes whose factors are known (measured, or one draw); a typical node's is 1.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.stragglers import group_paces
from simcluster.engine.paced import PacedStep, step_times

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Blame:
    """A slow node: its number and factor, and how much shorter the step were if it alone were typical [s].

    Where several are as slow, none of them costs anything alone.
    """

    node: int
    factor: float
    cost_s: float


@dataclass(frozen=True, slots=True)
class Remedies:
    """Step times [s] as things are and after each remedy, for the same number of sequences.

    now_s, healthy_s    with all nodes as they are; with all typical
    swapped_s           the slowest nodes swapped for typical spares; `swapped` are their numbers
    dropped_s           the replica of the slowest node left out, the others doing its work
    rebalanced_s        micro-batches shared out by pace; `micro_batches` of each replica
    binned_s            slow nodes put together in as few replicas as hold them
    binned_rebalanced_s  both
    """

    now_s: float
    healthy_s: float
    swapped_s: float
    swapped: tuple[int, ...]
    dropped_s: float
    rebalanced_s: float
    micro_batches: tuple[int, ...]
    binned_s: float
    binned_rebalanced_s: float


def blame(step: PacedStep, places: Ints, factors: Floats, most: int = 32) -> tuple[Blame, ...]:
    """The slowest nodes (factor above 1, at most so many), the dearest first.

    Parameters: `step`, `places` of `paced_step` and `node_places`; `factors` (nodes,).
    """
    used = np.unique(places)
    slow = used[factors[used] > 1.0]
    slow = slow[np.argsort(-factors[slow], kind="stable")][:most]
    trials = np.repeat(factors[None, :], len(slow) + 1, axis=0)
    trials[np.arange(len(slow)), slow] = 1.0
    seconds = step_times(step, group_paces(trials, places))
    found = [
        Blame(int(node), float(factors[node]), float(cost))
        for node, cost in zip(slow, np.maximum(seconds[-1] - seconds[:-1], 0.0))
    ]
    return tuple(sorted(found, key=lambda one: (-one.cost_s, -one.factor, one.node)))


def remedies(step: PacedStep, places: Ints, factors: Floats, micro_batches: int, spares: int = 1) -> Remedies:
    """What swapping, dropping, sharing out and putting together would give.

    Parameters: as of `blame`; `micro_batches` of each replica now; `spares` nodes to swap in. A replica's time is taken
    as linear in its micro-batches, at the pace of its busiest stage (exact where that stage sets the pace).
    """
    used = np.unique(places)
    slowest = used[np.argsort(-factors[used], kind="stable")]
    swapped = slowest[:spares][factors[slowest[:spares]] > 1.0]
    mended = factors.copy()
    mended[swapped] = 1.0
    now, binned = group_paces(factors, places), _binned(places, factors, slowest)
    replicas = len(places)
    kept = np.arange(replicas) != int(np.argmax((places == slowest[0]).any(axis=(1, 2))))
    whole = step_times(step, np.stack([now, group_paces(mended, places), binned]))
    dropped = float(step_times(step, now[None, kept])[0]) * replicas / (replicas - 1) if replicas > 1 else np.inf
    rebalanced, shares = _shared_out(step, now, micro_batches)
    return Remedies(
        now_s=float(whole[0]),
        healthy_s=step.healthy_s,
        swapped_s=float(whole[1]),
        swapped=tuple(int(node) for node in swapped),
        dropped_s=dropped,
        rebalanced_s=rebalanced,
        micro_batches=shares,
        binned_s=float(whole[2]),
        binned_rebalanced_s=_shared_out(step, binned, micro_batches)[0],
    )


def _binned(places: Ints, factors: Floats, slowest: Ints) -> Floats:
    """Paces with the nodes laid out from the slowest on, replica by replica."""
    position = np.full(len(factors), -1, dtype=np.int64)
    first = places.reshape(-1)
    order = first[np.sort(np.unique(first, return_index=True)[1])]
    position[order] = slowest
    return group_paces(factors, position[places])


def _shared_out(step: PacedStep, paces: Floats, micro_batches: int) -> tuple[float, tuple[int, ...]]:
    """Step time and micro-batches of each replica (at least one) if the last to end is to end first.

    One micro-batch after the other goes to the replica that would end first with it: the least possible maximum of
    times that grow evenly.
    """
    base, growth = step.stage_s
    each = ((base + growth * (paces - 1.0)) / micro_batches).max(axis=1)
    alone = step_times(step, paces[:, None, :])
    shares = [1] * len(paces)
    queue = [
        (float(time - (micro_batches - 2) * more), replica) for replica, (time, more) in enumerate(zip(alone, each))
    ]
    heapq.heapify(queue)
    for _ in range(len(paces) * (micro_batches - 1)):
        ends, replica = queue[0]
        shares[replica] += 1
        heapq.heapreplace(queue, (ends + float(each[replica]), replica))
    used = np.asarray(shares)
    return float((alone + (used - micro_batches) * each).max()), tuple(shares)
