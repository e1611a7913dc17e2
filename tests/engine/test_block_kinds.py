"""Input and weight gradients of a block add up to its whole backward."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.block_kinds import kind_times
from simcluster.engine.step import solve_step
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, PAIR, WEIGHT
from simcluster.program.plan import block_ops, weight_gradient_ops
from simcluster.program.pricing import price
from simcluster.shapes import Gemm

CASES = {
    "tp": {"parallelism": {"tp": 4, "pp": 2, "schedule": "zb-h1"}},
    "plain": {"parallelism": {"tp": 1, "pp": 2, "schedule": "zb-h1", "sequence_parallel": None}},
    "recompute": {"parallelism": {"tp": 2, "pp": 2, "schedule": "zb-h1"}, "recompute": "full"},
}


@pytest.fixture(params=CASES)
def job(run, request):
    evaluation = run({"training": CASES[request.param]})
    return evaluation.resolved.plan, evaluation.resolved.machine


def test_the_parts_are_the_whole(job):
    plan, machine = job
    for block in ("embedding", "layer", "head"):
        whole, inputs, weights = (kind_times(plan, machine, block, kind, {}) for kind in (BACKWARD, INPUT, WEIGHT))
        for name in ("device", "host", "busy"):
            both = getattr(inputs, name) + getattr(weights, name)
            np.testing.assert_allclose(both, getattr(whole, name), rtol=1e-12, err_msg=f"{block} {name}")
        assert (inputs.hosted >= inputs.device).all()


def test_weight_gradients_are_the_gemms_that_only_the_optimizer_waits_for(job):
    """As many FLOPs as the forward's GEMMs; one kernel after the other."""
    plan, machine = job
    ops = weight_gradient_ops(plan, "layer")
    forward = [op.operator for op in block_ops(plan, "layer", backward=False) if isinstance(op.operator, Gemm)]
    gemms = [op.operator for op in ops if isinstance(op.operator, Gemm)]
    flops = [sum(float(one.m) * one.n * one.k * one.batch for one in found) for found in (forward, gemms)]
    assert flops[1] == pytest.approx(flops[0], rel=1e-12)
    assert [op.after for op in ops] == [(), *((place,) for place in range(len(ops) - 1))]
    times = kind_times(plan, machine, "layer", WEIGHT, {})
    assert times.device[0] == pytest.approx(price(ops, machine).seconds.sum(), rel=1e-12)


def test_a_store_gives_the_same(job):
    plan, machine = job
    store = {}
    first = solve_step(plan, machine, store)
    assert store
    assert solve_step(plan, machine, store).total.tolist() == first.total.tolist()


def test_an_exchange_slows_what_is_computed_beside_it(run):
    """Two passes that exchange and one that does not: only the first are slowed, by the multiprocessors held."""
    moe = {"name": "moe", "layers": 4, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32000}
    moe |= {"experts": 16, "top_k": 2, "expert_ffn": 2048}
    software = {"overrides": {"ep_overlap": True}}
    evaluation = run({"model": moe, "training": {"parallelism": {"tp": 1, "pp": 1, "ep": 8}, "software": software}})
    plan, machine = evaluation.resolved.plan, evaluation.resolved.machine
    pair = kind_times(plan, machine, "experts|experts", PAIR, {})
    forward, backward = (kind_times(plan, machine, "experts", kind, {}) for kind in (FORWARD, BACKWARD))
    computing = forward.device[1] + backward.device[1]
    moving = forward.device[0] + backward.device[0] - computing
    share = 20 / machine.kernels.device.sms
    assert pair.device[1] == pytest.approx(computing, rel=1e-12)
    assert computing < pair.device[0] <= max(computing, moving) + (1 + share) * min(computing, moving) + 1e-12
    assert pair.busy == pytest.approx(forward.busy + backward.busy, rel=1e-12)
    alone = kind_times(plan, machine, "|head", PAIR, {})
    assert alone.device.tolist() == kind_times(plan, machine, "head", BACKWARD, {}).device.tolist()
