"""Bytes of an element by what it is kept for, under each precision recipe.

| precision | a linear's kept input, a cached weight | everything else |
|---|---|---|
| fp32, tf32 | 4 | 4 |
| bf16, fp16 | 2 | 2 |
| fp8 (one scale a tensor) | 1 | 2 |
| fp8-block (fp32 scale for 128 values) | 1 + 4/128 | 2 |
| mxfp8 (1-byte scale for 32 values) | 1 + 1/32 | 2 |
| nvfp4 (1-byte scale for 16 values) | 1/2 + 1/16 | 2 |

Formats: Micikevicius et al. 2022 (FP8), Open Compute Project 2023 (microscaling), DeepSeek-AI 2024 (blocks), NVIDIA
2025 (NVFP4). Frameworks that keep low-precision weights through a step (NVIDIA/TransformerEngine) also keep the inputs
of linears in that format; those that cast anew each time (pytorch/ao) keep them in 16 bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simcluster.timing.software import SoftwareFamily

LOW_BYTES: Mapping[str, float] = MappingProxyType(
    {"fp8": 1.0, "fp8-block": 1.0 + 4.0 / 128, "mxfp8": 1.0 + 1.0 / 32, "nvfp4": 0.5 + 1.0 / 16}
)
WIDE_BYTES = 4.0
CACHED_COPIES = 2  # one for the forward and one turned for the input gradient


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of an element that a layer keeps.

    stream   what operators hand to each other: gate and up, latents, outputs of experts
    norm     inputs of norms (the residual stream)
    inputs   inputs of linears
    core     query, key, value and output of attention
    """

    stream: float = 2.0
    norm: float = 2.0
    inputs: float = 2.0
    core: float = 2.0


def element_bytes(precision: str) -> float:
    """Bytes of an activation's element, and of a weight that a GEMM reads.

    >>> element_bytes("tf32"), element_bytes("bf16"), element_bytes("mxfp8")
    (4.0, 2.0, 2.0)
    """
    return WIDE_BYTES if precision in ("fp32", "tf32") else 2.0


def activation_widths(precision: str, software: SoftwareFamily) -> Widths:
    """Widths of what a layer keeps; a norm that is not fused keeps its input in fp32.

    >>> activation_widths("fp8", SoftwareFamily("te", fp8_weight_cache=True))
    Widths(stream=2.0, norm=2.0, inputs=1.0, core=2.0)
    """
    stream = element_bytes(precision)
    low = precision in LOW_BYTES
    return Widths(
        stream=stream,
        norm=stream if software.fused_norm else max(stream, WIDE_BYTES),
        inputs=LOW_BYTES[precision] if low and software.fp8_weight_cache else stream,
        core=1.0 if low and software.fp8_attention else stream,
    )


def gathered_bytes(precision: str, software: SoftwareFamily) -> float:
    """Bytes of an element of a sharded layer while its weights are gathered.

    >>> gathered_bytes("fp8", SoftwareFamily("titan", fp8_param_gather=True))
    1.0
    """
    return LOW_BYTES[precision] if precision in LOW_BYTES and software.fp8_param_gather else element_bytes(precision)


def cached_bytes(precision: str, software: SoftwareFamily) -> float:
    """Bytes per weight of the copies of whole weights that stay through a step beside the stored ones.

    Low-precision copies in both directions (estimate: one suffices where a GEMM reads either layout); the 16-bit cast
    of weights stored in fp32 (autocast).

    >>> cached_bytes("mxfp8", SoftwareFamily("te", fp8_weight_cache=True)) == 2 * (1 + 1 / 32)
    True
    >>> cached_bytes("bf16", SoftwareFamily("amp", parameter_storage="fp32"))
    2.0
    """
    if precision in LOW_BYTES:
        return CACHED_COPIES * LOW_BYTES[precision] if software.fp8_weight_cache or software.fp8_param_gather else 0.0
    return element_bytes(precision) if software.parameter_storage == "fp32" and element_bytes(precision) < 4 else 0.0
