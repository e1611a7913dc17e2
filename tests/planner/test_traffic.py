"""Least times of data-parallel exchanges: by hand in bytes, and against the engine that moves them one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from simcluster.engine.step import solve_step
from simcluster.parallel.mesh import group_shape
from simcluster.planner.blocks import BlockTable
from simcluster.planner.traffic import Traffic
from simcluster.program.plan import block_names
from simcluster.program.pricing import Machine
from simcluster.shapes import Estimate

HIDDEN, FFN, VOCAB, LAYERS = 2048, 5632, 32000, 16
LAYER = 3 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN + 2 * HIDDEN  # q and o, keys and values of half the heads, MLP, norms
WHOLE = Counter({"embedding": 1, "layer": LAYERS, "head": 1})
CASES = [
    ("dense", "megatron-core", {}),
    ("dense", "fsdp2", {}),
    ("dense", "deepspeed", {}),
    ("dense", "pytorch-ddp", {}),
    ("dense", "generic", {"sequence_length": 65536, "global_batch": 16}),
    ("dense", "generic", {"sharding": {"strategy": "zero-1", "group": 4}}),
    ("dense", "internevo", {}),
    ("experts", "megatron-core", {}),
    ("experts", "megatron-deepspeed", {"precision": "fp16"}),
    ("experts", "generic", {"sharding": {"strategy": "hsdp", "group": "node"}}),
]


class Toll(Machine):
    """A second for each byte that a rank of a ring sends (receives, in a broadcast); the norm's four bytes are free."""

    def transfer(self, kind, size, group):
        passes = 1.0 if kind == "broadcast" else (1 - 1 / group.ranks) * (2 if kind == "all_reduce" else 1)
        seconds = passes * np.where(np.asarray(size, dtype=float) <= 4.0, 0.0, size)
        return Estimate(seconds if np.shape(size) else float(seconds), 0, 0.0 * seconds, "bandwidth")


def on(network, machine):
    return network(**{name: getattr(machine, name) for name in machine.__dataclass_fields__})


@pytest.fixture
def traffic(whole, open_layout, models):
    """`traffic(model, network, …)` gives layouts of a scenario, some of them, and the prices of their exchanges."""

    def of(model, network=Machine, *, seed=11, count=12, **stated):
        every = whole(open_layout(models[model] if isinstance(model, str) else model, **stated))
        if count:
            every = every.some(seed, count)
        one, machine = every.candidates, on(network, every.resolved(0).machine)
        table = BlockTable(every.job, machine, one.points, one.recompute)
        return every, Traffic(every.job, machine, one.points, one.strategy, table)

    return of


def first_stage(every, row):
    """Blocks of the first stage of a layout."""
    plan = every.resolved(row).plan
    return Counter(name for chunk in plan.contents[0] for name in block_names(plan, chunk))


# --- parameters -------------------------------------------------------------------------------------------------------


def test_parameters_of_a_rank_are_those_of_the_model_over_its_cuts(traffic):
    """Weights are cut by tp, norms are not (nor is anything by cp or dp); the vocabulary is padded to 128 tp."""
    every, found = traffic("dense", count=0)
    points = every.candidates.points
    rows = np.arange(len(points))
    dense, experts = found.parameters(rows, WHOLE)
    padded = np.ceil(VOCAB / (128 * points.tp)) * 128 * points.tp
    weights = LAYERS * (LAYER - 2 * HIDDEN) + 2 * padded * HIDDEN
    assert dense == pytest.approx(weights / points.tp + (2 * LAYERS + 1) * HIDDEN, rel=1e-9)
    assert not experts.any()


def test_experts_are_counted_apart(traffic):
    """Eight experts of three matrices each, over ep, each cut by etp."""
    every, found = traffic("experts", count=0)
    points = every.candidates.points
    dense, experts = found.parameters(np.arange(len(points)), Counter({"experts": LAYERS}))
    each = 3 * HIDDEN * 2816
    assert experts == pytest.approx(LAYERS * 8 / points.ep * each / points.etp, rel=1e-9)
    router = HIDDEN * 8
    rest = (3 * HIDDEN * HIDDEN) / points.tp + router + 2 * HIDDEN
    assert dense == pytest.approx(LAYERS * rest, rel=1e-9)


