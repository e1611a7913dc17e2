"""Steps whose chunks move shards, against a simulation that steps through every unit of every chunk.

The simulation knows no chunks that are solved once: each stage has a queue of blocks, one of its shards' wire and one
of its replicas' wire, and the head of a queue starts when all that it waits for has ended. A chunk may gather from its
own start on.
"""

import dataclasses

import numpy as np
import pytest

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.chunk import WireTimes, solve_chunk
from simcluster.engine.step import solve_step
from simcluster.parallel.mesh import group_shape
from simcluster.parallel.schedules import stage_orders
from simcluster.program.chunk import ChunkShape
from simcluster.program.plan import block_names
from simcluster.program.pricing import CLASSES, Machine
from simcluster.shapes import Estimate


class NoMessages(Machine):
    """Messages between stages take no time, so that only wires and compute are compared."""

    def transfer(self, kind, size, group):
        if kind == "sendrecv":
            return Estimate(0.0, 0, 0.0, "latency")
        return Machine.transfer(self, kind, size, group)


class Queues:
    """Queues of tasks; the head of a queue starts once its queue is free and what it waits for has ended."""

    def __init__(self):
        self.queues, self.tasks = {}, {}

    def add(self, queue, task, seconds, before):
        self.queues.setdefault(queue, []).append(task)
        self.tasks[task] = (seconds, tuple(before))

    def run(self):
        waiting = {name: list(queue) for name, queue in self.queues.items()}
        end, free = {}, dict.fromkeys(waiting, 0.0)
        while any(waiting.values()):
            moved = False
            for name, queue in waiting.items():
                while queue and all(before in end for before in self.tasks[queue[0]][1]):
                    task = queue.pop(0)
                    seconds, before = self.tasks[task]
                    end[task] = free[name] = max([free[name], *(end[one] for one in before)]) + seconds
                    moved = True
            assert moved, "the queues wait for each other"
        return end


def wire_order(blocks, gathers, scatters, ahead):
    """Transfers of a chunk on the shards' wire in issue order."""
    order, known = [], 0
    for unit in range(blocks):
        while gathers and known < min(blocks, max(unit + 1, (unit + 1 + ahead) if unit else 1)):
            order.append(("gather", known))
            known += 1
        while gathers and unit == 0 and known < min(blocks, 1 + ahead):
            order.append(("gather", known))
            known += 1
        if scatters:
            order.append(("scatter", unit))
    return order


def add_chunk(queues, stage, name, start, units, flags, ahead):
    """Queues a chunk; `start` are the tasks that it waits for; returns the task that ends its compute."""
    gathers, scatters, replicas = flags
    queues.add(("starts", *name), (name, "start"), 0.0, start)
    for unit, one in enumerate(units):
        before = [(name, "start")] + [(name, "gather", unit)] * gathers
        queues.add((stage, "compute"), (name, "block", unit), one["block"], before)
    for kind, unit in wire_order(len(units), gathers, scatters, ahead):
        before = [(name, "start")]
        if kind == "scatter":
            before.append((name, "block", unit))
        elif unit - 1 - ahead >= 0:
            before.append((name, "block", unit - 1 - ahead))
        queues.add((stage, "wire"), (name, kind, unit), units[unit][kind], before)
        if kind == "scatter" and replicas:
            queues.add((stage, "replicas"), (name, "replica", unit), units[unit]["replica"], [(name, kind, unit)])
    return (name, "block", len(units) - 1)


def flags_of(plan, kind, micro):
    """What a chunk moves, told from the strategy (not from the program): gathers, scatters, sums over replicas."""
    units, last = plan.data.units, plan.micro_batches - 1
    gathers = units.gather and (kind == 0 or units.regather) and (micro == 0 or not units.gather_once)
    scatters = kind == 1 and units.reduce and (micro == last or units.reduce_each)
    return bool(gathers), bool(scatters), bool(scatters and units.replicas.ranks > 1)


def unit_times(plan, machine, blocks, contents, kind):
    data = plan.data
    found = []
    for name in block_names(plan, contents, backward=bool(kind)):
        count = plan.block_parameters[name]
        gather = machine.transfer("all_gather", count * data.parameter_bytes, data.gather_group).seconds
        scatter = machine.transfer(data.reduce_kind, count * data.gradient_bytes, data.gather_group).seconds
        share = count * data.gradient_bytes / data.gather_group.ranks
        replica = machine.transfer("all_reduce", share, data.units.replicas).seconds
        block = float(blocks[bool(kind), name].device[0])
        found.append({"block": block, "gather": gather, "scatter": scatter, "replica": replica})
    return found


