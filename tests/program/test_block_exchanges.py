"""Exchanges of context and expert parallelism inside a block: who waits for whom, bytes, and small cases by hand."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.maxplus import solve
from simcluster.program.block import COMPUTE, EXCHANGE, ExchangePlan, backward_block, block_graph, forward_block
from simcluster.shapes import Architecture, Gemm, Streaming, Transfer
from simcluster.workload.elements import Batch, Element, LayerPlan
from simcluster.workload.layers import LayerKind
from simcluster.workload.operators import layer_elements

CORE = Element(
    "core", (Streaming("core", 1.0),), (Streaming("core_grad", 1.0),), exchange="context", bytes=100.0, bytes_back=200.0
)
UP = Element("up", (Gemm("up", 1, 1, 1),), (Gemm("up_d", 1, 1, 1),), (Gemm("up_w", 1, 1, 1),), "dispatch", bytes=64.0)
DOWN = Element(
    "down", (Gemm("down", 1, 1, 1),), (Gemm("down_d", 1, 1, 1),), (Gemm("down_w", 1, 1, 1),), "combine", bytes=64.0
)
PERMUTE = Element("permute", (Streaming("permute", 1.0),), (Streaming("permute_back", 1.0),))
EXPERTS = (PERMUTE, UP, DOWN)


def ring(cp, context="p2p"):
    return ExchangePlan(1, 0.0, False, cp=cp, context=context)


def sparse(ep, etp=1, copies=1.0):
    return ExchangePlan(1, 0.0, False, ep=ep, etp=etp, expert_copies=copies)


def durations(ops, times):
    return np.array([times.get(op.operator.name, 0.0) * op.share for op in ops])


def seconds(ops, times):
    """Time of a block with the duration of each operator by name; others take none."""
    return float(solve(block_graph(ops), durations(ops, times)[:, None], np.zeros((len(ops), 1))).max())


def two_streams(ops, lengths):
    """The same by stepping through two queues: an op starts when its stream and all that it waits for are done."""
    free, end = [0.0, 0.0], []
    for op, length in zip(ops, lengths):
        start = max([free[op.stream], *(end[before] for before in op.after)])
        end.append(start + length)
        free[op.stream] = end[-1]
    return max(end, default=0.0)


def longest_path(ops, lengths):
    """The same by networkx."""
    graph = nx.DiGraph()
    graph.add_node("end")
    last = {}
    for index, op in enumerate(ops):
        for before in {*op.after, *([last[op.stream]] if op.stream in last else [])}:
            graph.add_edge(before, index, weight=lengths[before])
        graph.add_edge(index, "end", weight=lengths[index])
        last[op.stream] = index
    return nx.dag_longest_path_length(graph)


def moves(ops):
    return [op.operator for op in ops if isinstance(op.operator, Transfer)]


@pytest.mark.parametrize("cp", [1, 2, 4, 7])
def test_a_ring_takes_a_step_for_each_rank_and_a_hop_less(cp):
    ops = forward_block((CORE,), ring(cp)) if cp > 1 else forward_block((CORE,), ring(1))
    assert sum(op.stream == COMPUTE for op in ops) == cp
    assert [move.kind for move in moves(ops)] == ["sendrecv"] * (cp - 1)
    assert sum(float(move.bytes) for move in moves(ops)) == (cp - 1) * 100.0
    back = backward_block((CORE,), ring(cp))
    assert sum(float(move.bytes) for move in moves(back)) == (cp - 1) * 200.0


@given(st.integers(2, 8), st.floats(0.01, 10), st.floats(0.0, 10))
def test_a_ring_is_paced_by_the_longer_of_step_and_hop(cp, step, hop):
    """First step with the rank's own keys; then c - 1 times the longer of the two, the last step after the last hop."""
    ops = forward_block((CORE,), ring(cp))
    taken = seconds(ops, {"core": step, "core_ring": hop})
    assert taken == pytest.approx(step + (cp - 1) * max(step, hop))


