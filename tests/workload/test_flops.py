"""FLOPs against worked numbers, closed forms of the literature and published utilisations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.memory.recompute import MODULES
from simcluster.shapes import Architecture
from simcluster.workload import flops
from simcluster.workload.flops import AttentionFlops
from simcluster.workload.layers import attended_pairs
from simcluster.workload.parameters import head_parameters

FULL, CAUSAL = AttentionFlops.FULL, AttentionFlops.CAUSAL
A100_BF16 = 312e12

LLAMA_2_7B = Architecture("llama-2-7b", 32, 4096, 32, 32, 128, 11008, 32000)
LLAMA_13B = Architecture("llama-2-13b", 40, 5120, 40, 40, 128, 13824, 32000)
LLAMA_3_8B = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
LLAMA_3_70B = Architecture("llama-3-70b", 80, 8192, 64, 8, 128, 28672, 128256)
LLAMA_31_405B = Architecture("llama-3.1-405b", 126, 16384, 128, 8, 128, 53248, 128256)


def gpt(layers, hidden, heads, vocab):
    return Architecture("gpt", layers, hidden, heads, heads, hidden // heads, 4 * hidden, vocab, gated_ffn=False)


# layers, hidden, heads, batch = GPUs, step with full recompute, step with selective recompute [s], model PFLOP,
# MFU and HFU with selective recompute: Korthikanti et al. 2022, tables 3 and 5
KORTHIKANTI = {
    "22b": (48, 6144, 64, (4, 8), 1.42, 1.10, 1.14356, 0.417, 0.438),
    "175b": (96, 12288, 96, (64, 64), 18.13, 13.75, 141.0915, 0.514, 0.528),
    "530b": (105, 20480, 128, (280, 280), 49.05, 37.83, 1852.230, 0.560, 0.570),
    "1t": (128, 25600, 160, (512, 512), 94.42, 71.49, 6425.876, 0.563, 0.570),
}

gpts = st.builds(
    gpt, st.integers(1, 150), st.integers(1, 200).map(lambda n: 128 * n), st.just(128), st.integers(1, 300_000)
)
sequences = st.integers(1, 200_000)
batches = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("arch", "seq", "linear", "causal", "full"),
    [
        (LLAMA_2_7B, 4096, 39_642_464_256, 42.864, 46.085),
        (LLAMA_13B, 4096, 77_109_657_600, 82.143, 87.176),
        (LLAMA_3_8B, 8192, 45_027_950_592, 51.470, 57.913),
        (LLAMA_3_70B, 8192, 417_010_286_592, 449.223, 481.435),
        (LLAMA_31_405B, 8192, 2_422_487_384_064, 2523.956, 2625.425),
    ],
)
def test_worked_flops_per_token(arch, seq, linear, causal, full):
    assert flops.model_flops_per_token(arch, 0, FULL) == linear
    assert flops.model_flops_per_token(arch, seq, CAUSAL) / 1e9 == pytest.approx(causal, abs=5e-4)
    assert flops.model_flops_per_token(arch, seq, FULL) / 1e9 == pytest.approx(full, abs=5e-4)


@pytest.mark.parametrize("size", KORTHIKANTI)
def test_korthikanti_table_5(size):
    layers, hidden, heads, (batch, gpus), _, step_s, model_pflop, mfu, hfu = KORTHIKANTI[size]
    step = flops.step_flops(gpt(layers, hidden, heads, 51200), 2048, batch, FULL, "selective")
    assert step.model / 1e15 == pytest.approx(model_pflop, rel=1e-5)
    assert step.mfu(step_s, gpus, A100_BF16) == pytest.approx(mfu, abs=1e-3)
    printed = flops.korthikanti_hardware_flops(batch, 2048, layers, hidden, 51200)
    assert flops.hfu(printed, step_s, gpus, A100_BF16) == pytest.approx(hfu, abs=1e-3)
    assert step.model < step.executed < printed  # the paper counts attention three times more, it runs once more


def test_overhead_of_selective_recompute():
    """0.9 % is executed for GPT-3 175B; the paper's formula says 2.7 %."""
    step = flops.step_flops(gpt(96, 12288, 96, 51200), 2048, 64, FULL, "selective")
    printed = flops.korthikanti_hardware_flops(64, 2048, 96, 12288, 51200)
    assert step.executed / step.model - 1 == pytest.approx(0.009, abs=5e-4)
    assert printed / step.model - 1 == pytest.approx(0.027, abs=5e-4)


