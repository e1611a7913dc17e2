"""What could be done about slow nodes, for nodes whose factors are known; a typical node's is 1."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.balancing import balanced_layers, can_balance, with_layers
from simcluster.analysis.stragglers import group_paces
from simcluster.engine.paced import PacedStep, paced_step, step_times
from simcluster.engine.step import solve_step
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Remedies:
    """Step times [s] as things are and after each remedy, for the same number of sequences; None where it has no sense.

    now_s               with all nodes as they are
    dropped_s           the replicas of the worst node left out, the others doing its work; None if there are no others
    rebalanced_s        micro-batches shared out by pace over the replicas, if there are several
    micro_batches       of each replica then; else empty
    binned_s            slow nodes put together in as few replicas as hold them, if several of both
    binned_rebalanced_s both
    """

    now_s: float
    dropped_s: float | None = None
    rebalanced_s: float | None = None
    micro_batches: tuple[int, ...] = ()
    binned_s: float | None = None
    binned_rebalanced_s: float | None = None


def remedies(
    step: PacedStep, places: Ints, factors: Floats, micro_batches: int, slow: Sequence[int], unit: int = 1
) -> Remedies:
    """What dropping, sharing out and putting together would give.

    Parameters: `step`, `places` of `paced_step` and `node_places`; `factors` (nodes,); `micro_batches` of each replica
    now; `slow` nodes, the worst first; `unit` of micro-batches that a replica can have (interleaved: as many as there
    are stages). A replica's time is taken as linear in its micro-batches, at the pace of its busiest stage (exact where
    that stage sets the pace).
    """
    now = group_paces(factors, places)
    now_s = float(step_times(step, now[None])[0])
    if len(places) < 2 or not slow:
        return Remedies(now_s)
    shares_out, several = micro_batches > unit, len(slow) > 1
    rebalanced, shares = _shared_out(step, now, micro_batches, unit) if shares_out else (None, ())
    binned = _binned(places, factors)
    return Remedies(
        now_s=now_s,
        dropped_s=_dropped(step, places, now, slow[0], micro_batches, unit),
        rebalanced_s=rebalanced,
        micro_batches=shares,
        binned_s=float(step_times(step, binned[None])[0]) if several else None,
        binned_rebalanced_s=_shared_out(step, binned, micro_batches, unit)[0] if several and shares_out else None,
    )


def layers_by_speed(plan: StepPlan, machine: Machine, paces: Floats) -> tuple[StepPlan, float] | None:
    """The plan with its layers split over stages by speed, and its step time [s], simulated; None if they cannot move.

    paces   (replicas, stages) as of `group_paces`; all replicas have the same layers, so a stage's slowest node counts
    """
    if not can_balance(plan):
        return None
    moved = with_layers(plan, balanced_layers(plan, machine, paces.max(axis=0).tolist()))
    step = paced_step(moved, machine, solve_step(moved, machine))
    return moved, float(step_times(step, paces[None])[0])


def _dropped(step: PacedStep, places: Ints, paces: Floats, node: int, micro_batches: int, unit: int) -> float | None:
    """Step time without the replicas that have ranks on a node; None if no other is left.

    Their micro-batches go to the others; some get one unit more than others where they do not divide.
    """
    kept = ~(places == node).any(axis=(1, 2))
    if not kept.any():
        return None
    units = -(-len(kept) * micro_batches // (int(kept.sum()) * unit))
    alone = step_times(step, paces[kept][:, None, :])
    return float((alone + (units * unit - micro_batches) * _each_s(step, paces[kept], micro_batches)).max())


def _each_s(step: PacedStep, paces: Floats, micro_batches: int) -> Floats:
    """(replicas,) by which one micro-batch more makes a step longer [s]: its time on the busiest stage."""
    base, growth = step.stage_s
    found: Floats = ((base + growth * (paces - 1.0)) / micro_batches).max(axis=1)
    return found


def _binned(places: Ints, factors: Floats) -> Floats:
    """Paces with the nodes laid out from the slowest on, replica by replica."""
    used = np.unique(places)
    position = np.full(len(factors), -1, dtype=np.int64)
    first = places.reshape(-1)
    position[first[np.sort(np.unique(first, return_index=True)[1])]] = used[np.argsort(-factors[used], kind="stable")]
    return group_paces(factors, position[places])


def _shared_out(step: PacedStep, paces: Floats, micro_batches: int, unit: int) -> tuple[float, tuple[int, ...]]:
    """Step time and micro-batches of each replica (at least a unit) if the last to end is to end first.

    One unit after the other goes to the replica that would end first with it: the least possible maximum of times that
    grow evenly.
    """
    each = _each_s(step, paces, micro_batches)
    alone = step_times(step, paces[:, None, :])
    shares = [unit] * len(paces)
    queue = [
        (float(time - (micro_batches - 2 * unit) * more), replica)
        for replica, (time, more) in enumerate(zip(alone, each))
    ]
    heapq.heapify(queue)
    for _ in range(len(paces) * (micro_batches // unit - 1)):
        ends, replica = queue[0]
        shares[replica] += unit
        heapq.heapreplace(queue, (ends + unit * float(each[replica]), replica))
    used = np.asarray(shares)
    return float((alone + (used - micro_batches) * each).max()), tuple(shares)
