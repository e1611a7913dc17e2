"""Recompute modes as data: the fraction of each activation that a layer keeps until its backward.

What is dropped is rebuilt for one layer at a time, so a backward has one layer's dropped tensors alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from simcluster.memory.arrays import total
from simcluster.memory.names import look_up
from simcluster.shapes import Num


@dataclass(frozen=True, slots=True)
class Recompute:
    """Kept fractions by component; what is not named is kept by `default`."""

    kept: Mapping[str, float]
    default: float = 1.0

    def fraction(self, component: str) -> float:
        """Fraction of a component that is kept, 0 to 1."""
        return self.kept.get(component, self.default)


def _dropped(*components: str) -> Recompute:
    return Recompute(MappingProxyType(dict.fromkeys(components, 0.0)))


FULL = Recompute(MappingProxyType({"norms.attention_input": 1.0}), 0.0)

_ACTIVATIONS = ("mlp.activation", "mlp.activated_gate")
_ROUTED_ACTIVATIONS = ("moe.activation", "moe.activated_gate")
_SHARED = ("moe.shared_up", "moe.shared_activation")
_LATENT_RESULTS = ("attention.query_up", "attention.key_up", "attention.value_up")
_ATTENTION = (
    "attention.query",
    "attention.key_value",
    "attention.qk_norm_input",
    "attention.query_down",
    "attention.query_latent",
    "attention.kv_down",
    "attention.kv_latent",
    "attention.output",
    "attention.projection_input",
    "attention.map",
    "attention.statistics",
    *_LATENT_RESULTS,
)

# The op-level policy of pytorch/torchtitan: results of every other matrix product, of attention and of exchanges stay.
EVERY_OTHER_MATMUL = Recompute(
    MappingProxyType(
        {
            "norms.attention_input": 1.0,
            "norms.mlp_input": 1.0,  # stands for the second MLP matrix's result, of the same size
            "attention.query": 1.0,
            "attention.key_value": 0.5,
            "attention.query_down": 1.0,
            "attention.kv_down": 1.0,
            **dict.fromkeys(_LATENT_RESULTS, 1.0),
            "attention.output": 1.0,
            "attention.statistics": 1.0,
            "mlp.up": 0.5,
            "moe.router": 1.0,
            "moe.dispatched": 1.0,
            "moe.up": 1.0,
            "moe.output": 1.0,
            "moe.shared_up": 0.5,
        }
    ),
    0.0,
)

# Names as in NVIDIA/Megatron-LM's recompute modules; "mlp_act" (every activation of an MLP, experts included),
# "attention" (all of attention but its input) and "every-other-matmul" are this project's.
MODULES: Mapping[str, Recompute] = MappingProxyType(
    {
        "core_attn": _dropped("attention.map", "attention.statistics"),
        "attention": _dropped(*_ATTENTION),
        "mla_up_proj": _dropped(*_LATENT_RESULTS),
        "layernorm": _dropped(
            "attention.input", "attention.query_latent", "attention.kv_latent", "mlp.input", "moe.input"
        ),
        "mlp_act": _dropped(*_ACTIVATIONS, *_ROUTED_ACTIVATIONS, "moe.shared_activation"),
        "moe_act": _dropped(*_ROUTED_ACTIVATIONS),
        "mlp": _dropped("mlp.up", *_ACTIVATIONS),
        "moe": _dropped("moe.router", "moe.dispatched", "moe.up", "moe.output", *_ROUTED_ACTIVATIONS, *_SHARED),
        "shared_experts": _dropped(*_SHARED),
        "layer": FULL,
        "every-other-matmul": EVERY_OTHER_MATMUL,
    }
)


def recompute_modules_of(recompute: str, selective: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Mode ("none", "selective" or "full") and modules of a layout's recompute.

    recompute   a mode, or modules joined by "+"; the module "layer" is all of a layer, hence "full"
    selective   modules that "selective" stands for in the software at hand

    >>> recompute_modules_of("selective", ("core_attn",)), recompute_modules_of("mlp_act+layernorm", ())
    (('selective', ('core_attn',)), ('selective', ('mlp_act', 'layernorm')))
    >>> recompute_modules_of("full", ("core_attn",))
    ('full', ())
    """
    if recompute in ("none", "full"):
        return recompute, ()
    modules = selective if recompute == "selective" else tuple(recompute.split("+"))
    return ("full", ()) if "layer" in modules else ("selective", modules)


def recompute_rules(mode: str, modules: Iterable[str] = ("core_attn",)) -> tuple[Recompute, ...]:
    """Rules of a mode: "none", "full", or "selective" with the names of what is recomputed.

    Raises InputError for an unknown mode or module.

    >>> recompute_rules("none")
    ()
    >>> recompute_rules("selective")[0].fraction("attention.map")
    0.0
    """
    modes = {"none": (), "selective": tuple(modules), "full": ("layer",)}
    names = look_up(modes, mode, "training.recompute")
    return tuple(look_up(MODULES, name, "training.recompute.modules") for name in names)


def kept_fraction(rules: Iterable[Recompute], component: str) -> float:
    """What all rules together keep of a component: the smallest of their fractions.

    >>> kept_fraction(recompute_rules("full"), "mlp.up"), kept_fraction((), "mlp.up")
    (0.0, 1.0)
    """
    return min((rule.fraction(component) for rule in rules), default=1.0)


def saved(activations: Mapping[str, Num], rules: Iterable[Recompute]) -> dict[str, Num]:
    """Activations that stay until the backward, by component [bytes]; those dropped whole are left out.

    >>> saved({"mlp.up": 4.0, "norms.attention_input": 1.0}, recompute_rules("full"))
    {'norms.attention_input': 1.0}
    """
    rules = tuple(rules)
    fractions = {name: kept_fraction(rules, name) for name in activations}
    return {name: fractions[name] * size for name, size in activations.items() if fractions[name]}


def rebuilt(activations: Mapping[str, Num], rules: Iterable[Recompute]) -> Num:
    """Bytes that the backward of one layer rebuilds.

    >>> rebuilt({"mlp.up": 4.0, "norms.attention_input": 1.0}, recompute_rules("full"))
    4.0
    """
    rules = tuple(rules)
    return total(size * (1.0 - kept_fraction(rules, name)) for name, size in activations.items())