def test_palm_540b_utilisation():
    """46.2 % with and 45.7 % without attention, 238.3e3 tokens/s on 6144 TPU v4 (Chowdhery et al. 2022)."""
    peak = 6144 * 275e12
    per_token = flops.palm_flops_per_token(540.35e9, 118, 48, 256, 2048)
    assert per_token * 238.3e3 / peak == pytest.approx(0.46229, abs=1e-5)
    assert flops.palm_flops_per_token(540.35e9, 118, 48, 256, 0) * 238.3e3 / peak == pytest.approx(0.45726, abs=1e-5)


@pytest.mark.parametrize(
    ("parameters", "tokens", "gpus", "rate", "days"),
    [(175e9, 300e9, 1024, 140e12, 33.9), (1e12, 450e9, 3072, 163e12, 83.2)],
)
def test_narayanan_training_days(parameters, tokens, gpus, rate, days):
    assert flops.narayanan_training_days(parameters, tokens, gpus, rate) == pytest.approx(days, abs=0.05)


def test_llama_3_405b_step_at_400_tflops():
    """16 Mi tokens a step on 16384 GPUs at 400 TFLOP/s each: 6.46 s (Llama team 2024, causal FLOPs)."""
    model = flops.model_flops_per_step(LLAMA_31_405B, 8192, 2048, CAUSAL)
    assert model / (16384 * 400e12) == pytest.approx(6.46, abs=5e-3)


@given(gpts, sequences, batches)
def test_gpt_identity_of_korthikanti(arch, seq, batch):
    """72BLsh²(1 + s/(6h) + V/(12hL)) in exact arithmetic."""
    h, layers = arch.hidden, arch.layers
    exact = 72 * layers * h**2 * (1 + Fraction(seq, 6 * h) + Fraction(arch.vocab, 12 * h * layers))
    assert flops.model_flops_per_token(arch, seq, FULL) == exact
    closed = flops.korthikanti_model_flops(batch, seq, layers, h, arch.vocab)
    assert closed == pytest.approx(flops.model_flops_per_step(arch, seq, batch, FULL), rel=1e-13)


@given(gpts, sequences, batches)
def test_gpt_identity_of_narayanan(arch, seq, batch):
    """Full recompute runs 96BLsh²(1 + s/(6h) + V/(16hL)), in exact arithmetic per token."""
    h, layers = arch.hidden, arch.layers
    per_token = flops.model_flops_per_token(arch, seq, FULL)
    again = flops.recompute_flops_per_token(arch, seq, FULL, "full")
    assert per_token + again == 96 * layers * h**2 * (1 + Fraction(seq, 6 * h) + Fraction(arch.vocab, 16 * h * layers))
    executed = flops.step_flops(arch, seq, batch, FULL, "full").executed
    assert flops.narayanan_flops(batch, seq, layers, h, arch.vocab) == pytest.approx(executed, rel=1e-13)


@given(gpts, sequences)
def test_selective_recompute_identity(arch, seq):
    """72BLsh²(1 + 2s/(9h) + V/(12hL)) when the core of attention runs once more."""
    h, layers = arch.hidden, arch.layers
    per_token = flops.model_flops_per_token(arch, seq, FULL)
    again = flops.recompute_flops_per_token(arch, seq, FULL, "selective")
    closed = 72 * layers * h**2 * (1 + Fraction(2 * seq, 9 * h) + Fraction(arch.vocab, 12 * h * layers))
    assert per_token + again == closed


@given(gpts, sequences, st.sampled_from(AttentionFlops))
def test_training_is_three_forward_passes_and_causal_is_half_of_attention(arch, seq, attention):
    assert flops.model_flops_per_token(arch, seq, attention) == 3 * flops.forward_flops_per_token(arch, seq, attention)
    core = flops.core_attention_flops(arch, seq, FULL)
    assert core == 2 * flops.core_attention_flops(arch, seq, CAUSAL) == 4 * seq * arch.hidden
    difference = flops.model_flops_per_token(arch, seq, FULL) - flops.model_flops_per_token(arch, seq, CAUSAL)
    assert 2 * difference == 3 * arch.layers * core


