"""Logits and loss of the stage that owns the head.

With n = S·Vp/t logits on a rank (S tokens, Vp padded vocabulary):

| cross entropy | kept until its backward | peak | what is alive at the peak |
|---|---|---|---|
| unfused | 4 n | 10 n | 16-bit logits 2, their fp32 copy 4, fp32 softmax or gradient 4 |
| fused | 2 n | 4 n | 16-bit logits 2, gradient written in place or beside them 2 (estimate: 2 to 4 by implementation) |

Logits of four bytes need no copy: unfused 4 n and 8 n, fused 4 n and 8 n.

The kept 4 n and the kept inputs of final norm and head are those of Korthikanti et al. 2022.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simcluster.memory.names import look_up
from simcluster.memory.parameters import vocabulary_rows
from simcluster.shapes import Architecture, Num


@dataclass(frozen=True, slots=True)
class CrossEntropy:
    """Bytes per logit: kept between forward and backward, and alive at the peak, for logits of two and four bytes."""

    saved: tuple[float, float]
    peak: tuple[float, float]


CROSS_ENTROPY: Mapping[str, CrossEntropy] = MappingProxyType(
    {"unfused": CrossEntropy((4.0, 4.0), (10.0, 8.0)), "fused": CrossEntropy((2.0, 4.0), (4.0, 8.0))}
)


def head_activations(
    arch: Architecture, tokens: Num, residual_shards: Num = 1, element_bytes: float = 2.0
) -> dict[str, Num]:
    """Inputs of the final norm and of the head [bytes]: 2Sh/r each.

    >>> sum(head_activations(Architecture("m", 2, 64, 4, 4, 16, 256, 100), 10).values())
    2560.0
    """
    stream = element_bytes * tokens * arch.hidden / residual_shards
    return ({"head.norm_input": stream} if arch.final_norm else {}) | {"head.input": stream}


def logits(arch: Architecture, tokens: Num, tp: Num = 1, vocab_multiple: int = 128) -> Num:
    """Logits of one micro-batch on one rank [count]: S·Vp/t.

    >>> logits(Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256), 8192)
    1050673152.0
    """
    return tokens * vocabulary_rows(arch, tp, vocab_multiple)


def logits_peak_bytes(count: Num, cross_entropy: str = "unfused", element_bytes: float = 2.0) -> Num:
    """Bytes alive while the loss of one micro-batch is computed.

    >>> round(logits_peak_bytes(1050673152, "unfused") / 1e9, 2), round(logits_peak_bytes(1050673152, "fused") / 1e9, 2)
    (10.51, 4.2)
    """
    return count * look_up(CROSS_ENTROPY, cross_entropy, "cross entropy").peak[element_bytes > 2.0]


def logits_saved_bytes(count: Num, cross_entropy: str = "unfused", element_bytes: float = 2.0) -> Num:
    """Bytes that one micro-batch's loss keeps from its forward to its backward.

    >>> logits_saved_bytes(100, "unfused")
    400.0
    """
    return count * look_up(CROSS_ENTROPY, cross_entropy, "cross entropy").saved[element_bytes > 2.0]
