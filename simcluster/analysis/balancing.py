"""Layers of a plan split anew over its stages, so that the longest takes as little time as it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS
from simcluster.engine.block_kinds import BlockStore, kind_times
from simcluster.parallel.balance import balanced_split
from simcluster.parallel.schedules.order import BACKWARD, FORWARD
from simcluster.parallel.stages import ChunkContents, both_ways, stage_contents
from simcluster.program.plan import StepPlan, block_names
from simcluster.program.pricing import Machine

Floats = NDArray[np.float64]

_COMPUTING = COLUMNS.index("no_tensor")  # column of a block's times without exchanges


def can_balance(plan: StepPlan) -> bool:
    """Whether layers can move: several stages, embedding on the first and head on the last, a block for each."""
    first, last = plan.contents[0][0], plan.contents[0 if _two_way(plan) else -1][-1]
    return plan.mesh.pp > 1 and first.embedding and last.head and _parts(plan) <= plan.arch.layers + 2


def balanced_layers(plan: StepPlan, machine: Machine, paces: Sequence[float] = ()) -> tuple[int, ...]:
    """Layers of each virtual stage, in model order, for a plan that `can_balance`, or has one stage.

    paces   (stages,) time that the nodes of each stage take over that of typical ones; computing grows with it

    Embedding and head stay on the first and the last. Times are those of forward and backward on the device; where
    micro-batches enter at both ends a device holds a stage and its mirror image, which are not weighed together.
    """
    store: BlockStore = {}
    names = block_names(plan, ChunkContents(plan.arch.layers, embedding=True, head=True))
    both: dict[str, Floats] = {}
    for name in dict.fromkeys(names):
        forward, backward = (kind_times(plan, machine, name, kind, store).device for kind in (FORWARD, BACKWARD))
        both[name] = forward + backward
    seconds = [float(both[name][0]) for name in names]
    computing = sum(float(both[name][[0, _COMPUTING]].min()) for name in names)
    share, layers = computing / sum(seconds), plan.arch.layers
    grown = [1.0 + share * (pace - 1.0) for pace in _of_parts(plan, paces)]
    return balanced_split(seconds[1 : layers + 1], _parts(plan), seconds[0], sum(seconds[layers + 1 :]), grown)


def with_layers(plan: StepPlan, sizes: Sequence[int]) -> StepPlan:
    """The plan with so many layers on each virtual stage, in model order."""
    held = stage_contents(plan.arch.layers, plan.mesh.pp, _parts(plan) // plan.mesh.pp, sizes)
    return replace(plan, contents=both_ways(held) if _two_way(plan) else held)


def layers_of(plan: StepPlan) -> tuple[int, ...]:
    """Layers of each virtual stage as they are, in model order."""
    chunks = _parts(plan) // plan.mesh.pp
    return tuple(stage[chunk].layers for chunk in range(chunks) for stage in plan.contents)


def _two_way(plan: StepPlan) -> bool:
    return plan.pipeline.schedule == "dualpipe"


def _parts(plan: StepPlan) -> int:
    return plan.mesh.pp * (1 if _two_way(plan) else len(plan.contents[0]))


def _of_parts(plan: StepPlan, paces: Sequence[float]) -> list[float]:
    """Pace of each virtual stage; of two devices that hold one, the slower's."""
    if not len(paces):
        return [1.0] * _parts(plan)
    if _two_way(plan):
        return [max(pair) for pair in zip(paces, reversed(paces))]
    return [*paces] * (_parts(plan) // plan.mesh.pp)
