"""Activations that a layer of experts keeps for its backward.

Symbols as in `activations`, E experts, k of them for each token, fe their inner width, fs that of all shared experts
together, te the ranks that an expert is cut over. Nothing depends on ep: with balanced routing a rank receives as many
tokens as it sends; the imbalance is the busiest rank's load over the mean.
"""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.memory.precision import Widths
from simcluster.shapes import Architecture, Num

MIXED = Widths()
_LOGIT_BYTES = 4.0  # routing runs in fp32
_CHOICE_BYTES = 8.0  # weight and index of each chosen expert


def routed_tokens(tokens: Num, tp: Num = 1, etp: Num = 1, *, sequence_parallel: bool = False) -> Num:
    """Tokens that one rank routes [count]: its share of 1/tp with sequence parallelism, else over the ranks of etp that
    hold the same tokens.

    >>> routed_tokens(4096, 4, 1, sequence_parallel=True), routed_tokens(4096, 4, 1), routed_tokens(4096, 4, 4)
    (1024.0, 4096.0, 1024.0)
    """
    return plain(tokens / (np.asarray(tp, dtype=float) if sequence_parallel else np.minimum(tp, etp)))


def expert_activations(
    arch: Architecture,
    tokens: Num,
    tp: Num = 1,
    etp: Num = 1,
    *,
    sequence_parallel: bool = False,
    imbalance: Num = 1.0,
    fused_activation: bool = True,
    widths: Widths = MIXED,
) -> dict[str, Num]:
    """What router, routed and shared experts keep [bytes]; S is what a rank routes, in 16-bit elements.

    router 4S·E + 8S·k, dispatched tokens 2k·S·te·h, gate and up 4k·S·fe (plain: 2k·S·fe), activation 2k·S·fe, results
    2k·S·h for the gradient of the router's weights (none where these are applied inside the experts), shared experts
    6·S·fs/t of all tokens. Whatever is dispatched grows with the imbalance.

    >>> v3 = Architecture("v3", 61, 7168, 128, 128, 192, 18432, 129280, experts=256, top_k=8, expert_ffn=2048,
    ...                   shared_ffn=2048)
    >>> parts = expert_activations(v3, 4096)
    >>> round((sum(parts.values()) - parts["moe.input"]) / 1e6, 2)
    1396.97
    """
    routed = routed_tokens(tokens, tp, etp, sequence_parallel=sequence_parallel)
    copies = routed * arch.top_k * imbalance
    inner, gates = copies * arch.expert_ffn, 2 if arch.gated_ffn else 1
    parts = {
        "moe.input": widths.stream * tokens * arch.hidden / (tp if sequence_parallel else 1),
        "moe.router": routed * (_LOGIT_BYTES * arch.experts + _CHOICE_BYTES * arch.top_k),
        "moe.dispatched": widths.inputs * copies * etp * arch.hidden,
        "moe.up": widths.stream * inner * gates,
        "moe.activation": widths.inputs * inner,
        "moe.output": widths.stream * copies * arch.hidden,
    }
    if arch.gated_ffn and not fused_activation:
        parts["moe.activated_gate"] = widths.stream * inner
    if arch.shared_ffn:
        shared = tokens * arch.shared_ffn / tp
        parts["moe.shared_up"] = widths.stream * shared * gates
        parts["moe.shared_activation"] = widths.inputs * shared
    return parts
