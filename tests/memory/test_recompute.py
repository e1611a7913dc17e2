"""What recompute keeps and rebuilds."""

from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.memory.activations import layer_activations
from simcluster.memory.recompute import MODULES, rebuilt, recompute_modules_of, recompute_rules, saved
from simcluster.shapes import Architecture
from simcluster.workload.layers import layer_kind
from simcluster.workload.rerun import MODULES as RUN_AGAIN

LLAMA_8B = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)


V2 = Architecture(
    "v2", 60, 5120, 128, 128, 192, 12288, 102400, experts=160, top_k=6, expert_ffn=1536, shared_ffn=3072,
    q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, value_dim=128,
)  # fmt: skip


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize("module", sorted(MODULES))
@pytest.mark.parametrize("arch", [LLAMA_8B, V2], ids=["dense", "experts"])
def test_saved_and_rebuilt_make_the_whole(mode: str, module: str, arch: Architecture) -> None:
    layer = layer_activations(
        arch, 512, 512, 2, kind=layer_kind(arch, 0), attention="unfused", dropout=True, fused_activation=False
    )
    rules = recompute_rules(mode, (module, "core_attn"))
    assert sum(saved(layer, rules).values()) + rebuilt(layer, rules) == pytest.approx(sum(layer.values()), rel=1e-14)


def test_modules_drop_what_they_name() -> None:
    layer = layer_activations(LLAMA_8B, 512, 512)
    inner = 2 * 512 * 14336
    assert rebuilt(layer, recompute_rules("selective", ("mlp_act",))) == inner
    assert rebuilt(layer, recompute_rules("selective", ("mlp",))) == 3 * inner
    assert rebuilt(layer, recompute_rules("selective", ("layernorm",))) == 2 * 2 * 512 * 4096


@pytest.mark.parametrize(("mode", "modules"), [("partial", ()), ("selective", ("core_attention",))])
def test_unknown_recompute_is_refused(mode: str, modules: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"training\.recompute"):
        recompute_rules(mode, modules)


def dropped(arch: Architecture, module: str) -> set[str]:
    layer = layer_activations(arch, 512, 512, kind=layer_kind(arch, 0), attention="unfused", fused_activation=False)
    return set(layer) - set(saved(layer, recompute_rules("selective", (module,))))


def test_modules_of_experts_and_latent_attention() -> None:
    assert dropped(V2, "mla_up_proj") == {"attention.query_up", "attention.key_up", "attention.value_up"}
    assert dropped(V2, "moe_act") == {"moe.activation", "moe.activated_gate"}
    assert dropped(V2, "mlp_act") == {"moe.activation", "moe.activated_gate", "moe.shared_activation"}
    assert dropped(V2, "shared_experts") == {"moe.shared_up", "moe.shared_activation"}
    kept_norms = {"attention.input", "attention.query_latent", "attention.kv_latent", "moe.input"}
    assert dropped(V2, "layernorm") == kept_norms
    names = set(layer_activations(V2, 512, 512, kind=layer_kind(V2, 0), attention="unfused", fused_activation=False))
    assert dropped(V2, "moe") == {name for name in names if name.startswith("moe.")} - {"moe.input"}
    assert dropped(V2, "attention") == {name for name in names if name.startswith("attention.")} - {"attention.input"}
    assert dropped(V2, "mlp") == set()


def test_every_module_that_runs_again_frees_memory_somewhere() -> None:
    assert set(RUN_AGAIN) <= set(MODULES)
    assert all(dropped(LLAMA_8B, module) | dropped(V2, module) for module in RUN_AGAIN)


@pytest.mark.parametrize(
    ("recompute", "expected"),
    [
        ("none", ("none", ())),
        ("full", ("full", ())),
        ("layer", ("full", ())),
        ("mlp+layer", ("full", ())),
        ("selective", ("selective", ("core_attn", "mlp_act"))),
        ("core_attn", ("selective", ("core_attn",))),
        ("mlp_act+layernorm", ("selective", ("mlp_act", "layernorm"))),
    ],
)
def test_a_layouts_recompute_is_a_mode_and_modules(recompute: str, expected: tuple[str, tuple[str, ...]]) -> None:
    assert recompute_modules_of(recompute, ("core_attn", "mlp_act")) == expected
    recompute_rules(*expected)


def test_an_unknown_module_is_kept_for_its_reader_to_refuse() -> None:
    mode, modules = recompute_modules_of("mlp+atention", ())
    assert modules == ("mlp", "atention")
    with pytest.raises(InputError, match=r"did you mean 'attention'"):
        recompute_rules(mode, modules)
