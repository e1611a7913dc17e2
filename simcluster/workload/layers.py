"""What each layer of a model is: a dense MLP or experts, attention over everything or within a window.

The rules are those of `shapes.Architecture`; every part of the package that walks over layers asks here, so that
parameters, FLOPs, operators and memory agree on which layer is which. Layers count from 0; those that predict further
tokens (multi-token prediction) follow the last one and obey the same rule.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from simcluster.shapes import Architecture, Num

MlpKind: TypeAlias = Literal["dense", "moe"]
AttentionKind: TypeAlias = Literal["full", "window"]


@dataclass(frozen=True, slots=True)
class LayerKind:
    """What one layer runs: `mlp` is "dense" or "moe", `attention` is "full" or "window"."""

    mlp: MlpKind = "dense"
    attention: AttentionKind = "full"


def layer_kind(arch: Architecture, index: int) -> LayerKind:
    """Kind of layer `index` (from 0).

    >>> deepseek = Architecture("d", 4, 64, 4, 4, 16, 256, 100, experts=8, top_k=2, expert_ffn=32, dense_layers=1)
    >>> [layer_kind(deepseek, index).mlp for index in range(4)]
    ['dense', 'moe', 'moe', 'moe']
    >>> gemma = Architecture("g", 4, 64, 4, 4, 16, 256, 100, window=128, full_every=2)
    >>> [layer_kind(gemma, index).attention for index in range(4)]
    ['window', 'full', 'window', 'full']
    """
    sparse = arch.experts > 0 and index >= arch.dense_layers and (index - arch.dense_layers + 1) % arch.moe_every == 0
    full = arch.window == 0 or (arch.full_every > 0 and (index + 1) % arch.full_every == 0)
    return LayerKind("moe" if sparse else "dense", "full" if full else "window")


def layer_kinds(arch: Architecture) -> tuple[LayerKind, ...]:
    """Kinds of all layers in order, without those of multi-token prediction.

    >>> len(set(layer_kinds(Architecture("m", 32, 64, 4, 4, 16, 256, 100))))
    1
    """
    return tuple(layer_kind(arch, index) for index in range(arch.layers))


def kind_counts(arch: Architecture) -> Mapping[LayerKind, int]:
    """How many layers there are of each kind, in the order in which the kinds first appear.

    >>> scout = Architecture("s", 48, 64, 4, 4, 16, 256, 100, window=8192, window_kind="chunked", full_every=4)
    >>> [(kind.attention, count) for kind, count in kind_counts(scout).items()]
    [('window', 36), ('full', 12)]
    """
    return dict(Counter(layer_kinds(arch)))


def moe_layer_count(arch: Architecture) -> int:
    """Layers that have experts.

    >>> moe_layer_count(Architecture("d", 61, 64, 4, 4, 16, 256, 100, experts=8, top_k=2, dense_layers=3))
    58
    """
    return max(0, arch.layers - arch.dense_layers) // arch.moe_every if arch.experts else 0


def window_layer_count(arch: Architecture) -> int:
    """Layers whose attention is limited to a window.

    >>> window_layer_count(Architecture("g", 62, 64, 4, 4, 16, 256, 100, window=1024, full_every=6))
    52
    """
    if arch.window == 0:
        return 0
    return arch.layers - (arch.layers // arch.full_every if arch.full_every else 0)


def attended_pairs(
    seq: Num, window: int = 0, window_kind: Literal["sliding", "chunked"] = "sliding", *, causal: bool = True
) -> Num:
    """Pairs of query and key that attention computes for one sequence, exactly [count].

    Causal: token i (from 0) sees min(i + 1, w) tokens in a sliding window of w, those of its own block up to itself in
    a chunked one, i + 1 without a window. Not causal: min(s, w) tokens, or its whole block. window 0 means none. seq
    [tokens] is a whole number or an array of them.

    >>> attended_pairs(4), attended_pairs(4, 2), attended_pairs(5, 2, "chunked"), attended_pairs(5, 2, causal=False)
    (10, 7, 7, 10)
    """
    reach = np.minimum(seq, window) if window else seq
    if window and window_kind == "chunked":
        whole, rest = seq // window, seq % window
        pairs = whole * _square(window, causal) + _square(rest, causal)
    else:
        pairs = _square(reach, causal) + (seq - reach) * reach
    return pairs if isinstance(pairs, np.ndarray) else int(pairs)


def _square(side: Num, causal: bool) -> Num:
    return side * (side + 1) // 2 if causal else side * side
