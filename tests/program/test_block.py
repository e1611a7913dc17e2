"""Blocks: which exchange and which kernel waits for which; small cases are solved by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.block import COMPUTE, EXCHANGE, ExchangePlan, backward_block, block_graph, forward_block
from simcluster.shapes import Architecture, Gemm, Streaming, Transfer
from simcluster.workload.elements import Batch, Element, LayerPlan
from simcluster.workload.operators import layer_elements

NORM = Element("norm", (Streaming("norm", 1.0),), (Streaming("norm_grad", 1.0),), part="norm")
COLUMN = Element(
    "col", (Gemm("col", 8, 4, 4),), (Gemm("col_d", 8, 4, 4),), (Gemm("col_w", 4, 4, 8),), "column", "linear"
)
CORE = Element("core", (Streaming("core", 1.0),), (Streaming("core_grad", 1.0),), part="core_attention")
ROW = Element("row", (Gemm("row", 8, 4, 4),), (Gemm("row_d", 8, 4, 4),), (Gemm("row_w", 4, 4, 8),), "row", "linear")
LAYER = (NORM, COLUMN, CORE, ROW)


def plan(sp=True, bulk=True, chunks=1, tp=2):
    return ExchangePlan(tp, 1000.0, sp, bulk, chunks)


def seconds(ops, times):
    """Time of a block with the duration of each operator by name; others take none."""
    duration = np.array([[times.get(op.operator.name, 0.0) * op.share] for op in ops])
    return float(solve(block_graph(ops), duration, np.zeros((len(ops), 1))).max())


def names(ops, stream=None):
    return [op.operator.name for op in ops if stream in (None, op.stream)]


def kinds(ops):
    return [op.operator.kind for op in ops if isinstance(op.operator, Transfer)]


def moved(ops):
    """Bytes on the wire in units of one all-gather; an all-reduce is a reduce-scatter and an all-gather."""
    return sum(
        op.operator.bytes * op.share * (2 if op.operator.kind == "all_reduce" else 1)
        for op in ops
        if isinstance(op.operator, Transfer)
    )


def test_forward_gathers_and_scatters_with_sequence_parallel():
    ops = forward_block(LAYER, plan())
    assert names(ops) == ["norm", "col_gather", "col", "core", "row", "row_reduce"]
    assert kinds(ops) == ["all_gather", "reduce_scatter"]
    assert seconds(ops, {"norm": 1, "col_gather": 2, "col": 3, "core": 4, "row": 5, "row_reduce": 6}) == 21


def test_forward_reduces_without():
    ops = forward_block(LAYER, plan(sp=False))
    assert names(ops) == ["norm", "col", "core", "row", "row_reduce"]
    assert kinds(ops) == ["all_reduce"]


def test_one_rank_exchanges_nothing():
    ops = forward_block(LAYER, plan(tp=1)) + backward_block(LAYER, plan(tp=1))
    assert not kinds(ops)
    assert all(op.stream == COMPUTE for op in ops)


@pytest.mark.parametrize("chunks", [1, 4])
def test_both_ways_carry_the_same_volume(chunks):
    """But for the input of a column linear, which sequence parallelism gathers once more."""
    whole = forward_block(LAYER, plan(sp=False)) + backward_block(LAYER, plan(sp=False))
    split = forward_block(LAYER, plan(chunks=chunks)) + backward_block(LAYER, plan(chunks=chunks))
    again = sum(op.operator.bytes for op in split if op.operator.name == "col_regather")
    assert moved(whole) == 4 * 1000
    assert moved(split) - again == pytest.approx(4 * 1000)
    assert again == 1000


def test_a_real_layer_has_four_exchanges_each_way():
    arch = Architecture("gpt", 2, 1024, 8, 8, 128, 4096, 32000)
    elements = layer_elements(arch, Batch(1, 2048), LayerPlan(tp=8, sequence_parallel=True))
    size = ExchangePlan(8, 2.0 * 2048 * 1024, True)
    assert kinds(forward_block(elements, size)) == ["all_gather", "reduce_scatter"] * 2
    backward = kinds(backward_block(elements, size))
    assert sorted(backward) == ["all_gather"] * 4 + ["reduce_scatter"] * 2


# The column linear's backward by hand: regather 3, input gradient 4, its reduction 6, weight gradient 5.
COLUMN_TIMES = {"col_regather": 3, "col_d": 4, "col_grad_reduce": 6, "col_w": 5}


def test_bulk_overlap_hides_exchanges_behind_the_gradients():
    ops = backward_block((COLUMN,), plan(bulk=True))
    assert seconds(ops, COLUMN_TIMES) == 4 + 6  # regather beside dgrad, the reduction beside wgrad and longer
    assert seconds(ops, {**COLUMN_TIMES, "col_w": 8}) == 4 + 8
    assert seconds(ops, {**COLUMN_TIMES, "col_regather": 7}) == 7 + 6  # the reduction shares the wire with the regather


def test_without_it_everything_is_in_a_row():
    ops = backward_block((COLUMN,), plan(bulk=False))
    assert seconds(ops, COLUMN_TIMES) == 3 + 4 + 6 + 5


def test_the_reduction_alone_may_hide_without_sequence_parallel():
    assert seconds(backward_block((COLUMN,), plan(sp=False, bulk=True)), COLUMN_TIMES) == 4 + 6
    assert seconds(backward_block((COLUMN,), plan(sp=False, bulk=False)), COLUMN_TIMES) == 4 + 6 + 5


def test_the_weight_gradient_waits_for_its_input():
    ops = backward_block((COLUMN,), plan())
    wgrad = next(op for op in ops if op.operator.name == "col_w")
    regather = next(i for i, op in enumerate(ops) if op.operator.name == "col_regather")
    assert regather in wgrad.after


def test_a_row_linear_gathers_before_both_gradients():
    ops = backward_block((ROW,), plan())
    assert names(ops) == ["row_grad_gather", "row_d", "row_w"]
    assert seconds(ops, {"row_grad_gather": 2, "row_d": 3, "row_w": 4}) == 9
    assert names(backward_block((ROW,), plan(sp=False))) == ["row_d", "row_w"]


@pytest.mark.parametrize(
    ("exchange", "compute", "chunks", "expected"),
    [
        (4.0, 8.0, 4, 8.0),  # hidden: a third of the gather comes within each quarter of the GEMM
        (12.0, 8.0, 4, 12.0 + 2.0),  # exposed: the last piece of the GEMM follows the gather
        (6.0, 8.0, 4, 8.0),
        (4.0, 8.0, 1, 12.0),
    ],
)
def test_a_gather_in_pieces(exchange, compute, chunks, expected):
    ops = forward_block((COLUMN,), plan(chunks=chunks))
    assert seconds(ops, {"col_gather": exchange, "col": compute / chunks}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("exchange", "compute", "chunks", "expected"),
    [(4.0, 8.0, 4, 8.0 + 1.0), (12.0, 8.0, 4, 2.0 + 12.0), (4.0, 8.0, 1, 12.0)],
)
def test_a_reduction_in_pieces(exchange, compute, chunks, expected):
    ops = forward_block((ROW,), plan(chunks=chunks))
    assert seconds(ops, {"row_reduce": exchange, "row": compute / chunks}) == pytest.approx(expected)
    assert sum(op.share for op in ops if op.stream == EXCHANGE) == pytest.approx(1)
    assert sum(op.operator.m for op in ops if op.stream == COMPUTE) == 8


@given(st.floats(0, 10), st.floats(0, 10), st.sampled_from([2, 4, 8]))
def test_pieces_never_cost_and_never_beat_either_part(exchange, compute, chunks):
    for element in (COLUMN, ROW):
        name = {"col": "col_gather", "row": "row_reduce"}[element.name]
        whole = seconds(forward_block((element,), plan()), {name: exchange, element.name: compute})
        cut = seconds(forward_block((element,), plan(chunks=chunks)), {name: exchange, element.name: compute / chunks})
        assert max(exchange, compute) - 1e-9 <= cut <= whole + 1e-9


def test_selective_recompute_runs_the_dropped_part_before_its_backward():
    ops = backward_block(LAYER, plan(tp=1), {"core_attention": 1.0})
    assert names(ops) == ["row_d", "row_w", "core", "core_grad", "col_d", "col_w", "norm_grad"]
    assert [op.operator.name for op in ops if op.recompute] == ["core"]


def test_full_recompute_runs_the_forward_first_exchanges_and_all():
    ops = backward_block(LAYER, plan(), {"core_attention": 1.0}, again=LAYER)
    forward = forward_block(LAYER, plan())
    assert names(ops)[: len(forward)] == names(forward)
    assert [op.recompute for op in ops] == [True] * len(forward) + [False] * (len(ops) - len(forward))
    assert names(ops)[len(forward) :] == names(backward_block(LAYER, plan()))


@pytest.mark.parametrize("sp", [True, False])
@pytest.mark.parametrize("bulk", [True, False])
@pytest.mark.parametrize("chunks", [1, 4])
def test_streams_run_in_issue_order_and_waits_point_back(sp, bulk, chunks):
    for ops in (
        forward_block(LAYER, plan(sp, bulk, chunks)),
        backward_block(LAYER, plan(sp, bulk, chunks), again=LAYER),
    ):
        assert all(before < index for index, op in enumerate(ops) for before in op.after)
        rng = np.random.default_rng(5)
        duration = rng.uniform(0.1, 1, (len(ops), 1))
        ends = solve(block_graph(ops), duration, np.zeros((len(ops), 1)))[:, 0]
        for stream in (COMPUTE, EXCHANGE):
            rows = [index for index, op in enumerate(ops) if op.stream == stream]
            starts = ends[rows] - duration[rows, 0]
            assert (starts[1:] >= ends[rows][:-1] - 1e-12).all()
        assert ends.max() >= max(
            duration[[op.stream == stream for op in ops]].sum() for stream in (COMPUTE, EXCHANGE)
        ) - 1e-9  # fmt: skip


def test_a_kernel_starts_no_earlier_than_the_host_issues_it():
    ops = forward_block((NORM, CORE), plan())
    issued = np.array([[5.0], [6.0]])
    ends = solve(block_graph(ops), np.array([[1.0], [1.0]]), issued)
    assert ends[:, 0].tolist() == [6.0, 7.0]


def test_nothing_is_a_block_too():
    assert forward_block((), plan()) == ()
    assert backward_block((Element("residual", (Streaming("add", 1.0),)),), plan()) == ()
