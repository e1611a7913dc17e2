"""Attention elements: shapes and work of latent attention, windows counted pair by pair, context parallelism."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.shapes import Architecture, FlashAttention, Gemm
from simcluster.workload.attention import attention_elements, core_attention
from simcluster.workload.elements import Batch, LayerPlan
from simcluster.workload.parameters import layer_parameters

# Dimensions of DeepSeek-V2/V3 (2024): latent ranks 1536 and 512, heads of 128 + 64, values of 128.
DEEPSEEK = Architecture(
    "v3", 61, 7168, 128, 128, 192, 18432, 129280, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128
)
LLAMA = Architecture("llama", 126, 16384, 128, 8, 128, 53248, 128256)


def gemms(elements, which="forward"):
    return {k.name: k for e in elements for k in getattr(e, which) if isinstance(k, Gemm)}


def work(elements):
    every = [k for e in elements for way in (e.forward, e.dgrad, e.wgrad) for k in way if isinstance(k, Gemm)]
    return sum(2.0 * float(k.m) * float(k.n) * float(k.k) * float(k.batch) for k in every)


def kernel(element, which="forward") -> FlashAttention:
    (one,) = getattr(element, which)
    return one


def pairs(one):
    """Pairs of query and key that a fused call computes, for one head of one sequence."""
    return float(one.seq_q) * float(one.seq_k) * (0.5 if one.causal else 1.0)


@pytest.mark.parametrize(("tp", "sp"), [(1, False), (4, False), (4, True)])
def test_latent_projections(tp, sp):
    """Down-projections are not cut over tp; with sequence parallelism each rank runs its own tokens through them."""
    tokens = 4096
    found = gemms(attention_elements(DEEPSEEK, Batch(1, tokens), LayerPlan(tp=tp, sequence_parallel=sp)))
    own = tokens / tp if sp else tokens
    shapes = {name: (float(one.m), float(one.n), float(one.k)) for name, one in found.items()}
    assert shapes == {
        "q_down": (own, 1536, 7168),
        "q_up": (tokens, 128 * 192 / tp, 1536),
        "kv_down": (own, 512 + 64, 7168),
        "kv_up": (tokens, 128 * 256 / tp, 512),
        "projection": (tokens, 7168, 128 * 128 / tp),
    }


def test_a_query_without_a_latent_is_one_product():
    lite = Architecture("lite", 27, 2048, 16, 16, 192, 10944, 102400, kv_rank=512, nope_dim=128, rope_dim=64)
    names = [e.name for e in attention_elements(lite, Batch(1, 64), LayerPlan()) if e.part == "linear"]
    assert names == ["query", "kv_down", "kv_up", "projection"]
    assert gemms(attention_elements(lite, Batch(1, 64), LayerPlan(tp=2)))["query"].n == 16 * 192 / 2


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_latent_work_of_all_ranks_is_that_of_the_weights(tp):
    """6 FLOP for each weight and token, when sequence parallelism spreads what is not cut."""
    plan, batch = LayerPlan(tp=tp, sequence_parallel=True), Batch(2, 512)
    layer = layer_parameters(DEEPSEEK)
    expected = 6.0 * batch.tokens * (layer.qkv + layer.attention_out)
    assert tp * work(attention_elements(DEEPSEEK, batch, plan)) == pytest.approx(expected, rel=1e-12)


def test_without_sequence_parallelism_every_rank_repeats_the_down_projections():
    batch = Batch(1, 512)
    whole, alone = (
        work(attention_elements(DEEPSEEK, batch, LayerPlan(tp=8, sequence_parallel=sp))) for sp in (False, True)
    )
    down = 6.0 * 512 * 7168 * (1536 + 512 + 64)
    assert whole - alone == pytest.approx(down * 7 / 8, rel=1e-12)


def test_exchanges_of_latent_attention_carry_the_latents():
    """What is gathered for the up-projections is 1536 or 512 + 64 values a token, not the hidden size."""
    found = {e.name: e for e in attention_elements(DEEPSEEK, Batch(1, 64), LayerPlan(tp=8, sequence_parallel=True))}
    assert {name: e.width for name, e in found.items() if e.exchange == "column"} == {"q_up": 1536, "kv_up": 576}
    assert found["kv_down"].exchange == found["q_down"].exchange == "none"
    assert found["projection"].exchange == "row"


def test_latent_core_has_the_work_of_its_two_head_sizes():
    """2 s^2 a (192 + 128) for QK' and AV; a kernel of the mean size 160 does the same."""
    core = kernel(core_attention(DEEPSEEK, Batch(1, 4096), LayerPlan()))
    assert 4.0 * core.heads * core.head_dim * 4096**2 == 2.0 * 4096**2 * 128 * (192 + 128)
    assert core.kv_heads == core.heads == 128  # keys and values are expanded for every head