@given(gpts, sequences, batches, st.sampled_from(AttentionFlops), st.sampled_from(flops.RECOMPUTE_MODES))
def test_hfu_is_never_below_mfu(arch, seq, batch, attention, recompute):
    step = flops.step_flops(arch, seq, batch, attention, recompute)
    at_peak_s = step.executed / (64 * A100_BF16)
    mfu, hfu = step.mfu(at_peak_s, 64, A100_BF16), step.hfu(at_peak_s, 64, A100_BF16)
    assert 0 < mfu <= hfu == pytest.approx(1.0)
    assert (mfu == hfu) == (recompute == "none")


@given(gpts, sequences, st.sampled_from(AttentionFlops))
def test_full_recompute_adds_a_third_without_the_head(arch, seq, attention):
    """Hardware to model FLOPs = 4/3 in the limit of no vocabulary, less with one."""
    headless = flops.step_flops(replace(arch, vocab=0), seq, 1, attention, "full")
    assert headless.executed / headless.model == pytest.approx(4 / 3, rel=1e-13)
    step = flops.step_flops(arch, seq, 1, attention, "full")
    assert step.executed / step.model < 4 / 3


@given(gpts, sequences)
def test_the_parts_of_a_layer_make_the_layer(arch, seq):
    def again(modules):
        return flops.recompute_flops_per_token(arch, seq, CAUSAL, modules)

    forward = flops.forward_flops_per_token(arch, seq, CAUSAL)
    assert again(["attention", "mlp"]) == again("full") == forward - 2 * head_parameters(arch)
    assert again(["core_attn", "layernorm", "mlp_act"]) == again("selective")
    assert again(["layer", "mlp", "core_attn"]) == again("full")  # what a module contains is not run twice
    assert again([]) == again("none") == 0


def test_every_other_matmul_runs_key_output_and_gate_again():
    h, kv, f = 4096, 8 * 128, 14336
    again = flops.recompute_flops_per_token(LLAMA_3_8B, 8192, CAUSAL, ["every-other-matmul"])
    assert again == 32 * 2 * (h * kv + h * h + h * f)


def test_every_module_that_saves_memory_has_its_flops():
    assert set(MODULES) <= set(flops.RECOMPUTE_MODULES)


def test_recomputing_some_of_the_layers():
    some = flops.step_flops(LLAMA_2_7B, 4096, 8, CAUSAL, "full", recompute_layers=np.array([0, 8, 32]))
    whole = flops.step_flops(LLAMA_2_7B, 4096, 8, CAUSAL, "full")
    extra = some.executed - some.model
    assert extra[0] == 0
    assert extra[1] == pytest.approx((whole.executed - whole.model) / 4)
    assert some.executed[2] == whole.executed


def test_unknown_recompute_names_come_all_at_once():
    with pytest.raises(InputError, match=r"recompute 'selectiv'; did you mean selective\?"):
        flops.recompute_modules("selectiv")
    with pytest.raises(InputError) as caught:
        flops.recompute_modules(["core_atn", "mlp", "router"])
    assert len(caught.value.problems) == 2
    assert "did you mean core_attn?" in str(caught.value)


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=20))
def test_packed_lengths_cost_less_than_one_long_sequence(lengths):
    packed = flops.model_flops_of_lengths(LLAMA_2_7B, np.array(lengths), FULL)
    one = flops.model_flops_per_step(LLAMA_2_7B, sum(lengths), 1, FULL)
    linear = flops.model_flops_per_token(LLAMA_2_7B, 0, FULL) * sum(lengths)
    squares = 12 * 32 * 4096 * sum(length**2 for length in lengths)
    assert packed == pytest.approx(linear + squares, rel=1e-12)
    assert packed <= one * (1 + 1e-12)


