"""Plans of a step: what is in a block, which bytes cross, which parameters share a bucket."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.parallel.mesh import Mesh
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.program.block import ExchangePlan
from simcluster.program.plan import (
    DataParallelPlan,
    PipelinePlan,
    RecomputePlan,
    StepPlan,
    block_names,
    block_ops,
    buckets,
    message_bytes,
    stage_parameters,
    step_shape,
)
from simcluster.shapes import Architecture, GroupShape, Transfer
from simcluster.workload.elements import Batch, LayerPlan

GPT3 = Architecture("gpt3", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False, learned_positions=2048)
BLOCKS = {"embedding": 5e8, "layer": 1e8, "head": 5.5e8}


def plan(tp=8, pp=8, dp=4, sp=True, virtual=1, scatter=True, **data):
    batch = Batch(1, 2048)
    return StepPlan(
        arch=GPT3,
        mesh=Mesh(tp, 1, dp, pp),
        contents=stage_contents(96, pp, virtual),
        batch=batch,
        micro_batches=16,
        layer=LayerPlan(tp=tp, sequence_parallel=sp),
        exchange=ExchangePlan(tp, 2.0 * 2048 * 12288, sp),
        recompute=RecomputePlan(),
        data=DataParallelPlan(GroupShape(dp), GroupShape(dp), **data),
        pipeline=PipelinePlan(virtual_stages=virtual, scatter=scatter),
        padded_vocab=51200,
        block_parameters=BLOCKS,
    )


@pytest.mark.parametrize(
    ("sp", "scatter", "expected"),
    [(True, True, 6_291_456), (True, False, 6_291_456), (False, True, 6_291_456), (False, False, 50_331_648)],
)
def test_message_of_175b(sp, scatter, expected):
    assert message_bytes(plan(sp=sp, scatter=scatter)) == expected


def test_blocks_in_the_order_of_a_pass():
    one, contents = plan(), ChunkContents(2, embedding=True, head=True)
    assert block_names(one, contents) == ("embedding", "layer", "layer", "head")
    assert block_names(one, contents, backward=True) == ("head", "layer", "layer", "embedding")
    assert block_names(one, ChunkContents(0)) == ()


@given(st.integers(0, 9), st.booleans(), st.booleans(), st.floats(1, 1e10), st.sampled_from([2.0, 4.0]), st.booleans())
def test_buckets_hold_every_block_once(layers, embedding, head, limit, width, backward):
    one = plan(bucket_bytes=limit, gradient_bytes=width)
    contents = ChunkContents(layers, embedding, head)
    found = buckets(one, contents, backward)
    names = block_names(one, contents, backward)
    covered = [position for bucket in found for position in range(bucket.first, bucket.last + 1)]
    assert covered == list(range(len(names)))
    for bucket in found:
        assert bucket.parameters == sum(BLOCKS[name] for name in names[bucket.first : bucket.last + 1])
    for bucket in found[:-1]:  # closed once full, and not a block later
        assert bucket.parameters * width >= limit
        assert (bucket.parameters - BLOCKS[names[bucket.last]]) * width < limit
    assert sum(bucket.parameters for bucket in found) == stage_parameters(one, [contents])


def test_gathers_take_as_many_parameters_as_reductions():
    one = plan(bucket_bytes=1e9, gradient_bytes=4.0, parameter_bytes=2.0)
    contents = ChunkContents(12)
    sizes = [[bucket.parameters for bucket in buckets(one, contents, backward)] for backward in (True, False)]
    assert sizes[0] == sizes[1] == [3e8] * 4


@pytest.mark.parametrize(
    ("dp", "gather", "reduced", "gathered"), [(1, "all_gather", 0, 0), (4, "all_gather", 1, 1), (4, "none", 1, 0)]
)
def test_shape_counts_what_is_exchanged(dp, gather, reduced, gathered):
    shape = step_shape(plan(dp=dp, gather_kind=gather, bucket_bytes=1e15))
    assert shape.grad_buckets == ((reduced,),) * 8
    assert shape.gather_buckets == ((gathered,),) * 8
    assert (shape.pp, shape.micro_batches, shape.virtual_stages) == (8, 16, 1)


def test_virtual_stages_have_their_own_buckets():
    assert step_shape(plan(virtual=3, bucket_bytes=1e15)).grad_buckets == ((1, 1, 1),) * 8


def test_whole_layers_are_run_again_but_not_the_head():
    one = replace(plan(), recompute=RecomputePlan(whole_layers=True))
    for block, again in (("layer", True), ("head", False), ("embedding", False)):
        assert any(op.recompute for op in block_ops(one, block, backward=True)) is again
        assert not any(op.recompute for op in block_ops(one, block, backward=False))


def exchanges(ops, name):
    return [op.operator for op in ops if isinstance(op.operator, Transfer) and name in op.operator.name]


def test_a_split_vocabulary_exchanges_the_loss():
    loss = exchanges(block_ops(plan(), "head", backward=False), "loss")
    assert [one.bytes for one in loss] == [4.0 * 2048] * 3
    assert {one.kind for one in loss} == {"all_reduce"}
    assert not exchanges(block_ops(plan(tp=1), "head", backward=False), "loss")
    assert not exchanges(block_ops(plan(), "layer", backward=False), "loss")


def test_layer_volume_of_175b():
    """Four half-collectives of the whole activation forward, six backward (two gather the linears' inputs again)."""
    for backward, count in ((False, 4), (True, 6)):
        moved = [op.operator for op in block_ops(plan(), "layer", backward) if isinstance(op.operator, Transfer)]
        assert [one.bytes for one in moved] == [50_331_648] * count
        assert all(one.group == "tp" for one in moved)
