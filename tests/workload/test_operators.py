"""Operators against parameter counts and closed forms: every weight is multiplied once a pass, on some rank."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.shapes import Architecture, FlashAttention, Gemm, Streaming
from simcluster.workload.flops import AttentionFlops, model_flops_per_step
from simcluster.workload.operators import (
    Batch,
    LayerPlan,
    embedding_elements,
    head_elements,
    layer_elements,
)
from simcluster.workload.parameters import layer_parameters

GPT = Architecture("gpt", 96, 12288, 96, 96, 128, 49152, 51200, gated_ffn=False, learned_positions=2048)


def flops(kernels):
    return sum(2.0 * k.m * k.n * k.k * k.batch for k in kernels if isinstance(k, Gemm))


def every(elements, *passes):
    return [kernel for element in elements for name in passes for kernel in getattr(element, name)]


@st.composite
def architectures(draw):
    head_dim = draw(st.sampled_from([64, 128]))
    kv_heads = draw(st.sampled_from([8, 16]))
    heads = kv_heads * draw(st.sampled_from([1, 2, 4]))
    return Architecture(
        "any",
        draw(st.integers(1, 8)),
        draw(st.sampled_from([512, 1024, 4096])),
        heads,
        kv_heads,
        head_dim,
        draw(st.sampled_from([1024, 2816, 4096])),
        draw(st.sampled_from([1024, 32000])),
        gated_ffn=draw(st.booleans()),
    )


@given(architectures(), st.sampled_from([1, 2, 4, 8]), st.integers(1, 4), st.booleans())
def test_gemms_of_all_ranks_are_the_model_flops_without_attention(arch, tp, micro_batch, sp):
    plan = LayerPlan(tp=tp, sequence_parallel=sp)
    batch = Batch(micro_batch, 256)
    layer = flops(every(layer_elements(arch, batch, plan), "forward", "dgrad", "wgrad"))
    head = flops(every(head_elements(arch, batch, plan, arch.vocab), "forward", "dgrad", "wgrad"))
    expected = 6.0 * batch.tokens * (arch.layers * layer_parameters(arch).matmul + arch.hidden * arch.vocab)
    assert tp * (arch.layers * layer + head) == pytest.approx(expected, rel=1e-12)


@given(architectures(), st.sampled_from([1, 2, 4, 8]), st.integers(1, 3))
def test_unfused_attention_executes_the_full_convention(arch, tp, micro_batch):
    plan = LayerPlan(tp=tp, attention="unfused")
    batch = Batch(micro_batch, 128)
    layer = flops(every(layer_elements(arch, batch, plan), "forward", "dgrad", "wgrad"))
    head = flops(every(head_elements(arch, batch, plan, arch.vocab), "forward", "dgrad", "wgrad"))
    expected = model_flops_per_step(arch, 128, micro_batch, AttentionFlops.FULL)
    assert tp * (arch.layers * layer + head) == pytest.approx(expected, rel=1e-12)


def test_worked_layer_of_gpt3():
    layer = {e.name: e for e in layer_elements(GPT, Batch(1, 2048), LayerPlan(tp=8))}
    shapes = {name: (e.forward[0].m, e.forward[0].n, e.forward[0].k) for name, e in layer.items() if e.part == "linear"}
    assert shapes == {
        "qkv": (2048, 4608, 12288),
        "projection": (2048, 12288, 1536),
        "ffn_up": (2048, 6144, 12288),
        "ffn_down": (2048, 12288, 6144),
    }


def test_kv_heads_are_copied_when_tp_exceeds_them():
    arch = Architecture("gqa", 1, 1024, 16, 2, 64, 4096, 1000)
    qkv = next(e for e in layer_elements(arch, Batch(1, 64), LayerPlan(tp=8)) if e.name == "qkv")
    assert qkv.forward[0].n == (16 * 64 + 2 * 8 * 64) / 8


def test_sequence_parallel_splits_what_is_between_the_linears():
    whole, split = (
        {e.name: e for e in layer_elements(GPT, Batch(2, 2048), LayerPlan(tp=8, sequence_parallel=sp))}
        for sp in (False, True)
    )
    for name in ("input_norm", "attention_residual"):
        assert split[name].forward[0].bytes * 8 == whole[name].forward[0].bytes
    assert split["ffn_activation"].forward[0].bytes == whole["ffn_activation"].forward[0].bytes


def test_arrays_broadcast_over_micro_batches():
    sizes = np.array([1, 2, 4])
    layer = layer_elements(GPT, Batch(sizes, 2048), LayerPlan(tp=8))
    for index, size in enumerate(sizes):
        alone = layer_elements(GPT, Batch(int(size), 2048), LayerPlan(tp=8))
        for many, one in zip(every(layer, "forward", "dgrad", "wgrad"), every(alone, "forward", "dgrad", "wgrad")):
            if isinstance(one, Gemm):
                dims = (np.broadcast_to(dim, 3)[index] for dim in (many.m, many.n, many.k))
                assert tuple(dims) == (one.m, one.n, one.k)
            elif isinstance(one, Streaming):
                assert np.broadcast_to(many.bytes, 3)[index] == one.bytes
            else:
                assert isinstance(one, FlashAttention)
                assert np.broadcast_to(many.batch, 3)[index] == one.batch


def test_fusion_removes_traffic_and_kernels():
    batch, fused = Batch(1, 1024), LayerPlan()
    plain = LayerPlan(fused_norm=False, fused_activation=False, fused_rotary=False)
    llama = Architecture("llama", 2, 1024, 8, 8, 128, 4096, 1000)

    def streamed(plan):
        kernels = [k for k in every(layer_elements(llama, batch, plan), "forward", "dgrad") if isinstance(k, Streaming)]
        return sum(k.bytes for k in kernels), sum(k.kernels for k in kernels)

    assert all(a < b for a, b in zip(streamed(fused), streamed(plain)))


def test_loss_traffic_of_the_two_implementations():
    logits = 1024 * 1000
    for fused, forward in ((True, 6.0), (False, 24.0)):
        plan = LayerPlan(fused_cross_entropy=fused)
        loss = head_elements(GPT, Batch(1, 1024), plan, 1000)[-1]
        assert loss.forward[0].bytes == forward * logits


def test_positions_are_a_second_lookup():
    def looked_up(learned):
        arch = Architecture("a", 1, 64, 1, 1, 64, 256, 100, learned_positions=learned)
        return embedding_elements(arch, Batch(1, 16), LayerPlan())[0].forward[0].bytes

    assert looked_up(16) == 2 * looked_up(0)