def test_arrays_broadcast_and_do_not_overflow():
    """FLOPs of a large step exceed 64-bit integers; integer arrays must not wrap."""
    seq, batch = np.array([8192, 131072]), np.array([[2048], [16384]])
    for attention in AttentionFlops:
        table = flops.step_flops(LLAMA_31_405B, seq, batch, attention, "full")
        for row, sequences_ in enumerate((2048, 16384)):
            for column, length in enumerate((8192, 131072)):
                one = flops.step_flops(LLAMA_31_405B, length, sequences_, attention, "full")
                assert table.model[row, column] == pytest.approx(one.model, rel=1e-14)
                assert table.executed[row, column] == pytest.approx(one.executed, rel=1e-14)
    closed = flops.narayanan_flops(batch, seq, 128, 25600, 51200)
    assert np.all(closed > 1e19)


def test_the_convention_travels_with_the_figure():
    assert flops.step_flops(LLAMA_2_7B, 4096, 1, CAUSAL).attention == "causal"
    assert AttentionFlops("full") is FULL


@given(gpts, sequences, st.integers(1, 400_000))
def test_padding_costs_the_head_only(arch, seq, vocab):
    assume(vocab >= arch.vocab)
    padded = flops.model_flops_per_token(arch, seq, CAUSAL, vocab)
    extra = 6 * arch.hidden * (vocab - arch.vocab)
    assert padded - flops.model_flops_per_token(arch, seq, CAUSAL) == extra


# Experts, latent attention, windows, multi-token prediction

MIXTRAL = Architecture("mixtral-8x7b", 32, 4096, 32, 8, 128, 14336, 32000, experts=8, top_k=2, expert_ffn=14336)
DEEPSEEK_V3 = Architecture(
    "deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048,
    dense_layers=3, router_bias=True, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128,
)  # fmt: skip


def test_modules_of_deepseek_v3_by_hand():
    """58 layers of experts and 3 dense ones; a token passes 8 routed experts, the shared one and the router."""
    h, f = 7168, 2048

    def again(*modules):
        return flops.recompute_flops_per_token(DEEPSEEK_V3, 4096, CAUSAL, list(modules))

    assert again("mlp") == 3 * 2 * 3 * h * 18432
    assert again("shared_experts") == 58 * 2 * 3 * h * f
    assert again("moe") == 58 * 2 * (9 * 3 * h * f + 256 * h)
    assert again("mla_up_proj") == 61 * 2 * 128 * (1536 * 192 + 512 * (128 + 128))
    assert again("moe", "shared_experts") == again("moe")
    assert again("attention", "mla_up_proj") == again("attention")
    assert again("layer") == again("attention", "mlp", "moe")


windows = st.builds(
    lambda window, kind, every: {"window": window, "window_kind": kind, "full_every": every},
    st.integers(1, 300),
    st.sampled_from(["sliding", "chunked"]),
    st.integers(0, 4),
)


def visible(seq: int, window: int, kind: str, *, causal: bool) -> int:
    """Pairs that a mask of this kind leaves, counted one by one."""
    query, key = np.arange(seq)[:, None], np.arange(seq)[None, :]
    mask = np.ones((seq, seq), dtype=bool)
    if causal:
        mask &= key <= query
    if window and kind == "chunked":
        mask &= query // window == key // window
    elif window:
        mask &= query - key < window
    return int(mask.sum())


def test_a_mixture_runs_the_weights_of_the_experts_that_a_token_reaches():
    """A dense model of the same widths runs as many FLOPs as one expert more or less and the router."""
    dense = replace(MIXTRAL, experts=0, top_k=0, expert_ffn=0)
    more = flops.model_flops_per_token(MIXTRAL, 4096, CAUSAL) - flops.model_flops_per_token(dense, 4096, CAUSAL)
    assert more == 6 * 32 * (3 * 4096 * 14336 + 4096 * 8)


def test_deepseek_v3_costs_the_worked_flops():
    assert flops.model_flops_per_token(DEEPSEEK_V3, 4096, CAUSAL) / 1e9 == pytest.approx(250.450, abs=5e-4)
    core = flops.core_attention_flops(DEEPSEEK_V3, 4096, CAUSAL)
    assert core == 4096 * 128 * (192 + 128)