def test_a_long_context_hides_its_ring():
    """131,072 tokens over 16 ranks: 687 us of attention a step against 87.4 us of a 4,194,304 B message."""
    ops = forward_block((CORE,), ring(16))
    assert seconds(ops, {"core": 687.2, "core_ring": 87.4}) == pytest.approx(16 * 687.2)
    assert seconds(ops, {"core": 50.0, "core_ring": 87.4}) == pytest.approx(50 + 15 * 87.4)


@pytest.mark.parametrize("cp", [2, 5])
def test_gathered_keys_are_waited_for(cp):
    forward, backward = (make((CORE,), ring(cp, "all-gather")) for make in (forward_block, backward_block))
    assert [(move.kind, move.bytes) for move in moves(forward)] == [("all_gather", 100.0 * cp)]
    assert [(move.kind, move.bytes) for move in moves(backward)] == [
        ("all_gather", 100.0 * cp),
        ("reduce_scatter", 100.0 * cp),
    ]
    assert seconds(forward, {"core_gather_keys": 3, "core": 5}) == 8
    assert seconds(backward, {"core_gather_keys": 3, "core_grad": 5, "core_scatter_keys": 4}) == 12


def test_exchanged_heads_travel_before_and_after():
    for make, name in ((forward_block, "core"), (backward_block, "core_grad")):
        ops = make((CORE,), ring(4, "all-to-all"))
        assert [(move.kind, move.bytes) for move in moves(ops)] == [("alltoall", 50.0)] * 2
        assert seconds(ops, {"core_heads": 3, name: 5, "core_tokens": 4}) == 12


@pytest.mark.parametrize(("ep", "etp"), [(1, 1), (4, 1), (1, 4), (4, 2)])
def test_tokens_travel_to_their_experts_and_back(ep, etp):
    """Forward: dispatch, up, down, combine; backward the other way round, with the same bytes."""
    forward, backward = forward_block(EXPERTS, sparse(ep, etp)), backward_block(EXPERTS, sparse(ep, etp))
    out = ["alltoall"] * (ep > 1) + ["all_gather"] * (etp > 1)
    home = ["reduce_scatter"] * (etp > 1) + ["alltoall"] * (ep > 1)
    assert [move.kind for move in moves(forward)] == out + home
    for ops in (forward, backward):
        sizes = {move.kind: float(move.bytes) for move in moves(ops)}
        assert sizes.get("alltoall", 64.0) == 64.0
        assert sizes.get("all_gather", 64.0 * etp) == sizes.get("reduce_scatter", 64.0 * etp) == 64.0 * etp
    assert sorted(move.kind for move in moves(backward)) == sorted(out + home)
    assert all(move.group == ("ep" if move.kind == "alltoall" else "etp") for move in moves(forward + backward))


def test_gradients_are_spread_over_an_experts_ranks_before_they_are_used():
    """Backward begins where forward ended: the gradient of the sum reaches all ranks of an expert by a gather."""
    kinds = [move.kind for move in moves(backward_block(EXPERTS, sparse(4, 2)))]
    assert kinds == ["alltoall", "all_gather", "reduce_scatter", "alltoall"]


def test_experts_wait_for_their_tokens():
    times = {"permute": 1, "up_dispatch": 2, "up": 3, "down": 4, "down_combine": 5}
    assert seconds(forward_block(EXPERTS, sparse(4)), times) == 15
    assert seconds(forward_block(EXPERTS, sparse(1)), times) == 8


def test_deduplicated_copies_shrink_what_crosses():
    (dispatch, _) = moves(forward_block(EXPERTS, sparse(16, copies=0.6618)))
    assert float(dispatch.bytes) == pytest.approx(0.6618 * 64)


def test_full_recompute_sends_tokens_once_more():
    kept, again = (backward_block(EXPERTS, sparse(4), again=how) for how in ((), EXPERTS))
    assert len(moves(kept)) == 2
    assert len(moves(again)) == 4


