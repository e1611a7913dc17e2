"""Widths by precision recipe."""

from __future__ import annotations

import pytest

from simcluster.memory.precision import Widths, activation_widths, cached_bytes, gathered_bytes
from simcluster.timing.software import SoftwareFamily

ENGINE = SoftwareFamily("transformer-engine", fp8_weight_cache=True)
ANEW = SoftwareFamily("casts-anew", fp8_weight_cache=False, fp8_param_gather=True, fused_norm=False)


@pytest.mark.parametrize(
    ("precision", "inputs"),
    [("fp8", 1.0), ("fp8-block", 1.03125), ("mxfp8", 1.03125), ("nvfp4", 0.5625), ("bf16", 2.0), ("fp16", 2.0)],
)
def test_bytes_of_an_element_with_its_scales(precision: str, inputs: float) -> None:
    assert activation_widths(precision, ENGINE) == Widths(2.0, 2.0, inputs, 2.0)
    assert activation_widths(precision, ANEW) == Widths(2.0, 4.0, 2.0, 2.0)


@pytest.mark.parametrize("precision", ["tf32", "fp32"])
def test_32_bit_training_keeps_four_bytes_everywhere(precision: str) -> None:
    assert activation_widths(precision, ENGINE) == Widths(4.0, 4.0, 4.0, 4.0)
    assert gathered_bytes(precision, ANEW) == 4.0
    assert cached_bytes(precision, SoftwareFamily("amp", parameter_storage="fp32")) == 0.0


def test_attention_in_low_precision() -> None:
    widths = activation_widths("fp8", SoftwareFamily("te", fp8_weight_cache=True, fp8_attention=True))
    assert widths.core == widths.inputs == 1.0


def test_copies_of_weights() -> None:
    assert cached_bytes("fp8", ENGINE) == 2.0
    assert cached_bytes("fp8", SoftwareFamily("none", fp8_weight_cache=False)) == 0.0
    assert cached_bytes("bf16", ENGINE) == 0.0
    assert gathered_bytes("fp8", ANEW) == 1.0
    assert gathered_bytes("bf16", ANEW) == 2.0