def brute_pairs(seq, window, kind):
    """Pairs of query and key, counted one by one."""
    first = {"sliding": lambda query: query - window + 1, "chunked": lambda query: query // window * window}
    return sum(1 for query in range(seq) for key in range(query + 1) if key >= first[kind](query))


@given(st.integers(1, 70), st.integers(1, 80), st.sampled_from(["sliding", "chunked"]))
def test_a_window_is_a_rectangle_with_as_many_pairs(seq, window, kind):
    arch = Architecture("w", 2, 64, 4, 4, 16, 256, 100, window=window, window_kind=kind)
    core = kernel(core_attention(arch, Batch(1, seq), LayerPlan(), window=True))
    assert not core.causal
    assert float(core.seq_q) == seq
    assert pairs(core) == pytest.approx(brute_pairs(seq, window, kind), rel=1e-12)


def test_layers_without_the_window_see_everything():
    arch = Architecture("w", 2, 64, 4, 4, 16, 256, 100, window=8)
    core = kernel(core_attention(arch, Batch(3, 64), LayerPlan(), window=False))
    assert (core.batch, core.seq_q, core.seq_k, core.causal) == (3, 64, 64, True)


CONTEXTS = ["p2p", "all-gather", "all-to-all"]


@given(
    st.sampled_from(CONTEXTS),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["full", "sliding", "chunked"]),
    st.sampled_from(["forward", "dgrad"]),
)
def test_context_ranks_share_the_pairs_evenly(context, cp, tp, kind, which):
    """Whatever they exchange, the calls of all ranks together compute the pairs of one rank alone."""
    window = kind != "full"
    arch = Architecture(
        "c", 2, 64, 16, 16, 16, 256, 100, window=100 if window else 0, window_kind=kind if window else "sliding"
    )
    seq = 512

    def all_pairs(ranks):
        plan = LayerPlan(tp=tp, cp=ranks, context=context)
        core = kernel(core_attention(arch, Batch(1, seq, ranks), plan, window), which)
        calls = ranks if context == "p2p" else 1
        return ranks * tp * calls * float(core.heads) * pairs(core)

    if context == "all-to-all" and (16 // tp) % cp:
        return
    expected = 16 * (brute_pairs(seq, 100, kind) if window else seq * seq / 2)
    if context == "all-to-all" and window and cp > 1:
        return  # see the next test
    assert all_pairs(cp) == pytest.approx(expected, rel=1e-12)


def test_a_window_stays_a_window_when_heads_are_exchanged():
    arch = Architecture("c", 2, 64, 16, 16, 16, 256, 100, window=100)
    one, many = (
        kernel(core_attention(arch, Batch(1, 512, cp), LayerPlan(cp=cp, context="all-to-all"), True)) for cp in (1, 4)
    )
    assert 4 * float(many.heads) * pairs(many) == pytest.approx(float(one.heads) * pairs(one))


def test_a_ring_step_sends_a_block_of_keys_and_values():
    """131,072 tokens over 16 ranks, 8 key heads over tp 8: 4,194,304 B; twice that backward (with their gradients)."""
    core = core_attention(LLAMA, Batch(1, 131072, 16), LayerPlan(tp=8, cp=16))
    assert core.exchange == "context"
    assert float(core.bytes) == 4_194_304
    assert float(core.bytes_back) == 2 * 4_194_304
    step = kernel(core)
    assert 4.0 * float(step.heads) * step.head_dim * pairs(step) == pytest.approx(2.7488e11, rel=1e-4)


def test_a_single_context_rank_exchanges_nothing():
    assert core_attention(LLAMA, Batch(1, 4096), LayerPlan(tp=8)).exchange == "none"


def test_exchanged_heads_carry_queries_keys_values_and_outputs():
    """Jacobs et al. 2023: (2a + 2g) d / t values of each of the rank's tokens, two bytes each."""
    core = core_attention(LLAMA, Batch(1, 8192, 4), LayerPlan(tp=2, cp=4, context="all-to-all"))
    assert float(core.bytes) == 2.0 * 2048 * (2 * 128 + 2 * 8) * 128 / 2
    call = kernel(core)
    assert (call.seq_q, call.seq_k, call.causal) == (8192, 8192, True)
    assert float(call.heads) == 128 / 2 / 4
    assert float(call.kv_heads) == 1


def test_keys_are_held_once_by_more_ranks_than_heads():
    core = core_attention(LLAMA, Batch(1, 8192, 2), LayerPlan(tp=16, cp=2))
    assert float(core.bytes) == 2.0 * 4096 * 1 * (128 + 128)


def test_unfused_attention_is_products_around_a_softmax():
    core = core_attention(LLAMA, Batch(2, 256), LayerPlan(tp=8, attention="unfused"))
    scores, softmax, values = core.forward
    assert (scores.m, scores.n, scores.k, scores.batch) == (256, 256, 128, 2 * 16)
    assert (values.m, values.n, values.k, values.batch) == (256, 128, 256, 2 * 16)
    assert softmax.bytes == 4.0 * 32 * 256**2


def test_arrays_broadcast_over_sequences():
    lengths = np.array([1024, 4096])
    core = kernel(core_attention(LLAMA, Batch(1, lengths, 4), LayerPlan(tp=8, cp=4, context="all-gather")))
    for index, length in enumerate(lengths):
        alone = kernel(core_attention(LLAMA, Batch(1, int(length), 4), LayerPlan(tp=8, cp=4, context="all-gather")))
        assert (core.seq_q[index], core.seq_k[index]) == (alone.seq_q, alone.seq_k)