@given(st.data(), st.sampled_from(["p2p", "all-gather", "all-to-all"]), st.booleans(), st.booleans())
def test_streams_run_as_two_queues_and_as_a_longest_path(data, context, sp, again):
    """A whole layer of every kind of exchange, with random durations, three ways."""
    tp, cp, ep, etp = (data.draw(st.sampled_from([1, 2, 4])) for _ in range(4))
    arch = Architecture("any", 2, 512, 16, 16, 32, 1024, 1000, experts=8, top_k=2, expert_ffn=256, shared_ffn=128)
    plan = LayerPlan(tp=tp, cp=cp, ep=ep, etp=etp, context=context, sequence_parallel=sp and tp > 1)
    kind = LayerKind(data.draw(st.sampled_from(["dense", "moe"])))
    elements = layer_elements(arch, Batch(1, 256 * cp, cp), plan, kind)
    chunks = data.draw(st.sampled_from([1, tp])) if plan.sequence_parallel else 1
    bulk = data.draw(st.booleans())
    exchange = ExchangePlan(tp, 1e6, plan.sequence_parallel, bulk, chunks, 512, cp, context, ep, etp)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    for ops in (forward_block(elements, exchange), backward_block(elements, exchange, again=elements if again else ())):
        lengths = rng.uniform(0, 1, len(ops))
        ends = solve(block_graph(ops), lengths[:, None], np.zeros((len(ops), 1)))
        assert ends.max() == pytest.approx(two_streams(ops, lengths), rel=1e-12)
        assert ends.max() == pytest.approx(longest_path(ops, lengths), rel=1e-12)
        busy = [sum(length for op, length in zip(ops, lengths) if op.stream == stream) for stream in (0, 1)]
        assert max(busy) <= ends.max() <= sum(busy) * (1 + 1e-12)
        assert {op.stream for op in ops} <= {COMPUTE, EXCHANGE}


SHARED_UP = Element("shared_up", (Gemm("s_up", 1, 1, 1),), (Gemm("s_up_d", 1, 1, 1),), (Gemm("s_up_w", 1, 1, 1),))
SHARED_DOWN = Element(
    "shared_down", (Gemm("s_down", 1, 1, 1),), (Gemm("s_down_d", 1, 1, 1),), (Gemm("s_down_w", 1, 1, 1),)
)
SHARED_LAYER = (*EXPERTS, SHARED_UP, SHARED_DOWN)


def beside(ep=4):
    return ExchangePlan(1, 0.0, False, ep=ep, shared_beside=True)


@given(*(st.floats(0, 10) for _ in range(7)))
def test_shared_experts_run_while_tokens_travel(permute, out, up, down, home, shared_up, shared_down):
    """Forward: the longer of dispatch and first linear, the others' kernels, the longer of way home and last."""
    times = {"permute": permute, "up_dispatch": out, "up": up, "down": down, "down_combine": home}
    times |= {"s_up": shared_up, "s_down": shared_down}
    taken = seconds(forward_block(SHARED_LAYER, beside()), times)
    assert taken == pytest.approx(permute + max(out, shared_up) + up + down + max(home, shared_down))
    assert seconds(forward_block(SHARED_LAYER, sparse(4)), times) == pytest.approx(sum(times.values()))


@given(*(st.floats(0, 10) for _ in range(6)))
def test_shared_experts_hide_the_way_of_gradients_too(out, home, experts, shared_up, shared_down, permute):
    """Backward: beside the first exchange the gradients of the last linear, beside the second those of the first."""
    times = {"down_combine": home, "down_d": experts, "up_d": experts, "up_dispatch": out, "permute_back": permute}
    times |= {"s_down_d": shared_down, "s_up_d": shared_up, "s_up_w": shared_up}
    taken = seconds(backward_block(SHARED_LAYER, beside()), times)
    assert taken == pytest.approx(max(home, shared_down) + 2 * experts + max(out, 2 * shared_up) + permute)


def test_nothing_is_beside_where_nothing_travels():
    for make in (forward_block, backward_block):
        assert make(SHARED_LAYER, beside(ep=1)) == make(SHARED_LAYER, ExchangePlan(1, 0.0, False, ep=1))


def test_the_same_work_either_way():
    for make in (forward_block, backward_block):
        apart, together = (sorted(op.operator.name for op in make(SHARED_LAYER, one)) for one in (sparse(4), beside()))
        assert apart == together
