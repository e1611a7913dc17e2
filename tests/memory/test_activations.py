"""Activations of a layer against closed forms of Korthikanti et al. 2022 and worked examples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.memory.activations import embedding_activations, layer_activations
from simcluster.memory.inflight import in_flight_sets
from simcluster.memory.precision import Widths
from simcluster.memory.recompute import recompute_rules, saved
from simcluster.shapes import Architecture
from simcluster.workload.layers import LayerKind

GIB = 2**30


def gpt(layers: int, hidden: int, heads: int) -> Architecture:
    return Architecture(
        "gpt", layers, hidden, heads, heads, hidden // heads, 4 * hidden, 51200, gated_ffn=False, norm="layernorm"
    )


def layer_bytes(arch: Architecture, b: int, s: int, t: int, parallel: bool, recompute: str) -> float:
    layer = layer_activations(arch, b * s, s, t, sequence_parallel=parallel, attention="unfused", dropout=True)
    return sum(saved(layer, recompute_rules(recompute)).values())


@given(st.integers(1, 8), st.sampled_from([512, 2048]), st.sampled_from([1, 2, 8]), st.sampled_from([8, 96]))
def test_layer_equals_the_papers_formulas(b: int, s: int, t: int, a: int) -> None:
    h = 128 * a
    arch, sbh = gpt(1, h, a), s * b * h
    assert layer_bytes(arch, b, s, t, False, "none") == pytest.approx(
        sbh * (10 + 24 / t + 5 * a * s / (h * t)), rel=1e-14
    )
    assert layer_bytes(arch, b, s, t, True, "none") == pytest.approx(sbh / t * (34 + 5 * a * s / h), rel=1e-14)
    assert layer_bytes(arch, b, s, t, False, "selective") == pytest.approx(sbh * (10 + 24 / t), rel=1e-14)
    assert layer_bytes(arch, b, s, t, True, "selective") == pytest.approx(34 * sbh / t, rel=1e-14)
    assert layer_bytes(arch, b, s, t, False, "full") == 2 * sbh


@pytest.mark.parametrize(
    ("layers", "hidden", "heads", "b", "pp", "virtual", "base_gib", "best_gib"),
    [
        (48, 6144, 64, 4, 1, 1, 59.25, 9.5625),
        (96, 12288, 96, 1, 8, 3, 66.84375, 12.3515625),
        (105, 20480, 128, 1, 35, 3, 114.0234375, 23.076171875),
        (128, 25600, 160, 1, 64, 1, 131.25, 26.5625),
    ],
)
def test_first_stage_of_figure_1(
    layers: int, hidden: int, heads: int, b: int, pp: int, virtual: int, base_gib: float, best_gib: float
) -> None:
    arch = gpt(layers, hidden, heads)
    sets = in_flight_sets("1f1b", 0, pp, 16 * pp, virtual) * layers / pp
    assert layer_bytes(arch, b, 2048, 8, False, "none") * sets / GIB == pytest.approx(base_gib, rel=1e-12)
    assert layer_bytes(arch, b, 2048, 8, True, "selective") * sets / GIB == pytest.approx(best_gib, rel=1e-12)


def test_ratios_of_figure_7() -> None:
    arch = gpt(96, 12288, 96)
    base = layer_bytes(arch, 1, 2048, 8, False, "none")
    cases = {(True, "none"): 14.25, (False, "selective"): 13, (True, "selective"): 4.25, (False, "full"): 2}
    for (parallel, mode), numerator in cases.items():
        assert layer_bytes(arch, 1, 2048, 8, parallel, mode) / base == pytest.approx(numerator / 23, rel=1e-12)


LLAMA_7B = Architecture("llama-7b", 32, 4096, 32, 32, 128, 11008, 32000)
LLAMA_8B = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)
LLAMA_13B = Architecture("llama-13b", 40, 5120, 40, 40, 128, 13824, 32000)
LLAMA_70B = Architecture("llama-2-70b", 80, 8192, 64, 8, 128, 28672, 32000)
LLAMA_65B = Architecture("llama-65b", 80, 8192, 64, 64, 128, 22016, 32000)


@pytest.mark.parametrize(
    ("arch", "s", "mb", "mb_tp8"),
    [
        (LLAMA_7B, 4096, 539.492, 67.437),
        (LLAMA_8B, 8192, 1141.899, 142.737),
        (LLAMA_13B, 4096, 675.938, 84.492),
        (LLAMA_70B, 4096, 1125.122, 140.640),
        (LLAMA_65B, 2048, 539.492, 67.437),
    ],
)
def test_worked_examples_of_the_flash_form(arch: Architecture, s: int, mb: float, mb_tp8: float) -> None:
    whole = sum(layer_activations(arch, s, s).values())
    assert whole / 1e6 == pytest.approx(mb, abs=6e-4)
    eighth = sum(layer_activations(arch, s, s, 8, sequence_parallel=True).values())
    assert eighth / 1e6 == pytest.approx(mb_tp8, abs=6e-4)
    assert eighth * 8 == pytest.approx(whole, rel=1e-14)


def test_options_add_their_tensors() -> None:
    base = sum(layer_activations(LLAMA_7B, 100, 100).values())
    unfused = layer_activations(LLAMA_7B, 100, 100, fused_activation=False, widths=Widths(norm=4.0))
    assert sum(unfused.values()) - base == 2 * 100 * 11008 + 2 * 2 * 100 * 4096
    normed = layer_activations(replace(LLAMA_8B, qk_norm="head"), 100, 100)
    assert normed["attention.qk_norm_input"] == 2 * 100 * (32 + 8) * 128
    shared = layer_activations(replace(LLAMA_7B, parallel_block=True, norms_per_layer=1), 100, 100)
    assert base - sum(shared.values()) == 2 * 2 * 100 * 4096  # one norm's input and one input less
    assert embedding_activations(replace(LLAMA_7B, embedding_norm=True), 10)["embedding.norm_input"] == 2 * 10 * 4096


def test_arrays_equal_scalars() -> None:
    tokens, tp = np.array([[512], [4096]]), np.array([1, 2, 8, 16])
    arrays = layer_activations(LLAMA_8B, tokens, tokens, tp, sequence_parallel=True, attention="unfused", dropout=True)
    for i, s in enumerate([512, 4096]):
        for j, t in enumerate([1, 2, 8, 16]):
            one = layer_activations(LLAMA_8B, s, s, t, sequence_parallel=True, attention="unfused", dropout=True)
            assert {name: size[i, j] for name, size in arrays.items()} == one


def test_context_parallel_ranks_that_exchange_heads_hold_one_at_least() -> None:
    def keys(cp: int, context: str) -> float:
        return layer_activations(LLAMA_8B, 8192 / cp, 8192, 4, cp=cp, context=context)["attention.key_value"]

    assert keys(2, "all-to-all") == keys(2, "p2p")  # eight heads over 4 x 2 ranks
    assert keys(8, "all-to-all") == 4 * keys(8, "p2p")  # a head for each of 32 ranks


def test_attention_over_context_ranks_is_fused() -> None:
    cp = np.array([1, 2])
    both = layer_activations(LLAMA_8B, 8192 / cp, 8192, cp=cp, attention="unfused")
    assert (both["attention.map"] > 0).tolist() == [True, False]
    assert (both["attention.statistics"] > 0).tolist() == [False, True]
    assert "attention.map" not in layer_activations(LLAMA_8B, 4096, 8192, cp=2)


def test_windows_keep_what_full_attention_keeps() -> None:
    windowed = replace(LLAMA_8B, window=1024)
    kept = layer_activations(windowed, 8192, 8192, kind=LayerKind("dense", "window"))
    assert kept == layer_activations(LLAMA_8B, 8192, 8192)


def test_low_precision_narrows_inputs_of_linears_alone() -> None:
    wide, low = (layer_activations(LLAMA_8B, 512, 512, widths=w) for w in (Widths(), Widths(inputs=1.0)))
    inputs = ("attention.input", "mlp.input", "mlp.activation")
    assert all(low[name] == wide[name] / 2 for name in inputs)
    assert low.pop("attention.projection_input") == wide["attention.output"] / 2
    assert all(low[name] == wide[name] for name in low if name not in inputs)
