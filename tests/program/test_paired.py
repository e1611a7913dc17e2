"""A forward beside a backward: order of blocks and of operations."""

import numpy as np
import pytest

from simcluster.engine.block import solve_block
from simcluster.program.block import COMPUTE, EXCHANGE, BlockOp
from simcluster.program.paired import pair_names, paired_block
from simcluster.program.pricing import EXPERT_CONTEXT, GEMM, PricedOps
from simcluster.shapes import Streaming, Transfer


def kernel(name, *after):
    return BlockOp(Streaming(name, 1.0, 1), COMPUTE, after)


def travel(name, *after, recompute=False):
    return BlockOp(Transfer(name, "alltoall", 1.0, "ep"), EXCHANGE, after, recompute=recompute)


def one_pass(name):
    """Computing, exchange, computing, exchange, computing; each waits for the one before."""
    kinds = (kernel, travel, kernel, travel, kernel)
    return [kind(f"{name}{place}", *((place - 1,) if place else ())) for place, kind in enumerate(kinds)]


def priced_as(ops, seconds):
    none = np.zeros(len(ops))
    kinds = np.array([EXPERT_CONTEXT if op.stream == EXCHANGE else GEMM for op in ops])
    return PricedOps(np.asarray(seconds, dtype=float), none, none.astype(np.int64), none, kinds)


def test_phases_of_a_pair():
    pair = paired_block(one_pass("f"), one_pass("b"))
    names = [op.operator.name for op in pair.ops]
    assert names == ["b0", "b1", "f0", "f1", "b2", "b3", "f2", "f3", "b4", "f4"]
    assert pair.phase == (-1, 0, 0, 1, 1, 2, 2, 3, 3, 4)
    assert [name for name, moves in zip(names, pair.moves) if moves] == ["b1", "f1", "b3", "f3"]
    for op in pair.ops:  # what an operation waited for alone it waits for here
        own = op.operator.name
        assert [names[index] for index in op.after] == ([f"{own[0]}{int(own[1]) - 1}"] if own[1] != "0" else [])


@pytest.mark.parametrize(
    ("forward", "backward"),
    [((3, 2, 4, 5, 0), (0, 1, 6, 7, 8)), ((1, 9, 1, 9, 1), (2, 9, 2, 9, 2)), ((5, 0, 5, 0, 1), (0, 0, 5, 0, 5))],
)
def test_each_phase_takes_the_longer_of_its_two_sides(forward, backward):
    (f0, f1, f2, f3, f4), (b0, b1, b2, b3, b4) = forward, backward
    pair = paired_block(one_pass("f"), one_pass("b"))
    seconds = {f"f{i}": s for i, s in enumerate(forward)} | {f"b{i}": s for i, s in enumerate(backward)}
    times = solve_block(pair.ops, priced_as(pair.ops, [seconds[op.operator.name] for op in pair.ops]))
    by_hand = b0 + max(f0, b1) + max(b2, f1) + max(f2, b3) + max(b4, f3) + f4
    assert times.device[0] == pytest.approx(by_hand)


def test_what_is_computed_again_travels_within_its_part():
    back = [travel("again", recompute=True), *(op for op in one_pass("b"))]
    shifted = [back[0]] + [BlockOp(op.operator, op.stream, tuple(i + 1 for i in op.after)) for op in back[1:]]
    pair = paired_block(one_pass("f"), shifted)
    assert [op.operator.name for op in pair.ops][:3] == ["again", "b0", "b1"]
    assert pair.moves[0] is False


def test_blocks_without_exchanges_run_alone_in_their_order():
    moe = frozenset({"moe"})
    assert pair_names(("a", "moe", "moe"), ("h", "moe", "d"), moe) == ("a|", "|h", "moe|moe", "|d", "moe|")
    assert pair_names(("a",), ("h",), moe) == ("a|", "|h")
