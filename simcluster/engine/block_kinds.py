"""Times of a plan's blocks by kind of operation: forward, backward, and its two parts where a schedule splits it."""

from __future__ import annotations

import numpy as np

from simcluster.engine.block import BlockTimes, solve_block
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT
from simcluster.program.plan import StepPlan, block_ops, weight_gradient_ops
from simcluster.program.pricing import Machine, price

BlockStore = dict[tuple[object, ...], BlockTimes]  # by all that a plan tells about a block


def kind_times(plan: StepPlan, machine: Machine, block: str, kind: int, store: BlockStore) -> BlockTimes:
    """Times of one block, from the store if they are there."""
    again = None if kind == FORWARD else plan.recompute
    job = (plan.arch, plan.batch, plan.layer, plan.exchange, plan.padded_vocab, plan.widening)
    key = (block, kind, again, *job)
    if key not in store:
        if kind == INPUT:
            whole, weights = (kind_times(plan, machine, block, one, store) for one in (BACKWARD, WEIGHT))
            store[key] = _without(whole, weights)
        else:
            ops = weight_gradient_ops(plan, block) if kind == WEIGHT else block_ops(plan, block, kind == BACKWARD)
            store[key] = solve_block(ops, price(ops, machine))
    return store[key]


def _without(whole: BlockTimes, part: BlockTimes) -> BlockTimes:
    """The rest of a block; with the part it adds up to the whole.

    An exchange that the weight gradients hide in the whole backward stays hidden: those of another micro-batch run
    beside it then.
    """
    device = np.maximum(whole.device - part.device, 0.0)
    return BlockTimes(
        device=device,
        hosted=np.maximum(whole.hosted - part.hosted, device),
        host=np.maximum(whole.host - part.host, 0.0),
        busy=np.maximum(whole.busy - part.busy, 0.0),
        evidence=whole.evidence,
    )