def test_each_further_token_costs_a_layer_a_projection_and_a_head():
    further = replace(DEEPSEEK_V3, mtp_depth=2)
    one_more = flops.model_flops_per_token(replace(DEEPSEEK_V3, layers=62), 4096, CAUSAL)
    layer = one_more - flops.model_flops_per_token(DEEPSEEK_V3, 4096, CAUSAL)
    extra = flops.model_flops_per_token(further, 4096, CAUSAL) - flops.model_flops_per_token(DEEPSEEK_V3, 4096, CAUSAL)
    assert extra == 2 * (layer + 6 * (2 * 7168**2 + 7168 * 129280))
    padded = flops.model_flops_per_token(further, 4096, CAUSAL, 129_536)
    assert padded - flops.model_flops_per_token(further, 4096, CAUSAL) == 6 * 3 * 7168 * (129_536 - 129_280)


@given(st.integers(1, 80), st.integers(0, 90), st.sampled_from(["sliding", "chunked"]))
def test_pairs_are_those_of_the_mask(seq, window, kind):
    assert attended_pairs(seq, window, kind) == visible(seq, window, kind, causal=True)
    if kind == "chunked" or window == 0:
        assert attended_pairs(seq, window, kind, causal=False) == visible(seq, window, kind, causal=False)
    else:
        assert attended_pairs(seq, window, kind, causal=False) == seq * min(seq, window)


def test_pairs_broadcast():
    seq = np.array([1, 7, 4096, 131_072])
    for kind in ("sliding", "chunked"):
        assert attended_pairs(seq, 512, kind).tolist() == [attended_pairs(int(s), 512, kind) for s in seq]


@given(st.integers(1, 80), st.integers(1, 90), st.sampled_from(["sliding", "chunked"]))
def test_a_window_counts_its_pairs_with_the_diagonal_half(seq, window, kind):
    arch = replace(LLAMA_3_8B, window=window, window_kind=kind)
    exact = 2 * 32 * 256 * Fraction(2 * visible(seq, window, kind, causal=True) - seq, 2 * seq)
    assert flops.core_attention_flops(arch, seq, CAUSAL, "window") == pytest.approx(float(exact), rel=1e-12)
    assert flops.core_attention_flops(arch, seq, CAUSAL) == seq * 32 * 256


@given(windows, sequences)
def test_windows_never_add_and_long_ones_change_nothing(window, seq):
    for attention in AttentionFlops:
        full = flops.model_flops_per_token(LLAMA_3_8B, seq, attention)
        assert flops.model_flops_per_token(replace(LLAMA_3_8B, **window), seq, attention) <= full * (1 + 1e-12)
        longer = {**window, "window": seq}
        assert flops.model_flops_per_token(replace(LLAMA_3_8B, **longer), seq, attention) == pytest.approx(full)


@given(windows, st.integers(1, 3000))
def test_only_layers_with_a_window_save(window, seq):
    arch = replace(LLAMA_3_8B, **window)
    full_layers = sum(window["full_every"] > 0 and (i + 1) % window["full_every"] == 0 for i in range(32))
    each = flops.core_attention_flops(arch, seq, CAUSAL, "window")
    full = flops.core_attention_flops(arch, seq, CAUSAL)
    total = flops.attention_flops_per_token(arch, seq, CAUSAL)
    assert total == pytest.approx(full_layers * full + (32 - full_layers) * each)


def test_full_recompute_of_mixed_layers_runs_every_layer_once_more():
    for arch in (DEEPSEEK_V3, replace(DEEPSEEK_V3, mtp_depth=1), replace(MIXTRAL, window=128, full_every=2)):
        again = flops.recompute_flops_per_token(arch, 4096, CAUSAL, "full")
        depths = arch.mtp_depth
        outside = 2 * (1 + depths) * head_parameters(arch) + 2 * depths * 2 * arch.hidden**2
        assert again == pytest.approx(flops.forward_flops_per_token(arch, 4096, CAUSAL) - outside, rel=1e-12)
        parts = flops.recompute_flops_per_token(arch, 4096, CAUSAL, ["attention", "mlp", "moe"])
        assert parts == pytest.approx(again, rel=1e-12)
        half = flops.recompute_flops_per_token(arch, 4096, CAUSAL, "full", (arch.layers + depths) / 2)
        assert half == pytest.approx(again / 2)


def test_every_other_matmul_drops_grouped_products_but_the_last():
    again = flops.recompute_flops_per_token(MIXTRAL, 4096, CAUSAL, ["every-other-matmul"])
    h, kv, f = 4096, 8 * 128, 14336
    assert again == 32 * 2 * (h * kv + h * h + 2 * 2 * h * f)
