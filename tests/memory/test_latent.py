"""Latent attention against the worked layer of DeepSeek-V3."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simcluster.memory.activations import layer_activations
from simcluster.memory.latent import latent_activations
from simcluster.memory.recompute import recompute_rules, saved
from simcluster.shapes import Architecture
from simcluster.workload.layers import LayerKind

V3 = Architecture(
    "deepseek-v3", 61, 7168, 128, 128, 192, 18432, 129280, experts=256, top_k=8, expert_ffn=2048, shared_ffn=2048,
    dense_layers=3, router_bias=True, q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128,
)  # fmt: skip
MB = 1e6


def test_worked_layer() -> None:
    """One sequence of 4,096 tokens on one rank; inputs and norms count with attention here."""
    layer = layer_activations(V3, 4096, 4096, kind=LayerKind("moe"))
    attention = {name: size for name, size in layer.items() if not name.startswith("moe.")}
    assert (sum(attention.values()) + layer["moe.input"]) / MB == pytest.approx(942.15, abs=0.01)
    worked = {
        "query_up": 201.33, "key_up": 201.33, "value_up": 134.22, "output": 134.22, "input": 58.72, "statistics": 2.10,
    }  # fmt: skip
    for name, size in worked.items():
        assert layer[f"attention.{name}"] / MB == pytest.approx(size, abs=6e-3), name
    assert (layer["attention.query_down"] + layer["attention.query_latent"]) / MB == pytest.approx(25.17, abs=6e-3)
    assert (layer["attention.kv_down"] + layer["attention.kv_latent"]) / MB == pytest.approx(8.91, abs=6e-3)
    assert (layer["norms.attention_input"] + layer["norms.mlp_input"]) / MB == pytest.approx(117.44, abs=6e-3)


def test_projections_up_are_rebuilt_from_the_latents() -> None:
    layer = layer_activations(V3, 4096, 4096)
    kept = saved(layer, recompute_rules("selective", ("mla_up_proj",)))
    assert (sum(layer.values()) - sum(kept.values())) / MB == pytest.approx(201.33 + 201.33 + 134.22, abs=0.02)
    assert kept["attention.query_latent"] > 0


def test_an_unfactored_query_has_no_latent() -> None:
    parts = latent_activations(replace(V3, q_rank=0), 4096)
    assert not any("query_" in name for name in parts)
    assert parts["attention.query"] == parts["attention.key_up"]
    plain = layer_activations(replace(V3, q_rank=0), 4096, 4096)
    rebuilt = set(plain) - set(saved(plain, recompute_rules("selective", ("mla_up_proj",))))
    assert rebuilt == {"attention.key_up", "attention.value_up"}


def test_latents_are_divided_by_tokens_and_heads_by_rank() -> None:
    one, eight, apart = (latent_activations(V3, 4096, tp, r) for tp, r in ((1, 1), (8, 8), (8, 1)))
    assert all(eight[name] == size / 8 for name, size in one.items())
    assert apart["attention.kv_down"] == one["attention.kv_down"]
    arrays = latent_activations(V3, 4096, np.array([1, 8]), np.array([1, 8]))
    assert all(size.tolist() == [one[name], eight[name]] for name, size in arrays.items())