# --- against the engine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "family", "more"), CASES)
def test_all_bytes_of_the_buckets_are_those_that_the_engine_moves(traffic, model, family, more):
    """On a network without latency a sum of transfers takes as long as one of all bytes."""
    every, found = traffic(model, Toll, nodes=3, fabric="roce-200", family=family, **more)
    moved = 0
    for row in range(len(every.candidates)):
        reduce, gather = found.buckets(np.array([row]), first_stage(every, row))
        resolved = every.resolved(row)
        times = solve_step(resolved.plan, on(Toll, resolved.machine))
        assert reduce[0] == pytest.approx(times.reduce_s[0], rel=1e-9, abs=1e-9)
        assert gather[0] == pytest.approx(times.gather_s[0], rel=1e-9, abs=1e-9)
        moved += reduce[0] > 0
    assert moved


@pytest.mark.parametrize(("model", "family", "more"), CASES)
def test_one_transfer_is_no_slower_than_the_buckets_and_the_tail_is_exact(traffic, model, family, more):
    """The tail is the norm over all ranks, and the optimizer of the first stage."""
    every, found = traffic(model, nodes=3, fabric="roce-200", family=family, **more)
    network = found.machine.network
    world = group_shape(24, 1, 24, network.domain_gpus, network.gpus_per_node)
    norm = float(found.machine.transfer("all_reduce", 4.0, world).seconds)
    assert norm > 0
    for row in range(len(every.candidates)):
        held, resolved = first_stage(every, row), every.resolved(row)
        times = solve_step(resolved.plan, resolved.machine, every.store)
        reduce, gather = found.buckets(np.array([row]), held)
        assert reduce[0] <= times.reduce_s[0] * (1 + 1e-9)
        assert gather[0] <= times.gather_s[0] * (1 + 1e-9)
        (tail,) = found.tail(np.array([row]), held)
        assert tail - norm == pytest.approx(times.optimizer[0], rel=1e-9)


def test_rows_are_priced_alike_together_and_alone(traffic):
    every, found = traffic("experts", family="generic", nodes=3)
    rows = np.arange(len(every.candidates))
    held = Counter({"embedding": 1, "experts": LAYERS, "head": 1})
    for price in (found.buckets, found.units, lambda rows, held: (found.tail(rows, held),)):
        together = price(rows, held)
        for row in rows:
            alone = price(np.array([row]), held)
            assert [one[0] for one in alone] == pytest.approx([one[row] for one in together], rel=1e-12)


# --- by hand ----------------------------------------------------------------------------------------------------------


