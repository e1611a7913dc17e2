"""An architecture from plain values named like the fields of `Architecture`: ranges, rules, what is assumed.

Scenarios, catalogue entries and the reader of Hugging Face files all end here, so one set of rules judges them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeGuard, get_args, get_type_hints

from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import Architecture, Assumption

Where = Callable[[tuple[str, ...]], "Mark | None"]

_WIDTH = 10_000_000
# Smallest and largest legal value of each whole number; the upper ones only catch slips of the finger.
RANGES: Mapping[str, tuple[int, int]] = MappingProxyType(
    {
        "layers": (1, 10_000),
        "hidden": (1, _WIDTH),
        "heads": (1, 100_000),
        "kv_heads": (1, 100_000),
        "head_dim": (1, 100_000),
        "ffn": (1, _WIDTH),
        "vocab": (1, 100_000_000),
        "learned_positions": (0, 1_000_000_000),
        "norms_per_layer": (0, 8),
        "max_sequence": (0, 1_000_000_000),
        "experts": (0, 100_000),
        "top_k": (0, 100_000),
        "expert_ffn": (0, _WIDTH),
        "shared_ffn": (0, _WIDTH),
        "dense_layers": (0, 10_000),
        "moe_every": (1, 10_000),
        "q_rank": (0, _WIDTH),
        "kv_rank": (0, _WIDTH),
        "nope_dim": (0, 100_000),
        "rope_dim": (0, 100_000),
        "value_dim": (0, 100_000),
        "window": (0, 1_000_000_000),
        "full_every": (0, 10_000),
        "mtp_depth": (0, 100),
    }
)
_HINTS = MappingProxyType(get_type_hints(Architecture))
FIELDS = tuple(_HINTS)
_FLAGS = tuple(name for name, hint in _HINTS.items() if hint is bool)
_CHOICES = MappingProxyType({name: get_args(hint) for name, hint in _HINTS.items() if get_args(hint)})
_DEFAULTS = MappingProxyType({item.name: item.default for item in fields(Architecture) if item.default is not MISSING})
_REQUIRED = ("layers", "hidden", "heads", "vocab")

# Fields that mean something only where another one is not 0, in the order of `Architecture`.
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "experts": ("top_k", "expert_ffn", "shared_ffn", "shared_gate", "dense_layers", "moe_every", "router_bias"),
        "kv_rank": ("q_rank", "nope_dim", "rope_dim"),
        "window": ("window_kind", "full_every"),
    }
)

# The same quantity in the words of Hugging Face, Megatron-LM and GPT-2 configurations.
_OTHER_WORDS: Mapping[str, str] = MappingProxyType(
    {
        word: name
        for name, words in {
            "layers": "num_hidden_layers num_layers n_layers n_layer",
            "hidden": "hidden_size d_model n_embd dim",
            "heads": "num_attention_heads n_heads n_head",
            "kv_heads": "num_key_value_heads num_query_groups n_kv_heads",
            "head_dim": "head_size kv_channels",
            "ffn": "intermediate_size ffn_hidden_size ffn_dim n_inner",
            "vocab": "vocab_size padded_vocab_size",
            "tied_embeddings": "tie_word_embeddings",
            "max_sequence": "max_position_embeddings n_positions seq_length",
            "experts": "num_experts num_local_experts n_routed_experts moe_num_experts",
            "top_k": "num_experts_per_tok moe_router_topk moe_top_k",
            "expert_ffn": "moe_intermediate_size moe_ffn_hidden_size",
            "shared_ffn": "shared_expert_intermediate_size moe_shared_expert_intermediate_size",
            "dense_layers": "first_k_dense_replace",
            "kv_rank": "kv_lora_rank",
            "q_rank": "q_lora_rank",
            "nope_dim": "qk_nope_head_dim qk_head_dim",
            "rope_dim": "qk_rope_head_dim qk_pos_emb_head_dim",
            "value_dim": "v_head_dim",
            "window": "sliding_window window_size attention_chunk_size",
            "mtp_depth": "num_nextn_predict_layers mtp_num_layers",
        }.items()
        for word in words.split()
    }
)


def architecture_from(values: Mapping[str, Any], where: Where | None = None) -> Architecture:
    """Architecture from plain values named like the fields of `Architecture`, as a scenario may hold them.

    Needs layers, hidden, heads and vocab. Left out: kv_heads = heads, head_dim = hidden/heads (nope_dim + rope_dim with
    latent attention), ffn = 4·hidden, all else the defaults of `Architecture`. where(path) gives the place of a key for
    messages. Raises InputError with every problem.

    >>> architecture_from({"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}).head_dim
    16
    >>> architecture_from({"layers": 2, "hidden_size": 64, "heads": 4, "vocab": 100})
    Traceback (most recent call last):
    simcluster.errors.InputError: unknown key 'hidden_size' of an architecture; did you mean hidden?
    hidden is missing; state it
    """
    place: Where = where or (lambda _path: None)
    problems = [*_unknown_keys(values, place), *_missing(values, place), *_wrong_values(values, place)]
    if not problems:
        problems = _inconsistent(values, place)
    if problems:
        raise InputError(problems)
    derived = {key: item.value for key, item in _derived(values).items()}
    return Architecture(**({"name": "inline"} | derived | dict(values)))


def assumed_defaults(values: Mapping[str, Any], path: str = "model") -> tuple[Assumption, ...]:
    """What `architecture_from` fills in for keys that the mapping leaves out; all fields, in their order.

    >>> [str(item.path) for item in assumed_defaults({"layers": 2, "hidden": 64, "heads": 4, "vocab": 100})][:3]
    ['model.kv_heads', 'model.head_dim', 'model.ffn']
    """
    derived = _derived(values)
    plain = {
        name: Assumption(name, default, "not stated: the default")
        for name, default in _DEFAULTS.items()
        if name not in values
    }
    every = derived | plain
    ordered = [every[name] for name in FIELDS if name in every]
    return tuple(Assumption(f"{path}.{item.path}", item.value, item.why) for item in ordered)


def advice_for(key: str, value: Any) -> str:
    """What a legal value of this field looks like; empty if this one is legal or the field unknown.

    >>> advice_for("layers", 0)
    'give a whole number from 1 to 10000'
    """
    if key in RANGES:
        low, high = RANGES[key]
        return "" if is_whole(value) and low <= value <= high else f"give a whole number from {low} to {high}"
    if key in _FLAGS:
        return "" if isinstance(value, bool) else "give true or false"
    if key in _CHOICES:
        return "" if value in _CHOICES[key] else f"give one of {', '.join(_CHOICES[key])}"
    return "give a name" if key == "name" and not (isinstance(value, str) and value) else ""


def is_whole(value: object) -> TypeGuard[int]:
    """Whether the value is an integer and no bool.

    >>> is_whole(3), is_whole(True), is_whole(3.0)
    (True, False, False)
    """
    return isinstance(value, int) and not isinstance(value, bool)


def _derived(values: Mapping[str, Any]) -> dict[str, Assumption]:
    """Values that follow from others; empty where those are missing or no whole numbers."""
    hidden, heads = values.get("hidden"), values.get("heads")
    found: dict[str, Assumption] = {}
    if is_whole(heads):
        found["kv_heads"] = Assumption("kv_heads", heads, "not stated: one for each head")
    if is_whole(hidden) and is_whole(heads) and heads > 0:
        found["head_dim"] = Assumption("head_dim", hidden // heads, "not stated: hidden/heads")
    if values.get("kv_rank") and is_whole(values.get("nope_dim")) and is_whole(values.get("rope_dim")):
        width = values["nope_dim"] + values["rope_dim"]
        found["head_dim"] = Assumption("head_dim", width, "not stated: nope_dim + rope_dim")
    if is_whole(hidden):
        found["ffn"] = Assumption("ffn", 4 * hidden, "not stated: 4 times hidden")
    return {key: item for key, item in found.items() if key not in values}


def _unknown_keys(values: Mapping[str, Any], where: Where) -> Iterable[Problem]:
    for key in values:
        if key not in FIELDS:
            hint = _OTHER_WORDS.get(str(key))
            message = f"unknown key {key!r} of an architecture"
            near = [hint] if hint else get_close_matches(str(key), FIELDS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"known: {', '.join(FIELDS)}"
            yield Problem(message, advice, where((str(key),)))


def _missing(values: Mapping[str, Any], where: Where) -> Iterable[Problem]:
    return [Problem(f"{key} is missing", "state it", where(())) for key in _REQUIRED if key not in values]


def _wrong_values(values: Mapping[str, Any], where: Where) -> Iterable[Problem]:
    for key, value in values.items():
        advice = advice_for(key, value)
        if advice:
            shown = str(value).lower() if isinstance(value, bool) else repr(value)
            yield Problem(f"{key} is {shown}", advice, where((key,)))


def _inconsistent(values: Mapping[str, Any], where: Where) -> list[Problem]:
    """Rules that tie legal values together."""
    every = dict(_DEFAULTS) | dict(values)
    return [
        Problem(message, advice, where((key,)))
        for rule in (_head_rules, _expert_rules, _latent_rules, _window_rules)
        for key, message, advice in rule(every)
    ]


_Rule = Iterable[tuple[str, str, str]]  # key, message, advice


def _head_rules(values: Mapping[str, Any]) -> _Rule:
    hidden, heads, kv_heads = values["hidden"], values["heads"], values.get("kv_heads", values["heads"])
    if heads % kv_heads:
        yield "kv_heads", f"kv_heads: {kv_heads} does not divide {heads} heads", "each must serve as many heads"
    if "head_dim" not in values and not values["kv_rank"] and hidden % heads:
        yield "heads", f"heads: {heads} does not divide hidden {hidden}", "state head_dim"


def _expert_rules(values: Mapping[str, Any]) -> _Rule:
    experts, top_k = values["experts"], values["top_k"]
    if experts == 0:
        for key in ("top_k", "expert_ffn", "shared_ffn", "dense_layers"):
            if values[key]:
                yield key, f"{key} is {values[key]} without experts", "state experts, or leave it out"
        return
    if not 1 <= top_k <= experts:
        yield "top_k", f"top_k is {top_k} of {experts} experts", f"give a whole number from 1 to {experts}"
    if values["expert_ffn"] == 0:
        yield "expert_ffn", f"expert_ffn is 0 with {experts} experts", "state the inner width of one expert"
    if values["dense_layers"] > values["layers"]:
        yield "dense_layers", f"dense_layers is {values['dense_layers']} of {values['layers']} layers", "give fewer"
    if values["shared_gate"] and not values["shared_ffn"]:
        yield "shared_gate", "shared_gate without shared experts", "state shared_ffn, or leave the gate out"


def _latent_rules(values: Mapping[str, Any]) -> _Rule:
    if values["kv_rank"] == 0:
        for key in ("q_rank", "nope_dim", "rope_dim"):
            if values[key]:
                yield key, f"{key} is {values[key]} without kv_rank", "state kv_rank, or leave it out"
        return
    width = values["nope_dim"] + values["rope_dim"]
    if width == 0 or values.get("head_dim", width) != width:
        message = f"head_dim is {values.get('head_dim')}, nope_dim + rope_dim is {width}"
        yield "head_dim", message, "with latent attention they are the same"


def _window_rules(values: Mapping[str, Any]) -> _Rule:
    if values["full_every"] and not values["window"]:
        yield "full_every", f"full_every is {values['full_every']} without a window", "state window, or leave it out"
