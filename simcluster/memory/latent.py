"""Activations that latent attention keeps for its backward (DeepSeek-AI 2024, DeepSeek-V2).

Queries and keys pass through latents of q_rank and kv_rank values; a norm stands between the projections down and up.
Symbols as in `activations`, dn and dr the widths of a head without and with rotary embedding, dv that of values.
"""

from __future__ import annotations

from simcluster.memory.precision import Widths
from simcluster.shapes import Architecture, Num

MIXED = Widths()


def latent_activations(
    arch: Architecture, tokens: Num, tp: Num = 1, residual_shards: Num = 1, *, widths: Widths = MIXED
) -> dict[str, Num]:
    """Projections of latent attention and their results [bytes], without input, core statistics and masks.

    With 16-bit elements: query latent 2S·qr/r and its normed copy, key and value latent 2S(kvr + dr)/r and the normed
    2S·kvr/r, query and key 2S·a(dn + dr)/t each, value and output 2S·a·dv/t each. The latents are made of a rank's own
    tokens and gathered for the projection up. An unfactored query (q_rank 0) has no latent.

    >>> v3 = Architecture("v3", 61, 7168, 128, 128, 192, 18432, 129280, q_rank=1536, kv_rank=512, nope_dim=128,
    ...                   rope_dim=64, value_dim=128)
    >>> round(sum(latent_activations(v3, 4096).values()) / 1e6, 2)
    705.17
    """
    own, heads = tokens / residual_shards, tokens * arch.heads / tp
    value = arch.value_dim or arch.head_dim
    keys = widths.core * heads * (arch.nope_dim + arch.rope_dim)
    values = widths.core * heads * value
    query = {"attention.query": keys}
    if arch.q_rank:
        query = {
            "attention.query_down": widths.stream * own * arch.q_rank,
            "attention.query_latent": widths.inputs * own * arch.q_rank,
            "attention.query_up": keys,
        }
    return query | {
        "attention.kv_down": widths.stream * own * (arch.kv_rank + arch.rope_dim),
        "attention.kv_latent": widths.inputs * own * arch.kv_rank,
        "attention.key_up": keys,
        "attention.value_up": values,
        "attention.output": values,
    }
