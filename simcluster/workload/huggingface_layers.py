"""Which layers have experts and which a window: from lists and periods in config.json to the two of `Architecture`.

`Architecture` knows leading dense layers and then experts in every n-th layer, and full attention in every n-th layer.
A pattern that is neither is not counted (experts) or counted as full attention (windows), and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from simcluster.workload.huggingface_config import Config

_WINDOWED = frozenset({"sliding_attention", "chunked_attention", "local_attention"})
_FULL = frozenset({"full_attention", "global_attention"})


def expert_period(sparse: Sequence[bool]) -> tuple[int, int] | None:
    """dense_layers and moe_every of a model whose layers have experts where `sparse` says; None if there are none such.

    >>> expert_period([False, True, True]), expert_period([False, True, False, True])
    ((1, 1), (0, 2))
    """
    places = [index for index, has in enumerate(sparse) if has]
    if not places:
        return None
    every = places[1] - places[0] if len(places) > 1 else len(sparse) - places[0]
    dense = places[0] + 1 - every
    if dense < 0 or list(sparse) != [i >= dense and (i - dense + 1) % every == 0 for i in range(len(sparse))]:
        return None
    return dense, every


def full_period(windowed: Sequence[bool]) -> int | None:
    """full_every of a model whose layers have a window where `windowed` says; None if there is none such.

    >>> full_period([True, True, True]), full_period([True, False, True, False]), full_period([False, True])
    (0, 2, None)
    """
    if all(windowed):
        return 0
    every = list(windowed).index(False) + 1
    return every if list(windowed) == [(i + 1) % every != 0 for i in range(len(windowed))] else None


def sparse_layers(config: Config, rule: str, layers: int) -> list[bool]:
    """Which layers have experts, by the rule of the family; problems go to `config`."""
    return _EXPERT_RULES[rule](config, layers)


def _all(_config: Config, layers: int) -> list[bool]:
    return [True] * layers


def _leading(config: Config, layers: int) -> list[bool]:
    dense = config.whole("first_k_dense_replace", 0, low=0)
    every = config.whole("moe_layer_freq", 1)
    return [index >= dense and index % every == 0 for index in range(layers)]


def _sparse_step(config: Config, layers: int) -> list[bool]:
    step = config.whole("decoder_sparse_step", 1)
    dense = frozenset(config.wholes("mlp_only_layers") or ())
    return [index not in dense and (index + 1) % step == 0 for index in range(layers)]


def _interleaved(config: Config, layers: int) -> list[bool]:
    listed = config.wholes("moe_layers")
    step = config.whole("interleave_moe_layer_step", 1)
    if listed is None:
        return [(index + 1) % step == 0 for index in range(layers)]
    return [index in frozenset(listed) for index in range(layers)]


_EXPERT_RULES: Mapping[str, Callable[[Config, int], list[bool]]] = MappingProxyType(
    {"all": _all, "leading": _leading, "sparse_step": _sparse_step, "interleaved": _interleaved}
)


def listed_windows(config: Config, layers: int) -> list[bool] | None:
    """Which layers have a window by the list `layer_types`; None without one, or with one that is wrong."""
    types = config.words("layer_types")
    if types is None:
        return None
    strange = sorted(set(types) - _WINDOWED - _FULL)
    if strange:
        config.problem("layer_types", f"layer_types holds {', '.join(strange)}", "only attention layers can be counted")
    elif len(types) != layers:
        config.problem("layer_types", f"layer_types has {len(types)} entries", f"there are {layers} layers")
    else:
        return [name in _WINDOWED for name in types]
    return None
