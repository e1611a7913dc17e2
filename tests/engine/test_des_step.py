"""Whole steps event by event: the same as max-plus when nothing is shared, hand-computed when something is."""

from dataclasses import replace

import numpy as np
import pytest

from simcluster.engine.des import Change, simulate
from simcluster.engine.des_blocks import block_step
from simcluster.engine.des_step import solve_replicas_des, solve_step_des, step_wiring
from simcluster.engine.maxplus import solve
from simcluster.engine.step import solve_step
from simcluster.engine.step_flows import Interference, link_number
from simcluster.errors import SimclusterError
from simcluster.program.wiring import NO_FLOW

CASES = {
    "one-stage": {"parallelism": {"tp": 2, "pp": 1}},
    "pipeline": {"parallelism": {"tp": 2, "pp": 4}},
    "interleaved": {"parallelism": {"tp": 4, "pp": 2, "virtual_stages": 4}},
    "zb-h1": {"parallelism": {"tp": 2, "pp": 4, "schedule": "zb-h1"}},
    "breadth-first": {"parallelism": {"tp": 4, "pp": 2, "virtual_stages": 4, "order": "breadth-first"}},
    "no-scatter": {"parallelism": {"tp": 2, "pp": 2, "sequence_parallel": False}},
    "wide": {"parallelism": {"tp": 1, "pp": 2, "sequence_parallel": None}, "sharding": {"strategy": "none"}},
    "fsdp": {
        "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None},
        "sharding": {"strategy": "fsdp"},
        "software": {"family": "pytorch-fsdp", "date": "2024-06"},
    },
    "hsdp": {
        "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None},
        "sharding": {"strategy": "hsdp", "group": "node"},
        "software": {"family": "pytorch-fsdp", "date": "2024-06"},
    },
}


@pytest.fixture(scope="module", params=CASES)
def job(request, run):
    return parts(run({"training": CASES[request.param]}))


@pytest.fixture(scope="module")
def pipeline(run):
    return parts(run({"training": CASES["pipeline"]}))


def parts(evaluation):
    return evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times


def test_nothing_shared_is_max_plus(job):
    plan, machine, times = job
    run = solve_step_des(plan, machine, times)
    np.testing.assert_allclose(run.ends, times.ends[:, 0], rtol=1e-12)


def test_links_without_end_are_max_plus_too(job):
    """Every flow then goes at its own limit."""
    plan, machine, times = job
    wiring = step_wiring(plan, machine, times)
    free = replace(wiring, bytes_per_s=wiring.bytes_per_s * 1e6)
    np.testing.assert_allclose(solve_step_des(plan, machine, times, free).ends, times.ends[:, 0], rtol=1e-12)


def test_sharing_and_interference_never_help(job):
    plan, machine, times = job
    alone, slowed = (step_wiring(plan, machine, times, one) for one in (Interference(0, 0, 0, 0), Interference()))
    shared = solve_step_des(plan, machine, times, alone).total
    assert times.total[0] * (1 - 1e-12) <= shared <= times.total[0] * 1.05
    assert shared * (1 - 1e-12) <= solve_step_des(plan, machine, times, slowed).total <= shared * 1.4


def test_links_carry_what_is_planned(pipeline):
    """Messages of all micro-batches, both ways, and all of the gradients: seconds on the link times its rate."""
    plan, machine, times = pipeline
    wiring = step_wiring(plan, machine, times)
    run = solve_step_des(plan, machine, times, wiring)
    expected = np.zeros(len(wiring.links))
    for flow in np.where(wiring.transfer != NO_FLOW, wiring.transfer, wiring.message):
        if flow != NO_FLOW:
            for link, used in wiring.flows[flow].path:
                expected[link] += wiring.flows[flow].bytes * used
    assert run.carried == pytest.approx(expected, rel=1e-9)
    assert (run.carried <= wiring.bytes_per_s * run.total * (1 + 1e-9)).all()
    sent = [flow for flow in wiring.message if flow != NO_FLOW]
    assert len(sent) == 2 * plan.micro_batches * (plan.mesh.pp - 1)


def test_blocks_are_the_chunks_in_detail(job):
    plan, machine, times = job
    step = block_step(plan, machine, times)
    program = step.program
    ends = simulate(program.graph, program.durations, program.lags).ends
    static = solve(program.graph, program.durations[:, None], program.lags[:, None])[:, 0]
    np.testing.assert_allclose(ends, static, rtol=1e-12)
    chunks = np.arange(times.program.chunk_tasks)
    np.testing.assert_allclose(ends[program.last[chunks]], times.ends[chunks, 0], rtol=1e-9)
    assert ends.max() == pytest.approx(times.total[0], rel=1e-9)
    assert times.total[0] * (1 - 1e-9) <= step.run().total <= times.total[0] * 1.05


