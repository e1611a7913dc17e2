"""Whole steps with states outside the GPU: times by hand, both engines, the waterfall, spans, unlike nodes."""

from __future__ import annotations

from itertools import groupby, pairwise

import numpy as np
import pytest

from simcluster.analysis.timeline import busy_s, timeline
from simcluster.engine.des import simulate
from simcluster.engine.des_blocks import block_step
from simcluster.engine.des_step import solve_step_des
from simcluster.engine.paced import paced_step, step_times
from simcluster.evaluation import evaluate
from simcluster.program.plan import buckets
from simcluster.scenario import load_text

TEXT = """\
model: llama-2-7b
cluster: {node: dgx-a100-80gb, nodes: 2}
training:
  sequence_length: 1024
  global_batch: 64
  micro_batch: 1
  parallelism: {tp: 2}
  sharding: {strategy: zero-1, offload: cpu}
"""
NVME = "training.sharding.offload=nvme"


@pytest.fixture(name="run")
def fixture_run(catalogue):
    def of(*sets: str, engine="max-plus"):
        return evaluate(load_text(TEXT, sets=sets), catalogue, engine)

    return of


LAYOUTS = [
    (),
    ("training.sharding.strategy=none",),
    ("training.sharding.strategy=zero-2",),
    ("training.sharding.strategy=fsdp",),
    ("training.sharding={strategy: hsdp, group: node, offload: cpu}",),
    ("training.parallelism={tp: 2, pp: 4, virtual_stages: 2}", NVME),
    ("training.parallelism={tp: 2, pp: 2}", "training.sharding.strategy=zero-3", NVME),
    ("training.parallelism={pp: 2, schedule: zb-h2}", NVME),
    ("training.parallelism={pp: 2, schedule: zb-h1}",),
    ("training.parallelism={pp: 4, schedule: dualpipe}",),
]


@pytest.mark.parametrize("sets", LAYOUTS)
def test_engines_agree_and_the_waterfall_sums(run, sets):
    found = run(*sets)
    plan, machine, times = found.resolved.plan, found.resolved.machine, found.times
    ends = solve_step_des(plan, machine, times).ends
    assert ends == pytest.approx(times.ends[:, 0], rel=1e-12)
    blocks = block_step(plan, machine, times).program
    assert simulate(blocks.graph, blocks.durations, blocks.lags).ends.max() == pytest.approx(ends.max(), rel=1e-12)
    fall = dict(found.waterfall.items())
    assert found.waterfall.total_s == pytest.approx(times.total[0], rel=1e-9)
    assert fall["offload"] == pytest.approx(times.total[0] - times.not_moved_s, rel=1e-9)
    assert fall["offload"] > 0
    assert "host" in found.critical.sentence() or "states" in found.critical.sentence()
    assert sum(part.seconds for part in found.critical.parts) == pytest.approx(times.ends[:, 0].max(), rel=1e-9)


def test_by_hand(run):
    """All that shows is 30 bytes a parameter at 40.96 GB/s: copies down hide, copies up go beside the updates.

    The first update starts with the norm, the last copy ends with the optimizer's pass.
    """
    found = run()
    plan, times = found.resolved.plan, found.times
    pieces = np.array([one.parameters / 8 for one in buckets(plan, plan.contents[0][0], backward=True)])
    program = times.program
    assert [row[2] for row in program.copy_rows] == list(range(len(pieces)))
    update, up = pieces * 30 / 40.96e9, pieces * 2 / 12.6e9
    assert (up < update).all()
    assert times.total[0] - times.not_moved_s == pytest.approx(update.sum() + up[-1], rel=1e-9)
    spans = timeline(plan, found.resolved.machine, times)
    assert busy_s(spans, 1, "host")[0] == pytest.approx(update.sum())
    assert busy_s(spans, 1, "to_gpu")[0] == pytest.approx(up.sum())
    assert busy_s(spans, 1, "to_host")[0] == pytest.approx(pieces.sum() * 4 / 12.6e9)
    assert pieces.sum() == pytest.approx(6.738e9 / 2 / 8, rel=1e-3)


def test_fetched_parameters_are_exposed_where_they_outlast_the_layer(run):
    """FSDP copies shards up before each gather, and nothing up after the update."""
    sets = ("training.sharding.strategy=fsdp", "training.parallelism={tp: 1}")
    found = run(*sets)
    assert not busy_s(timeline(found.resolved.plan, found.resolved.machine, found.times), 1, "to_gpu").any()
    longer = run(*sets, "training.global_batch=128")
    per_batch = (longer.times.total[0] - longer.times.not_moved_s) - (found.times.total[0] - found.times.not_moved_s)
    shard_s = 6.738e9 / 16 * 2 / 12.6e9  # one pass over all of them
    assert 0 <= per_batch <= 2 * 4 * shard_s


@pytest.mark.parametrize("sets", LAYOUTS)
def test_spans_of_a_stream_never_overlap(run, sets):
    found = run(*sets)
    plan = found.resolved.plan
    spans = timeline(plan, found.resolved.machine, found.times)
    copies = [one for one in spans if one.stream in ("to_host", "host", "to_gpu", "drives")]
    assert {one.stage for one in copies} == set(range(plan.mesh.pp))
    for _, own in groupby(copies, key=lambda one: (one.stage, one.stream)):
        held = list(own)
        assert all(one.end_s <= two.start_s + 1e-12 for one, two in pairwise(held))


def test_drives_take_longer_than_the_host(run):
    host, drives = run(), run(NVME)
    assert drives.step.time_s > host.step.time_s
    assert drives.step.bound_by == "offload"
    assert "reads and writes of states" in drives.critical.sentence()
    assert "updates in the host" in host.critical.sentence()
    names = [one.evidence for one in drives.error_terms]
    assert "offload:epyc-7742" in names


def test_more_nodes_share_the_work(run):
    more = run("cluster.nodes=4", "training.global_batch=128")
    one = run()
    assert more.waterfall.seconds[0] == pytest.approx(one.waterfall.seconds[0] / 2, rel=0.05)


def test_memory_and_power_follow(run):
    gpu, host = run("training.sharding.offload=none"), run()
    freed = gpu.memory.peak_bytes - host.memory.peak_bytes
    assert freed == pytest.approx(12 * 6.738e9 / 2 / 8, rel=1e-3)
    assert host.power.gpu_average_w < gpu.power.gpu_average_w


def test_unlike_nodes_at_their_usual_speed_take_the_usual_time(run):
    found = run("training.parallelism={tp: 2, pp: 2}", NVME)
    step = paced_step(found.resolved.plan, found.resolved.machine, found.times)
    paces = np.ones((1, found.resolved.plan.mesh.dp, 2))
    assert step_times(step, paces)[0] == pytest.approx(found.times.total[0], rel=1e-12)
    slower = step_times(step, paces * 1.1)[0] - found.times.total[0]
    assert 0 < slower < 0.1 * found.times.not_moved_s  # copies and updates are no slower
