"""What slow nodes cost: one by one, replaced one after the other, and by the stage that one lies in.

A typical node's factor is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.stragglers import Stragglers, group_paces
from simcluster.engine.paced import PacedStep, step_times

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_EXCESS = 1e-3  # a node that takes less than this longer is not told from a typical one
_GAIN = 1e-4  # share of a step that counts as a gain: less than is shown


@dataclass(frozen=True, slots=True)
class NodeCost:
    """A slow node: its number and factor, and what it costs [s].

    alone_s       by which the step is longer if all other nodes are typical
    gives_back_s  by which the step gets shorter if this node alone is replaced by a typical one; nothing where another
                  holds it up as much
    """

    node: int
    factor: float
    alone_s: float
    gives_back_s: float


@dataclass(frozen=True, slots=True)
class StageCost:
    """Step time [s] with one slow node in some stages (mostly one), all other nodes typical, and how many lie so."""

    stages: tuple[int, ...]
    nodes: int
    factor: float
    step_s: float


def node_costs(step: PacedStep, places: Ints, factors: Floats, most: int = 32) -> tuple[NodeCost, ...]:
    """The slowest nodes (at most so many), the one that costs most alone first.

    Parameters: `step`, `places` of `paced_step` and `node_places`; `factors` (nodes,). Nodes less than a thousandth
    slower than a typical one are left out.
    """
    used = np.unique(places)
    slow = used[factors[used] >= 1.0 + LEAST_EXCESS]
    slow = slow[np.argsort(-factors[slow], kind="stable")][:most]
    rows = np.arange(len(slow))
    alone, replaced = np.ones((len(slow) + 1, len(factors))), np.repeat(factors[None, :], len(slow) + 1, axis=0)
    alone[rows, slow] = factors[slow]
    replaced[rows, slow] = 1.0
    seconds = step_times(step, group_paces(np.concatenate([alone, replaced]), places)).reshape(2, -1)
    costs, gains = seconds[0] - seconds[0, -1], seconds[1, -1] - seconds[1]
    found = [
        NodeCost(int(node), float(factors[node]), float(cost), float(gain))
        for node, cost, gain in zip(slow, np.maximum(costs, 0.0), np.maximum(gains, 0.0))
    ]
    return tuple(sorted(found, key=lambda one: (-one.alone_s, -one.factor, one.node)))


def replaced_one_by_one(step: PacedStep, places: Ints, factors: Floats, nodes: Sequence[int]) -> tuple[float, ...]:
    """Step times [s] with the first 1, 2, 3 … of these nodes typical, up to the last that shortens the step.

    At least one, if there is a node.
    """
    trials = np.repeat(factors[None, :], len(nodes) + 1, axis=0)
    for count, node in enumerate(nodes, 1):
        trials[count:, node] = np.minimum(trials[count:, node], 1.0)
    seconds = step_times(step, group_paces(trials, places))
    count = int(np.argmax(seconds <= seconds[-1] + _GAIN * step.healthy_s))  # the first that gains all there is
    return tuple(seconds[1 : max(1, count) + 1].tolist())


def stage_costs(step: PacedStep, places: Ints, slow: Sequence[float]) -> tuple[StageCost, ...]:
    """Step times with one node of each of these factors, by the stages that it has ranks of."""
    if not len(slow):
        return ()
    kinds = sorted(_kinds(places).items(), key=lambda kind: kind[1][0])
    factors = np.ones((len(slow) * len(kinds), int(places.max()) + 1))
    factors[np.arange(len(factors)), [nodes[0] for _ in slow for _, nodes in kinds]] = np.repeat(slow, len(kinds))
    seconds = iter(step_times(step, group_paces(factors, places)).tolist())
    return tuple(
        StageCost(tuple(sorted(set().union(*kind))), len(nodes), factor, next(seconds))
        for factor in slow
        for kind, nodes in kinds
    )


def one_anywhere(step: PacedStep, places: Ints, nodes: int, factor: float) -> Stragglers:
    """Steps with one slow node, once in each place that it can have among `nodes`; exact."""
    costs = stage_costs(step, places, (factor,))
    seconds = np.repeat([cost.step_s for cost in costs], [cost.nodes for cost in costs])
    unused = np.full(max(0, nodes - len(seconds)), step.healthy_s)
    return Stragglers(step.healthy_s, np.append(seconds, unused))


def gains(step_s: float, now_s: float) -> bool:
    """Whether a step is shorter by more than is shown.

    >>> gains(9.9, 10.0), gains(9.9999, 10.0)
    (True, False)
    """
    return step_s < now_s * (1.0 - _GAIN)


def _kinds(places: Ints) -> dict[frozenset[frozenset[int]], list[int]]:
    """Nodes by the stages that they hold up in each replica: those of one kind cost the same."""
    held: dict[int, dict[int, set[int]]] = {}
    for (replica, stage, _), node in np.ndenumerate(places):
        held.setdefault(int(node), {}).setdefault(replica, set()).add(stage)
    kinds: dict[frozenset[frozenset[int]], list[int]] = {}
    for node, stages in held.items():
        kinds.setdefault(frozenset(map(frozenset, stages.values())), []).append(node)
    return kinds