def test_shards_are_flows_inside_chunks(run):
    """A network at half its rate: every gather and reduction of a step that only communicates takes twice as long."""
    plan, machine, times = parts(run({"training": CASES["fsdp"]}))
    step = block_step(plan, machine, times)
    units = step.program.origin < times.program.chunk_tasks
    moved = np.flatnonzero(units & (step.wiring.transfer != NO_FLOW))
    assert len(moved) >= 3 * 16 * plan.micro_batches  # two gathers and a reduction of each layer
    half = [Change(0.0, "link", link_number(0, "network", way), 0.5) for way in ("out", "in")]
    network = [link_number(0, "network", "out")]
    carried, slow = step.run(), step.run(half)
    assert slow.carried[network] == pytest.approx(carried.carried[network], rel=1e-9)
    assert slow.total > carried.total
    idle = replace(step.program, durations=np.where(step.wiring.transfer != NO_FLOW, step.program.durations, 0.0))
    idle = replace(idle, lags=np.zeros_like(idle.lags))
    bare = replace(step.wiring, flows=tuple(replace(flow, latency_s=0.0) for flow in step.wiring.flows))
    wire, slow_wire = (replace(step, program=idle, wiring=bare).run(changes).total for changes in ((), half))
    assert slow_wire == pytest.approx(2 * wire, rel=1e-9)


def test_a_stage_at_half_speed_from_40_percent_on(run):
    """One stage, no exchanges: what is left at that time takes twice as long."""
    node = {"base": "dgx-a100-80gb", "gpus": 1}
    training = {"global_batch": 4, "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None}}
    evaluation = run({"cluster": {"node": node, "nodes": 1, "fabric": "none"}, "training": training})
    plan, machine, times = parts(evaluation)
    total = float(times.total[0])
    slow = solve_step_des(plan, machine, times, changes=[Change(0.4 * total, "stream", 0, 0.5)])
    assert slow.total == pytest.approx(1.6 * total, rel=1e-9)


def test_a_network_that_halves_at_40_percent_delays_the_exchanges_behind_it(run):
    """Nothing overlaps: the reductions come after all backwards, so what moves after that takes twice as long."""
    serial = {"overlap_grad_reduce": False, "overlap_param_gather": False}
    training = {"parallelism": {"tp": 8, "pp": 1}, "software": {"overrides": serial}}
    plan, machine, times = parts(run({"training": training}))
    wiring = step_wiring(plan, machine, times)
    total = float(times.total[0])
    half = [Change(0.4 * total, "link", link_number(0, "network", way), 0.5) for way in ("out", "in")]
    computed = float(times.ends[: times.program.chunk_tasks, 0].max())
    assert computed > 0.4 * total
    moving = sum(
        wiring.flows[flow].bytes / wiring.flows[flow].limit_bytes_per_s for flow in wiring.transfer if flow != NO_FLOW
    )
    run_ = solve_step_des(plan, machine, times, wiring, half)
    assert run_.total - total == pytest.approx(moving, rel=1e-9)


def test_a_network_that_is_down_for_good_keeps_the_step_from_ending(pipeline):
    plan, machine, times = pipeline
    wiring = step_wiring(plan, machine, times)
    down = [Change(0.4 * float(times.total[0]), "link", link_number(2, "network", "in"), 0.0)]
    with pytest.raises(SimclusterError, match="stage 2 network in, down for good"):
        solve_step_des(plan, machine, times, wiring, down)


def test_replicas_apart_are_the_one_that_stands_for_them(pipeline):
    plan, machine, times = pipeline
    wiring = step_wiring(plan, machine, times)
    one = solve_step_des(plan, machine, times, wiring)
    many = solve_replicas_des(plan, machine, times, wiring, 3)
    assert many.total == pytest.approx(one.total, rel=1e-12)
    assert many.carried == pytest.approx(np.tile(one.carried, 3), rel=1e-9)


def test_a_slow_node_of_one_replica_holds_up_all(pipeline):
    """The replica that is shown may be the slow one: the others wait for it at the exchanges."""
    plan, machine, times = pipeline
    wiring = step_wiring(plan, machine, times)
    streams = int(times.program.graph.stream.max()) + 1
    one = solve_step_des(plan, machine, times, wiring, [Change(0.0, "stream", 1, 0.9)])
    many = solve_replicas_des(plan, machine, times, wiring, 3, [Change(0.0, "stream", 2 * streams + 1, 0.9)])
    assert one.total > times.total[0]
    assert many.total == pytest.approx(one.total, rel=1e-12)


def test_what_the_host_holds_back_does_not_stretch_with_the_device(pipeline):
    """A host so slow that the device waits for it: a device at 90 % of its speed is hardly noticed, block by block."""
    plan, machine, _ = pipeline
    machine = replace(machine, host_issue_s=5e-3)
    times = solve_step(plan, machine)
    slow = [Change(0.0, "stream", stage, 0.9) for stage in range(plan.mesh.pp)]
    chunks = solve_step_des(plan, machine, times, changes=slow)
    assert chunks.total == pytest.approx(times.total[0] / 0.9, rel=1e-2)
    assert block_step(plan, machine, times).run(slow).total == pytest.approx(times.total[0], rel=1e-2)
