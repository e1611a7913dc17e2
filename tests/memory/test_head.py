"""Bytes of the head against counts of what is alive."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.memory.head import CROSS_ENTROPY, head_activations, logits, logits_peak_bytes, logits_saved_bytes
from simcluster.shapes import Architecture

GPT3 = Architecture("gpt-3", 96, 12288, 96, 96, 128, 49152, 51200)


def test_korthikanti_terms_of_the_last_stage():
    """4 s b h (1 + v/h) / t bytes of final norm, head and loss (Korthikanti et al. 2022), s 2048, b 1, t 8."""
    kept = sum(head_activations(GPT3, 2048, residual_shards=8).values())
    kept += logits_saved_bytes(logits(GPT3, 2048, tp=8), "unfused")
    assert kept == pytest.approx(4 * 2048 * 12288 * (1 + 51200 / 12288) / 8)


def test_a_model_without_final_norm_keeps_one_input():
    bare = replace(GPT3, final_norm=False)
    assert head_activations(bare, 100) == {"head.input": 2 * 100 * 12288}
    assert head_activations(bare, 100, element_bytes=4.0) == {"head.input": 4 * 100 * 12288}


def test_logits_are_those_of_the_padded_vocabulary():
    """50,257 rows padded to a multiple of 128 x 8 = 51,200 (NVIDIA/Megatron-LM), an eighth on each rank."""
    gpt2 = replace(GPT3, vocab=50257)
    assert logits(gpt2, 10, tp=8) == 10 * 51200 / 8
    assert logits(gpt2, 10, tp=1) == 10 * 50304
    assert logits(gpt2, 10, tp=1, vocab_multiple=1) == 10 * 50257


@pytest.mark.parametrize(
    ("kind", "element", "kept", "alive"),
    [
        ("unfused", 2.0, 4, 2 + 4 + 4),  # 16-bit logits, their fp32 copy, fp32 softmax or gradient
        ("unfused", 4.0, 4, 4 + 4),  # no copy
        ("fused", 2.0, 2, 2 + 2),  # logits and their gradient
        ("fused", 4.0, 4, 4 + 4),
    ],
)
def test_bytes_of_a_logit(kind, element, kept, alive):
    assert logits_saved_bytes(1.0, kind, element) == kept
    assert logits_peak_bytes(1.0, kind, element) == alive


@given(st.floats(0, 1e12), st.sampled_from(sorted(CROSS_ENTROPY)), st.sampled_from([2.0, 4.0]))
def test_the_peak_holds_what_is_kept_and_fusing_never_costs(count, kind, element):
    assert logits_saved_bytes(count, kind, element) <= logits_peak_bytes(count, kind, element)
    assert logits_peak_bytes(count, "fused", element) <= logits_peak_bytes(count, "unfused", element)
    assert logits_saved_bytes(count, "fused", element) <= logits_saved_bytes(count, "unfused", element)


def test_arrays_broadcast():
    tokens, tp = np.array([[512], [1024]]), np.array([1, 2, 4])
    counts = logits(GPT3, tokens, tp)
    assert np.shape(counts) == (2, 3)
    assert np.asarray(logits_peak_bytes(counts))[1, 2] == 10 * 1024 * 51200 / 4


@pytest.mark.parametrize("size", [logits_peak_bytes, logits_saved_bytes])
def test_an_unknown_loss_is_refused(size):
    with pytest.raises(InputError, match=r"did you mean 'fused'\? known: unfused, fused"):
        size(1.0, "fussed")
