"""What recompute keeps and rebuilds."""

from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.memory.activations import layer_activations
from simcluster.memory.recompute import MODULES, rebuilt, recompute_rules, saved
from simcluster.shapes import Architecture

LLAMA_8B = Architecture("llama-3-8b", 32, 4096, 32, 8, 128, 14336, 128256)


@pytest.mark.parametrize("mode", ["none", "selective", "full"])
@pytest.mark.parametrize("module", sorted(MODULES))
def test_saved_and_rebuilt_make_the_whole(mode: str, module: str) -> None:
    layer = layer_activations(LLAMA_8B, 512, 512, 2, attention="unfused", dropout=True)
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
