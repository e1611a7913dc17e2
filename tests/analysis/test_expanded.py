"""Insides of chunks against the solved chunks and blocks that they must add up to."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

import numpy as np
import pytest

from simcluster.analysis.expanded import Expander
from simcluster.analysis.timeline import timeline
from simcluster.program.plan import block_names, block_ops
from simcluster.shapes import Gemm, Transfer

CASES = {
    "sequence parallel": {},
    "interleaved": {"training": {"parallelism": {"tp": 2, "pp": 2, "virtual_stages": 2}}},
    "all recomputed": {"training": {"recompute": "full"}},
    "one small GPU's work, which the host holds back": {
        "model": {"hidden": 256, "heads": 4, "ffn": 512},
        "training": {"parallelism": {"tp": 1, "pp": 2, "sequence_parallel": False}, "sequence_length": 128},
    },
    "shards": {"training": {"parallelism": {"tp": 2, "pp": 1}, "sharding": {"strategy": "fsdp"}}},
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def opened(request, run):
    """An evaluation, and its chunks with what is inside."""
    evaluation = run(request.param)
    plan, machine = evaluation.resolved.plan, evaluation.resolved.machine
    expander = Expander(plan, machine, evaluation.times)
    spans = [one for one in timeline(plan, machine, evaluation.times) if one.stream == "compute"]
    return evaluation, [(one, expander.inside(one)) for one in spans if one.micro_batch >= 0]


def test_blocks_fill_their_chunk_to_its_end(opened):
    _, chunks = opened
    for span, parts in chunks:
        blocks = [one for one in parts if one.operator is None]
        assert blocks[0].start_s >= span.start_s
        assert blocks[-1].end_s == pytest.approx(span.end_s, rel=1e-12)
        assert all(after.start_s >= before.end_s - 1e-12 for before, after in pairwise(blocks))


def test_a_block_ends_with_the_last_of_its_operations(opened):
    _, chunks = opened
    for _, parts in chunks:
        last, block = 0.0, None
        for one in (*parts, None):
            if one is not None and one.operator is not None:
                assert block.start_s - 1e-12 <= one.start_s < one.end_s
                last = max(last, one.end_s)
                continue
            assert block is None or block.end_s == pytest.approx(last, rel=1e-9)
            last, block = 0.0, one


def test_a_stream_does_one_thing_at_a_time(opened):
    _, chunks = opened
    lanes = defaultdict(list)
    for span, parts in chunks:
        for one in parts:
            if one.operator is not None:
                lanes[span.stage, one.stream].append(one)
    for lane in lanes.values():
        lane.sort(key=lambda one: one.start_s)
        assert all(after.start_s >= before.end_s - 1e-12 for before, after in pairwise(lane))


def test_operations_are_as_long_as_the_blocks_were_busy(opened):
    evaluation, chunks = opened
    plan, times = evaluation.resolved.plan, evaluation.times
    for span, parts in chunks[:: max(1, len(chunks) // 8)]:
        contents = plan.contents[span.part % plan.mesh.pp][span.part // plan.mesh.pp]
        backward = span.kind == "backward"
        busy = sum(times.blocks[backward, name].busy for name in block_names(plan, contents, backward))
        moved = sum(one.duration_s for one in parts if isinstance(one.operator, Transfer))
        whole = sum(one.duration_s for one in parts if one.operator is not None)
        assert whole == pytest.approx(float(np.sum(busy)), rel=1e-9)
        assert moved == pytest.approx(float(np.sum(busy[3:])), rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("schedule", ["zb-h1", "zb-h2", "dualpipe"])
def test_weight_gradients_apart(run, schedule):
    """Their blocks hold the GEMMs that the backward of 1F1B holds too; input gradients have blocks alone."""
    evaluation = run({"training": {"parallelism": {"tp": 2, "pp": 4, "schedule": schedule}}})
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    expander = Expander(plan, machine, times)
    spans = [one for one in timeline(plan, machine, times) if one.stage == 1 and one.stream == "compute"]
    weights = {(one.part, one.micro_batch) for one in spans if one.kind == "weight_gradient"}
    apart = [one for one in spans if one.kind != "forward" and (one.part, one.micro_batch) in weights]
    inside = {one.kind: expander.inside(one) for one in apart}
    whole = [one for name in block_names(plan, plan.contents[1][0], True) for one in block_ops(plan, name, True)]
    gemms = [one.operator.name for one in whole if isinstance(one.operator, Gemm) and one.operator.layout == "NT"]
    found = [one.operator.name for one in inside["weight_gradient"] if one.operator is not None]
    assert sorted(name for name in found if name in gemms) == sorted(gemms) != []
    assert inside["backward"]
    assert all(one.operator is None for one in inside["backward"])
    assert inside["weight_gradient"][-1].end_s <= evaluation.step.time_s * 1.1


def test_shards_move_in_the_order_of_their_blocks(run):
    """One gather a block and pass, one reduction a block; the last transfer ends with the chunk's on the wire."""
    evaluation = run({"training": {"parallelism": {"tp": 2, "pp": 1}, "sharding": {"strategy": "fsdp"}}})
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    expander = Expander(plan, machine, times)
    spans = [one for one in timeline(plan, machine, times) if one.stream == "data_parallel" and one.micro_batch >= 0]
    blocks = ["embedding", *(f"layer {index}" for index in range(16)), "head"]
    for span in spans:
        parts = expander.inside(span)
        assert parts[-1].end_s == pytest.approx(span.end_s, rel=1e-12)
        assert parts[0].start_s >= span.start_s - 1e-12
        assert all(after.start_s >= before.end_s - 1e-12 for before, after in pairwise(parts))
        order = blocks if span.kind == "forward" else blocks[::-1]
        assert [one.name for one in parts if one.name.startswith("gather")] == [f"gather {name}" for name in order]
        reduced = [one.name for one in parts if one.name.startswith("reduce")]
        assert reduced == ([] if span.kind == "forward" else [f"reduce {name}" for name in order])


def test_layers_are_numbered_in_the_order_of_the_model(run):
    evaluation = run({})
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    expander = Expander(plan, machine, times)
    first = {one.kind: one for one in timeline(plan, machine, times) if one.stage == 1 and one.micro_batch == 0
             and one.stream == "compute"}  # fmt: skip
    names = {kind: [one.name for one in expander.inside(span) if one.operator is None] for kind, span in first.items()}
    assert names["forward"] == [*(f"layer {index}" for index in range(8, 16)), "head"]
    assert names["backward"] == names["forward"][::-1]


def test_what_is_no_chunk_has_no_inside(run):
    evaluation = run({})
    plan, machine, times = evaluation.resolved.plan, evaluation.resolved.machine, evaluation.times
    others = [one for one in timeline(plan, machine, times) if one.kind in ("optimizer", "reduce", "norm")]
    assert others
    assert not any(Expander(plan, machine, times).inside(one) for one in others)
