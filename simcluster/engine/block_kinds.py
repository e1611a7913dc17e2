"""Times of a plan's blocks by kind of operation: forward, backward, and its two parts where a schedule splits it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import BlockTimes, solve_block
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, PAIR, WEIGHT
from simcluster.program.paired import BESIDE, PairedBlock, paired_block
from simcluster.program.plan import StepPlan, block_names, block_ops, paired_names, weight_gradient_ops
from simcluster.program.pricing import CLASSES, Machine, PricedOps, price
from simcluster.program.step import StepProgram

Floats = NDArray[np.float64]

_AS_PRICED = np.ones(len(CLASSES))
_EXCHANGE_SMS = 20.0  # of exchanges beside computing, DeepSeek-V3 report (2024), 3.2.2; others take 8 to 32

BlockStore = dict[tuple[object, ...], BlockTimes]  # by all that a plan tells about a block


def step_blocks(
    plan: StepPlan, machine: Machine, program: StepProgram, store: BlockStore, pace: Floats = _AS_PRICED
) -> dict[tuple[int, str], BlockTimes]:
    """Times of all blocks of a step by kind of operation and name; arguments as for `kind_times`."""
    names = {name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)}
    needed = [(kind, name) for kind in range(program.kinds) for name in sorted(names)]
    if program.shape.paired:
        virtual = [plan.contents[part % plan.mesh.pp][part // plan.mesh.pp] for part in range(program.parts)]
        pairs = {(virtual[part], virtual[mate]) for part, mate in program.pairs()}
        needed += [(PAIR, name) for name in sorted({name for one in pairs for name in paired_names(plan, *one)})]
    return {(kind, name): kind_times(plan, machine, name, kind, store, pace) for kind, name in needed}


def kind_times(
    plan: StepPlan, machine: Machine, block: str, kind: int, store: BlockStore, pace: Floats = _AS_PRICED
) -> BlockTimes:
    """Times of one block, from the store if they are there.

    pace   (CLASSES,) factor on the time of operations, by what a second of theirs is spent on; one for each store
    """
    again = None if kind == FORWARD else plan.recompute
    job = (plan.arch, plan.batch, plan.layer, plan.exchange, plan.padded_vocab, plan.widening)
    key = (block, kind, again, *job)
    if key not in store:
        if kind == PAIR:
            store[key] = _beside(plan, machine, block, store, pace)
        elif kind == INPUT:
            whole, weights = (kind_times(plan, machine, block, one, store, pace) for one in (BACKWARD, WEIGHT))
            store[key] = _without(whole, weights)
        else:
            ops = weight_gradient_ops(plan, block) if kind == WEIGHT else block_ops(plan, block, kind == BACKWARD)
            priced = price(ops, machine)
            store[key] = solve_block(ops, replace(priced, seconds=priced.seconds * pace[priced.kind]))
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


def _beside(plan: StepPlan, machine: Machine, pair: str, store: BlockStore, pace: Floats) -> BlockTimes:
    """A forward beside a backward; exchanges hold multiprocessors, which slows what is computed meanwhile."""
    forward, backward = pair.split(BESIDE)
    if not (forward and backward):
        return kind_times(plan, machine, forward or backward, FORWARD if forward else BACKWARD, store, pace)
    block = paired_block(block_ops(plan, forward, False), block_ops(plan, backward, True))
    priced = price(block.ops, machine)
    priced = replace(priced, seconds=priced.seconds * pace[priced.kind])
    free = solve_block(block.ops, priced)
    held = solve_block(block.ops, _held(block, priced, min(1.0, _EXCHANGE_SMS / machine.kernels.device.sms)))
    device = np.concatenate([held.device[:1], free.device[1:]])
    return replace(free, device=device, hosted=np.concatenate([held.hosted[:1], free.hosted[1:]]))


def _held(block: PairedBlock, priced: PricedOps, sm_share: float) -> PricedOps:
    """Computing takes longer while the exchange of its phase holds a share of the multiprocessors."""
    phases, moves, seconds = np.array(block.phase), np.array(block.moves), priced.seconds.copy()
    for phase in range(4):
        computes = (phases == phase) & ~moves
        computing_s, moving_s = (float(seconds[(phases == phase) & which].sum()) for which in (~moves, moves))
        if computing_s > 0:
            seconds[computes] *= 1.0 + sm_share * min(moving_s, computing_s) / computing_s
    return replace(priced, seconds=seconds)
