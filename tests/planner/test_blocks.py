"""Blocks of many layouts at once are those that the engine solves one by one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine.block import solve_block
from simcluster.planner.blocks import BlockTable, Cut, cut_plan
from simcluster.program.plan import block_names, block_ops
from simcluster.program.pricing import Machine, price
from simcluster.shapes import Estimate

LATENT = {
    "layers": 9, "hidden": 2048, "heads": 16, "head_dim": 192, "ffn": 8192, "vocab": 64000, "experts": 16, "top_k": 4,
    "expert_ffn": 1024, "shared_ffn": 1024, "dense_layers": 1, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64,
    "value_dim": 128, "mtp_depth": 1,
}  # fmt: skip
WINDOWS = {
    "layers": 12, "hidden": 2048, "heads": 16, "kv_heads": 4, "ffn": 8192, "vocab": 64000, "window": 1024,
    "full_every": 6, "tied_embeddings": True,
}  # fmt: skip
LONG = {"sequence_length": 32768, "global_batch": 32}
NO_OVERLAP = {"tp_overlap": False, "tp_bulk_overlap": False}
CASES = [
    ("dense", "megatron-core", {}),
    ("dense", "megatron-lm-2021", {"precision": "fp16", **LONG}),
    ("dense", "generic", {"precision": "tf32", "recompute": {"modules": ["every-other-matmul"]}}),
    ("experts", "generic", {**LONG, "expert_imbalance": 1.5}),
    ("experts", "deepspeed", {"recompute": {"modules": ["layernorm", "moe_act"]}}),
    (LATENT, "megatron-core", {}),
    (WINDOWS, "fsdp2", LONG),
]


def table_of(every):
    one = every.candidates
    return BlockTable(every.job, every.resolved(0).machine, one.points, one.recompute)


def solved(resolved, block, backward):
    """Device, hosted and host seconds of a block in the engine's first column."""
    ops = block_ops(resolved.plan, block, backward)
    times = solve_block(ops, price(ops, resolved.machine))
    return [times.device[0], times.hosted[0], times.host[0]]


@pytest.mark.parametrize(("model", "family", "more"), CASES)
def test_every_block_takes_as_long_as_in_the_engine(whole, open_layout, models, model, family, more):
    loaded = open_layout(models[model] if isinstance(model, str) else model, nodes=3, family=family, **more)
    every = whole(loaded).some(7, 12)
    table = table_of(every)
    for backward in (False, True):
        for block in table.blocks():
            found = table.times(backward, block)
            for row in range(len(every.candidates)):
                own = [found.device[row], found.hosted[row], found.host[row]]
                assert own == pytest.approx(solved(every.resolved(row), block, backward), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize(("model", "family", "more"), CASES)
def test_the_blocks_are_those_that_the_stages_hold(whole, open_layout, models, model, family, more):
    every = whole(open_layout(models[model] if isinstance(model, str) else model, family=family, **more)).some(2, 5)
    table = table_of(every)
    names = table.blocks()
    assert len(names) == len(set(names))
    for row in range(len(every.candidates)):
        plan = every.resolved(row).plan
        assert {name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)} == set(names)


def test_a_block_waits_for_its_device_and_its_host(whole, open_layout, models):
    every = whole(open_layout(models["dense"])).some(4, 40)
    table = table_of(every)
    for backward in (False, True):
        for block in table.blocks():
            found = table.times(backward, block)
            assert (found.hosted >= found.device).all()
            assert (found.hosted >= found.host).all()
            assert (found.device > 0).all()


def test_what_runs_again_lengthens_the_backward_of_layers_alone(whole, open_layout, models):
    every = whole(open_layout(models["dense"]))
    points = every.space.points
    none, full = (
        BlockTable(every.job, every.resolved(0).machine, points, np.full(len(points), every.job.recomputes.index(mode)))
        for mode in ("none", "full")
    )
    for block in none.blocks():
        assert (none.times(False, block).device == full.times(False, block).device).all()
        more = full.times(True, block).device - none.times(True, block).device
        if block in ("embedding", "head"):
            assert not more.any()
        else:
            assert more == pytest.approx(none.times(False, block).device, rel=0.35)
            assert (more > 0).all()


def test_layouts_are_independent_of_those_beside_them(whole, open_layout, models):
    """A table of all rows, and of each row alone."""
    every = whole(open_layout(models["experts"])).some(9, 6)
    one, machine = every.candidates, every.resolved(0).machine
    table = table_of(every)
    for row in range(len(one)):
        alone = BlockTable(every.job, machine, one.points.take([row]), one.recompute[[row]])
        assert len(alone.cuts) == 1
        for block in table.blocks():
            both = table.times(True, block), alone.times(True, block)
            assert both[1].device[0] == pytest.approx(both[0].device[row], rel=1e-12)


class Counted(Machine):
    """A machine that charges a second for each byte, and takes note of what it was asked."""

    def transfer(self, kind, size, group):
        seconds = np.asarray(size, dtype=float)
        return Estimate(seconds, 0, 0.0 * seconds, "bandwidth")


def test_exchanges_inside_a_layer_are_counted_in_bytes(whole, open_layout, models):
    """With tensor and sequence parallelism a forward gathers and scatters the activation twice: 4 x 2 b s h bytes.

    A second a byte leaves kernels out of account; without overlap every exchange is waited for.
    """
    every = whole(open_layout(models["dense"], software={"family": "generic", "overrides": NO_OVERLAP}))
    machine = every.resolved(0).machine
    slow = Counted(**{name: getattr(machine, name) for name in machine.__dataclass_fields__})
    points = every.space.points
    assert set(points.micro_batch.tolist()) >= {1, 2}
    table = BlockTable(every.job, slow, points, np.zeros(len(points), np.int64))
    whole_bytes = 2.0 * points.micro_batch * 2048 * 2048
    split = (points.tp > 1) & (points.sequence_parallel == 1)
    assert split.any()
    found = table.times(False, "layer").device
    assert found[split] == pytest.approx(4 * whole_bytes[split], rel=1e-6)
    assert (found[points.tp == 1] < 1).all()


# --- the plan of a cut ------------------------------------------------------------------------------------------------


def test_a_cut_is_the_resolver_s_plan_without_a_pipeline(whole, open_layout, models):
    """Micro-batches as an array; parameters of a block do not depend on stages, and messages are not in it."""
    every = whole(open_layout(models["experts"])).some(3, 12)
    for row in range(len(every.candidates)):
        resolved, point = every.resolved(row), every.candidates.points.take(row)
        degrees = [int(getattr(point, name)) for name in ("tp", "cp", "ep", "etp")]
        sizes = np.array([1, 2, 4])
        plan = cut_plan(every.job, Cut(*degrees, sequence_parallel=bool(point.sequence_parallel)), sizes)
        own = resolved.plan
        assert plan.mesh.pp == 1
        assert plan.mesh.tp * plan.mesh.cp * plan.mesh.dp == every.job.world
        assert plan.block_parameters == pytest.approx(own.block_parameters)
        assert plan.expert_parameters == pytest.approx(own.expert_parameters)
        assert (plan.layer, plan.padded_vocab) == (own.layer, own.padded_vocab)
        assert plan.exchange.bytes / sizes == pytest.approx(own.exchange.bytes / resolved.layout.micro_batch)
        assert replace(plan.exchange, bytes=0.0) == replace(own.exchange, bytes=0.0)
        assert plan.batch.tokens == pytest.approx(sizes * every.job.sequence / point.cp)
