"""Experts: work and bytes of all ranks together against the parameters that a token meets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.memory.parameters import expert_parameters
from simcluster.shapes import Architecture, Gemm, Streaming
from simcluster.workload.elements import Batch, LayerPlan
from simcluster.workload.experts import expert_elements
from simcluster.workload.layers import LayerKind
from simcluster.workload.operators import layer_elements
from simcluster.workload.parameters import layer_parameters

MIXTRAL = Architecture("m", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
SHARED = Architecture(
    "d", 4, 1024, 16, 16, 64, 4096, 32000, experts=64, top_k=6, expert_ffn=512, shared_ffn=1024, gated_ffn=True
)


def kernels(elements, *passes):
    return [k for e in elements for way in passes for k in getattr(e, way)]


def work(elements, *passes):
    ways = passes or ("forward", "dgrad", "wgrad")
    return sum(
        2.0 * float(k.m) * float(k.n) * float(k.k) * float(k.batch)
        for k in kernels(elements, *ways)
        if isinstance(k, Gemm)
    )


def named(elements, name):
    return next(e for e in elements if e.name == name)


@st.composite
def layouts(draw):
    """tp, ep, etp, cp, dp of one stage."""
    tp = draw(st.sampled_from([1, 2, 3, 4, 8]))
    etp = draw(st.sampled_from(sorted({1, tp})))
    ep = draw(st.sampled_from([1, 2, 5, 8, 16]))
    return tp, ep, etp, draw(st.sampled_from([1, 2, 3]))


@given(layouts(), st.integers(1, 4), st.integers(1, 3), st.booleans())
def test_ranks_together_run_each_token_through_its_experts(layout, each, top_k, gated):
    """6 FLOP for each active weight and token: attention, router and shared experts whole, k of E experts."""
    tp, ep, etp, cp = layout
    arch = Architecture(
        "any", 2, 384, 2 * tp, 2 * tp, 64, 1000, 1000, gated_ffn=gated, experts=ep * each + 3 * ep, top_k=top_k,
        expert_ffn=120, shared_ffn=48,
    )  # fmt: skip
    plan = LayerPlan(tp=tp, cp=cp, ep=ep, etp=etp, sequence_parallel=True)
    batch = Batch(2, 60 * cp, cp)
    rank = work(layer_elements(arch, batch, plan, LayerKind("moe")))
    tokens = 2 * 60 * cp
    assert rank * tp * cp == pytest.approx(6.0 * tokens * layer_parameters(arch).matmul, rel=1e-9)


def test_experts_cut_as_the_rest_need_no_sequence_parallelism():
    plan = LayerPlan(tp=4, ep=2, etp=4)
    batch = Batch(1, 512)
    experts = [e for e in expert_elements(MIXTRAL, batch, plan) if e.name.startswith("experts")]
    assert 4 * work(experts) == pytest.approx(6.0 * 512 * 2 * 3 * 4096 * 14336, rel=1e-12)


def test_tokens_that_every_rank_holds_are_routed_by_every_rank():
    """Without sequence parallelism and with whole experts, tp ranks send the same tokens: tp times the work."""
    once, often = (
        work([e for e in expert_elements(MIXTRAL, Batch(1, 512), plan) if e.name.startswith("experts")])
        for plan in (LayerPlan(tp=4, ep=2, sequence_parallel=True), LayerPlan(tp=4, ep=2))
    )
    assert often == pytest.approx(4 * once)


@pytest.mark.parametrize(("ep", "etp", "tp"), [(8, 1, 1), (4, 2, 2), (2, 1, 4), (1, 8, 8)])
def test_grouped_products(ep, etp, tp):
    """E/ep experts, each with tokens k/E of all the group's tokens, up to 2 f/etp wide."""
    plan = LayerPlan(tp=tp, ep=ep, etp=etp, sequence_parallel=True)
    found = expert_elements(MIXTRAL, Batch(1, 4096), plan)
    (up,), (down,) = named(found, "experts_up").forward, named(found, "experts_down").forward
    group_tokens = 4096 / tp * etp * ep  # all tokens that reach the experts of this group
    rows = group_tokens * 2 / 8
    assert (float(up.m), float(up.n), float(up.k), float(up.batch)) == (rows, 2 * 14336 / etp, 4096, 8 / ep)
    assert (float(down.m), float(down.n), float(down.k), float(down.batch)) == (rows, 4096, 14336 / etp, 8 / ep)
    assert float(up.batch * up.n * up.k + down.batch * down.n * down.k) == expert_parameters(MIXTRAL, ep, etp)