def replicated(traffic, strategy, group="all", pp=1, **more):
    """Sixteen GPUs without tensor parallelism, gradients of 4 bytes and parameters of 2.

    Gives a row, its prices, parameters of the whole model and of its embedding.
    """
    software = {"family": "generic", "overrides": {"gradient_dtype": "fp32", **more}}
    sharding = {"strategy": strategy, "group": group}
    every, found = traffic("dense", Toll, count=0, software=software, sharding=sharding)
    points = every.candidates.points
    row = np.flatnonzero((points.dp == 16 // pp) & (points.pp == pp) & (points.micro_batch == 1))[:1]
    assert row.size
    vocabulary = VOCAB * HIDDEN
    return row, found, LAYERS * LAYER + 2 * vocabulary + HIDDEN, vocabulary


@pytest.mark.parametrize(
    ("strategy", "group", "passes", "gathered"),
    [("none", "all", 2, 0), ("zero-1", "all", 1, 15 / 16), ("zero-1", 4, 2, 3 / 4), ("zero-3", 1, 2, 0)],
)
def test_plain_replicas_and_sharded_states(traffic, strategy, group, passes, gathered):
    """An all-reduce is two passes of a ring; where all share the states, one, and one to get the parameters back.

    Rajbhandari et al. 2020; in sets of four every rank sums whole gradients, and shards of one rank are none.
    """
    row, found, parameters, _ = replicated(traffic, strategy, group)
    reduce, gather = found.buckets(row, WHOLE)
    assert reduce[0] == pytest.approx(passes * 15 / 16 * 4 * parameters)
    assert gather[0] == pytest.approx(gathered * 2 * parameters)
    assert [one[0] for one in found.units(row, WHOLE)] == [0, 0, 0]


def test_sharded_gradients_move_inside_chunks_and_parameters_once_a_step(traffic):
    row, found, parameters, vocabulary = replicated(traffic, "zero-2", reduce_every_micro_batch=True)
    reduce, gather = found.buckets(row, WHOLE)
    assert (reduce[0], gather[0]) == (0, pytest.approx(15 / 16 * 2 * parameters))
    wire, first, last = found.units(row, WHOLE)
    assert wire[0] == pytest.approx(15 / 16 * 4 * parameters)
    assert (first[0], last[0]) == (0, pytest.approx(15 / 16 * 4 * vocabulary))


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize("reshard", [True, False])
@pytest.mark.parametrize("strategy", ["zero-3", "fsdp"])
def test_sharded_parameters_are_gathered_for_each_pass(traffic, strategy, reshard, each):
    """A micro-batch gathers once, twice where it lets go of them in between, and reduces once or leaves that."""
    flags = {"reshard_after_forward": reshard, "reduce_every_micro_batch": each}
    row, found, parameters, vocabulary = replicated(traffic, strategy, **flags)
    assert [one[0] for one in found.buckets(row, WHOLE)] == [0, 0]
    wire, first, last = found.units(row, WHOLE)
    assert wire[0] == pytest.approx(15 / 16 * parameters * (2 * (2 if reshard else 1) + 4 * each))
    assert (first[0], last[0]) == pytest.approx((15 / 16 * 2 * vocabulary, 15 / 16 * 4 * vocabulary))


def test_shards_of_a_node_move_inside_it(traffic):
    """Hybrid: 7/8 of two gathers and a reduction; the sum over nodes goes its own way."""
    row, found, parameters, _ = replicated(traffic, "hsdp", "node", reduce_every_micro_batch=True)
    assert found.units(row, WHOLE)[0][0] == pytest.approx(7 / 8 * parameters * (2 + 2 + 4))


@pytest.mark.parametrize("with_pipeline", [True, False])
def test_a_pipeline_may_keep_what_it_gathered(traffic, with_pipeline):
    """Then nothing moves for each micro-batch; the first gather and the last reduction stay."""
    flags = {"reshard_with_pp": with_pipeline, "reduce_every_micro_batch": True}
    row, found, _, vocabulary = replicated(traffic, "fsdp", pp=2, **flags)
    wire, first, last = found.units(row, Counter({"embedding": 1, "layer": LAYERS // 2}))
    own = LAYERS // 2 * LAYER + vocabulary
    assert wire[0] == pytest.approx(7 / 8 * own * (2 + 2 + 4) * with_pipeline)
    assert (first[0], last[0]) == pytest.approx((7 / 8 * 2 * vocabulary, 7 / 8 * 4 * vocabulary))


def test_a_replica_alone_exchanges_nothing(traffic):
    every, found = traffic("dense", Toll, count=0, family="fsdp2")
    points = every.candidates.points
    rows = np.flatnonzero(points.dp * points.cp == 1)
    assert rows.size
    for exchange in (*found.buckets(rows, WHOLE), *found.units(rows, WHOLE)):
        assert not exchange.any()


def test_experts_are_summed_over_the_ranks_that_hold_them(traffic):
    """Sixteen replicas: 16/ep copies of an expert, sixteen of all else."""
    every, found = traffic("experts", Toll, count=0, family="generic", sharding={"strategy": "none"})
    points, held = every.candidates.points, Counter({"experts": 1})
    rows = np.flatnonzero((points.pp == 1) & (points.tp == 1))
    dense, experts = found.parameters(rows, held)
    size = found.gradient_bytes
    reduce, _ = found.buckets(rows, held)
    copies = 16 // points.ep[rows]
    assert {1, 2} <= set(points.ep[rows].tolist())
    assert reduce == pytest.approx(2 * size * (15 / 16 * dense + (1 - 1 / copies) * experts))


def test_compressed_gradients_are_not_counted_as_they_may_take_any_time(traffic):
    """A bound may leave out what it does not know, the optimizer it does."""
    every, found = traffic("dense", family="colossalai", grad_compression="bf16")
    rows = np.arange(len(every.candidates))
    for exchange in (*found.buckets(rows, WHOLE), *found.units(rows, WHOLE)):
        assert not exchange.any()
    assert (found.tail(rows, WHOLE) > 0).all()
