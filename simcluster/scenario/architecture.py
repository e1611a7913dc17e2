"""A model written out in the scenario."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from simcluster import shapes
from simcluster.scenario.fields import Count, CountOrZero, Name, Part


class InlineArchitecture(Part):
    """The fields of `shapes.Architecture`; kv_heads absent = heads, head_dim absent = hidden / heads.

    >>> model = InlineArchitecture(layers=32, hidden=4096, heads=32, ffn=11008, vocab=32000)
    >>> model.architecture().head_dim
    128
    """

    name: Name = "inline"
    layers: Count
    hidden: Count
    heads: Count
    kv_heads: Count | None = None
    head_dim: Count | None = None
    ffn: Count
    vocab: Count
    gated_ffn: bool = True
    tied_embeddings: bool = False
    learned_positions: CountOrZero = 0
    norm: Literal["rmsnorm", "layernorm", "layernorm-nobias", "nonparametric"] = "rmsnorm"
    norms_per_layer: Count = 2
    final_norm: bool = True
    embedding_norm: bool = False
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: Literal["none", "head", "full"] = "none"
    parallel_block: bool = False
    max_sequence: CountOrZero = 0
    experts: CountOrZero = 0
    top_k: CountOrZero = 0
    expert_ffn: CountOrZero = 0
    shared_ffn: CountOrZero = 0
    shared_gate: bool = False
    dense_layers: CountOrZero = 0
    moe_every: Count = 1
    router_bias: bool = False
    q_rank: CountOrZero = 0
    kv_rank: CountOrZero = 0
    nope_dim: CountOrZero = 0
    rope_dim: CountOrZero = 0
    value_dim: CountOrZero = 0
    window: CountOrZero = 0
    window_kind: Literal["sliding", "chunked"] = "sliding"
    full_every: CountOrZero = 0
    attention_sinks: bool = False
    mtp_depth: CountOrZero = 0

    @model_validator(mode="after")
    def _heads(self) -> InlineArchitecture:
        if self.head_dim is None and self.hidden % self.heads:
            raise ValueError(f"hidden {self.hidden} is not a multiple of heads {self.heads}; state head_dim")
        if self.kv_heads and self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        return self

    def architecture(self) -> shapes.Architecture:
        """The same as the record that the rooms below take."""
        values = {field: getattr(self, field) for field in type(self).model_fields}
        values["kv_heads"] = self.kv_heads or self.heads
        values["head_dim"] = self.head_dim or self.hidden // self.heads
        return shapes.Architecture(**values)