def test_ungrouped_experts_cost_a_launch_each():
    alone, together = (
        named(expert_elements(SHARED, Batch(1, 64), LayerPlan(ep=8, grouped_gemm=how)), "experts_up")
        for how in (False, True)
    )
    launches = [sum(getattr(k, "kernels", 1) for k in e.forward) for e in (alone, together)]
    assert launches == [8, 1]
    assert work([alone]) == work([together])


@pytest.mark.parametrize("tp", [1, 4])
def test_a_dispatch_carries_k_copies_of_the_ranks_own_tokens(tp):
    """Tokens k h 2 bytes in a rank's buffer, out and back, forward and backward."""
    found = expert_elements(MIXTRAL, Batch(2, 4096), LayerPlan(tp=tp, ep=8, sequence_parallel=True))
    moves = [e for e in found if e.exchange in ("dispatch", "combine")]
    assert [e.exchange for e in moves] == ["dispatch", "combine"]
    assert {float(size) for e in moves for size in (e.bytes, e.bytes_back)} == {2.0 * 8192 / tp * 2 * 4096}


def test_imbalance_multiplies_products_and_bytes_of_the_busiest_rank():
    even, skewed = (expert_elements(MIXTRAL, Batch(1, 4096), LayerPlan(ep=8, imbalance=phi)) for phi in (1.0, 1.25))
    for name in ("experts_up", "experts_down"):
        assert work([named(skewed, name)]) == pytest.approx(1.25 * work([named(even, name)]))
        assert float(named(skewed, name).bytes) == pytest.approx(1.25 * float(named(even, name).bytes))
    assert work([named(skewed, "router")]) == work([named(even, "router")])


def test_permutations_move_every_copy_once():
    found = expert_elements(SHARED, Batch(1, 4096), LayerPlan(ep=8))
    for name in ("permute", "unpermute"):
        (one,) = named(found, name).forward
        assert float(one.bytes) == 4.0 * 6 * 4096 * 1024
        assert named(found, name).dgrad[0].bytes == one.bytes


def test_shared_experts_are_a_dense_layer_cut_over_tp():
    found = expert_elements(SHARED, Batch(1, 256), LayerPlan(tp=4, ep=8, sequence_parallel=True))
    (up,), (down,) = named(found, "shared_up").forward, named(found, "shared_down").forward
    assert (up.m, up.n, up.k) == (256, 2 * 1024 / 4, 1024)
    assert (down.m, down.n, down.k) == (256, 1024, 1024 / 4)
    assert [named(found, name).exchange for name in ("shared_up", "shared_down")] == ["column", "row"]
    assert not [e for e in expert_elements(MIXTRAL, Batch(1, 256), LayerPlan()) if e.name.startswith("shared")]


def test_the_router_stays_in_16_bits():
    found = expert_elements(SHARED, Batch(1, 256), LayerPlan(ep=8, dtype="fp8"))
    assert {k.dtype for k in kernels([named(found, "router")], "forward", "dgrad", "wgrad") if isinstance(k, Gemm)} == {
        "bf16"
    }
    assert {k.dtype for k in kernels([named(found, "experts_up")], "forward", "dgrad", "wgrad")} == {"fp8"}


def test_plain_experts_have_one_matrix_in():
    plain = Architecture("p", 2, 512, 8, 8, 64, 2048, 1000, gated_ffn=False, experts=4, top_k=1, expert_ffn=2048)
    (up,) = named(expert_elements(plain, Batch(1, 128), LayerPlan()), "experts_up").forward
    assert float(up.n) == 2048
    (act,) = (k for k in named(expert_elements(plain, Batch(1, 128), LayerPlan()), "experts_activation").forward)
    assert isinstance(act, Streaming)
    assert float(act.bytes) == 4.0 * 128 * 2048
