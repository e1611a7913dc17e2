"""Linears, norms, residuals, batches: dimensions and bytes counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.shapes import Gemm, Streaming
from simcluster.workload.elements import Batch, Element, LayerPlan, dropout, linear, norm, residual, widened

DIM = st.integers(1, 8192)


def work(kernels):
    return sum(2.0 * one.m * one.n * one.k * one.batch for one in kernels if isinstance(one, Gemm))


@given(DIM, DIM, DIM)
def test_the_three_products_of_a_linear_cost_the_same(tokens, out, inner):
    """y = x w, dx = dy w', dw = x' dy: each 2 tokens inner out."""
    one = linear("any", tokens, out, inner, LayerPlan())
    assert work(one.forward) == work(one.dgrad) == work(one.wgrad) == 2.0 * tokens * out * inner
    (forward,), (dgrad,), (wgrad,) = one.forward, one.dgrad, one.wgrad
    assert (forward.m, forward.n, forward.k, forward.layout) == (tokens, out, inner, "TN")
    assert (dgrad.m, dgrad.n, dgrad.k, dgrad.layout) == (tokens, inner, out, "NN")
    assert (wgrad.m, wgrad.n, wgrad.k, wgrad.layout) == (inner, out, tokens, "NT")


def test_weight_gradients_accumulate_in_the_product_or_in_a_pass_of_their_own():
    """Read 2 bytes of the gradient, read and write 4 of the sum: 10 for each weight."""
    inside, apart = (linear("w", 64, 30, 20, LayerPlan(accumulate_in_gemm=how)) for how in (True, False))
    assert [one.accumulate for one in inside.wgrad] == [True]
    product, addition = apart.wgrad
    assert not product.accumulate
    assert addition == Streaming("w_accumulate", 10.0 * 30 * 20)


def test_a_low_precision_reaches_every_product():
    one = linear("w", 64, 30, 20, LayerPlan(dtype="mxfp8"))
    assert {kernel.dtype for kernel in (*one.forward, *one.dgrad, *one.wgrad)} == {"mxfp8"}


@pytest.mark.parametrize(("fused", "passes"), [(True, 1), (False, 4)])
def test_norm_traffic(fused, passes):
    """4 bytes an element forward; 6 backward, and 6 to add the gradient of the residual."""
    one = norm("n", 1000.0, LayerPlan(fused_norm=fused))
    assert [(k.bytes, k.kernels) for k in one.forward] == [(4000.0 * passes, passes)]
    assert [k.bytes for k in one.dgrad] == [6000.0 * passes, 6000.0]


@pytest.mark.parametrize(
    ("fused", "masked", "expected"),
    [(True, False, [6000.0]), (True, True, [7000.0]), (False, False, [6000.0]), (False, True, [6000.0, 5000.0])],
)
def test_residual_traffic(fused, masked, expected):
    one = residual("r", 1000.0, LayerPlan(fused_activation=fused, dropout=masked))
    assert [k.bytes for k in one.forward] == expected
    assert [k.bytes for k in one.dgrad] == ([5000.0] if masked else [])


def test_dropout_that_is_not_executed_is_no_kernel():
    assert dropout("d", 10.0, LayerPlan()) == ()
    assert dropout("d", 10.0, LayerPlan(dropout=True)) == (Streaming("d", 50.0),)


@given(st.integers(1, 8), st.integers(1, 64), st.sampled_from([1, 2, 3, 5, 8]))
def test_context_ranks_share_the_tokens(micro_batch, blocks, cp):
    batch = Batch(micro_batch, blocks * cp, cp)
    assert batch.tokens * cp == micro_batch * blocks * cp


def test_batches_broadcast():
    assert Batch(np.array([1, 2]), 128, 4).tokens.tolist() == [32, 64]
    assert Batch(np.array([[1], [2]]), np.array([64, 128])).tokens.shape == (2, 2)


def test_wide_activations_double_traffic_and_leave_products_alone():
    one = Element(
        "e", (Gemm("g", 1, 2, 3), Streaming("s", 10.0, 2)), (Streaming("b", 4.0),), bytes=100.0, bytes_back=200.0
    )
    wide = widened(one, 2.0)
    assert wide.forward == (Gemm("g", 1, 2, 3), Streaming("s", 20.0, 2))
    assert wide.dgrad == (Streaming("b", 8.0),)
    assert (wide.bytes, wide.bytes_back) == (200.0, 400.0)