def simulated(plan, machine, times):
    """Seconds of a step, unit by unit."""
    queues, pp = Queues(), plan.mesh.pp
    parts, pipeline = pp * plan.pipeline.virtual_stages, plan.pipeline
    orders = stage_orders(pipeline.schedule, pp, plan.micro_batches, pipeline.virtual_stages, pipeline.group)
    for stage, order in enumerate(orders):
        before = []
        for kind, micro, chunk in zip(order.kind, order.micro, order.chunk):
            part = int(chunk) * pp + stage
            source = part - 1 if kind == 0 else part + 1
            start = list(before)
            if 0 <= source < parts:
                contents = plan.contents[source % pp][source // pp]
                last = len(block_names(plan, contents)) - 1
                start.append(((int(kind), int(micro), source), "block", last))
            units = unit_times(plan, machine, times.blocks, plan.contents[stage][int(chunk)], kind)
            name = (int(kind), int(micro), part)
            flags = flags_of(plan, kind, micro)
            before = [add_chunk(queues, stage, name, start, units, flags, plan.data.units.ahead)]
    network = machine.network
    world = group_shape(plan.mesh.world, 1, plan.mesh.world, network.domain_gpus, network.gpus_per_node)
    norm = machine.transfer("all_reduce", 4.0, world).seconds
    return max(queues.run().values()) + norm + (times.optimizer + times.gather_s).max()


def both(
    run, strategy, pp=1, micro_batches=1, group="all", schedule="1f1b", virtual=1, nodes=2, fabric="ib-hdr-200", **flags
):
    """Seconds of the step by the package and by the queues."""
    dp = 8 * nodes // pp
    evaluation = run(
        {
            "model": {"layers": max(4, pp * virtual)},
            "cluster": {"nodes": nodes, "fabric": fabric},
            "training": {
                "sequence_length": 512,
                "global_batch": dp * micro_batches,
                "parallelism": {"tp": 1, "pp": pp, "schedule": schedule, "virtual_stages": virtual},
                "sharding": {"strategy": strategy, "group": group},
                "software": {"overrides": {"host_issue_s": 0.0, "overlap_p2p": True, **flags}},
            },
        }
    )
    machine = evaluation.resolved.machine
    quiet = NoMessages(**{field.name: getattr(machine, field.name) for field in dataclasses.fields(Machine)})
    plan = evaluation.resolved.plan
    times = solve_step(plan, quiet)
    return float(times.total[0]), simulated(plan, quiet, times), float(times.total[1])


SLOW, FAST = "tcp-100", "ib-hdr-200"


@pytest.mark.parametrize("fabric", [FAST, SLOW])
@pytest.mark.parametrize("micro_batches", [1, 2, 5])
@pytest.mark.parametrize(("reshard", "each"), [(True, True), (False, True), (True, False), (False, False)])
def test_fsdp_on_one_stage(run, fabric, micro_batches, reshard, each):
    flags = {"reshard_after_forward": reshard, "reduce_every_micro_batch": each}
    package, queues, _ = both(run, "fsdp", 1, micro_batches, fabric=fabric, **flags)
    assert package == pytest.approx(queues, rel=1e-9)


@pytest.mark.parametrize("fabric", [FAST, SLOW])
@pytest.mark.parametrize("ahead", [True, False])
@pytest.mark.parametrize(
    ("pp", "micro_batches", "schedule", "virtual"),
    [(2, 1, "1f1b", 1), (2, 3, "1f1b", 1), (4, 6, "1f1b", 1), (4, 4, "gpipe", 1), (2, 4, "1f1b", 2)],
)
def test_fsdp_in_a_pipeline(run, fabric, ahead, pp, micro_batches, schedule, virtual):
    flags = {"reshard_with_pp": True, "overlap_param_gather": ahead}
    package, queues, _ = both(run, "fsdp", pp, micro_batches, "all", schedule, virtual, fabric=fabric, **flags)
    assert package == pytest.approx(queues, rel=1e-9)


@pytest.mark.parametrize("fabric", [FAST, SLOW])
@pytest.mark.parametrize(("pp", "micro_batches"), [(2, 2), (2, 5), (4, 8)])
def test_parameters_that_stay_whole_under_a_pipeline(run, fabric, pp, micro_batches):
    """Gathered by the first micro-batch, reduced after the last; between them the wire rests."""
    package, queues, _ = both(run, "fsdp", pp, micro_batches, fabric=fabric, reshard_with_pp=False)
    assert package == pytest.approx(queues, rel=1e-9)


@pytest.mark.parametrize("fabric", [FAST, SLOW])
@pytest.mark.parametrize(
    "micro_batches",
    [1, 3],
)
def test_zero_2_reduces_as_units_end(run, fabric, micro_batches):
    """Forwards move nothing, but the reductions of the micro-batch before may still be under way."""
    package, queues, _ = both(run, "zero-2", 1, micro_batches, fabric=fabric, overlap_param_gather=False)
    assert package == pytest.approx(queues, rel=1e-9)


@pytest.mark.parametrize("fabric", [FAST, SLOW])
@pytest.mark.parametrize(
    "micro_batches",
    [1, 3],
)
def test_hybrid_sharding(run, fabric, micro_batches):
    package, queues, _ = both(run, "hsdp", 1, micro_batches, "node", fabric=fabric)
    assert package == pytest.approx(queues, rel=1e-9)


def test_wires_only_add(run):
    for strategy, group in (("fsdp", "all"), ("zero-3", 4), ("hsdp", "node")):
        package, _, without = both(run, strategy, 2, 3, group, fabric=SLOW)
        assert package > without


# The timeline of Zhao et al. 2023 (PyTorch FSDP) by hand: 20 units of 5 s forward and 10 s backward.


def block(seconds):
    columns, classes = len(COLUMNS), len(CLASSES)
    zero = np.zeros(columns)
    return BlockTimes(
        np.full(columns, seconds), np.full(columns, seconds), zero, np.zeros(classes), np.zeros((classes, 2))
    )


def pass_times(units, compute, gather=0.0, scatter=0.0):
    shape = ChunkShape(units, gather > 0, scatter > 0)
    traffic = WireTimes(*(np.full(units, value) for value in (gather, scatter, 0.0)))
    return solve_chunk([block(compute)] * units, shape, traffic)


def fsdp_step(units, forward, backward, gather, scatter, regather=True):
    """End of the last transfer of one forward and one backward chunk on one wire."""
    first = pass_times(units, forward, gather)
    second = pass_times(units, backward, gather if regather else 0.0, scatter)
    start, wire = first.duration[0], first.wire[0]
    compute = max(start + second.duration[0], wire + second.compute_after[0])
    return max(compute, start + second.wire[0], wire + second.wire_after[0])


@pytest.mark.parametrize(("gather", "expected"), [(4.0, 104.0), (7.0, 145.0), (12.0, 245.0)])
def test_forward_closed_form(gather, expected):
    """g + (L - 1) max(f, g) + f."""
    assert pass_times(20, 5.0, gather).duration[0] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("gather", "scatter", "expected"),
    [(4.0, 6.0, 104 + 200 + 6), (7.0, 6.0, 145 + 200 + 6), (12.0, 6.0, 245 + 200 + 6), (4.0, 12.0, 104 + 10 + 240)],
)
def test_a_backward_that_kept_its_units(gather, scatter, expected):
    """Without a second gather: max(last + r, first + L r) after the forward; 310, 351 and 354 of the usual examples."""
    assert fsdp_step(20, 5.0, 10.0, gather, scatter, regather=False) == pytest.approx(expected)


@pytest.mark.parametrize(("gather", "scatter"), [(4.0, 6.0), (7.0, 6.0), (12.0, 6.0), (4.0, 12.0)])
def test_gathers_and_reductions_share_the_wire(gather, scatter):
    """b + (L - 1) max(b, g + r) + r after the forward, the last unit's own gather apart."""
    forward = gather + 19 * max(5.0, gather) + 5.0
    backward = 10.0 + 19 * max(10.0, gather + scatter) + scatter
    taken = fsdp_step(20, 5.0, 10.0, gather, scatter)
    assert forward + backward <= taken <= forward + backward + 2 * gather


def test_every_unit_is_gathered_twice():
    """Backward hides every gather but the first, which a framework that keeps the last unit whole would save."""
    assert fsdp_step(20, 5.0, 10.0, 4.0, 6.0) == pytest.approx(310.0 + 4.0)
