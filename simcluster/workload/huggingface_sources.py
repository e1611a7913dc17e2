"""The small vocabulary in which families of Hugging Face models say where each field of an architecture comes from.

A source is a key of config.json with its class default, a fixed fact of the family, or arithmetic on other fields. The
tables of `huggingface_families` are made of these; `huggingface` resolves them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Fixed:
    """The same in every model of the family."""

    value: Any


@dataclass(frozen=True, slots=True)
class Of:
    """Another field of the architecture, times, over a further field, plus a number."""

    field: str
    times: int = 1
    over: str = ""
    plus: int = 0


@dataclass(frozen=True, slots=True)
class SumOf:
    """The sum of other fields of the architecture."""

    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Key:
    """The first of these keys that the file has (dots step into mappings), else the default; no default: required.

    null    what null means, where it is not the same as a missing key (`NO_NULL`)
    words   what each value of the key means for the field
    """

    names: tuple[str, ...]
    default: Source | None = None
    null: Any = "as missing"
    words: Mapping[Any, Any] | None = None


@dataclass(frozen=True, slots=True)
class Scaled:
    """A factor in the file times a field of the architecture, rounded down; null means a factor of 0."""

    name: str
    field: str
    default: float


@dataclass(frozen=True, slots=True)
class Switch:
    """One source or another by a flag of the file."""

    name: str
    default: bool
    on: Source
    off: Source


Source: TypeAlias = Fixed | Of | SumOf | Key | Scaled | Switch

NULL_IS_MISSING = "as missing"


@dataclass(frozen=True, slots=True)
class Windows:
    """How a family limits attention to windows.

    size           key of the window in tokens; null is none, a missing key is `default`
    enabled_by     flag without which `size` is ignored ("" = none)
    after          key of the number of leading layers with full attention
    every          one layer in so many has full attention (0 = none has), also the default of key `every_key`
    rope_layers    key of a list with a 0 for each layer of full attention
    """

    size: str = "sliding_window"
    default: int = 0
    kind: Literal["sliding", "chunked"] = "sliding"
    enabled_by: str = ""
    after: str = ""
    every: int = 0
    every_key: str = ""
    rope_layers: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """All that is known about one model_type.

    fields    source of each field of `Architecture` that the family does not leave at its default
    experts   which layers have experts: "" (no experts), or a rule of `huggingface_layers`
    only      keys that must have this value if they are there, because nothing else can be counted
    sizes     class defaults of sizes, which the text part of a larger file may leave out
    """

    fields: Mapping[str, Source]
    experts: Literal["", "all", "leading", "sparse_step", "interleaved"] = ""
    windows: Windows | None = None
    only: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)


def key(*names: str, default: Any = None, null: Any = NULL_IS_MISSING, words: Mapping[Any, Any] | None = None) -> Key:
    """A `Key`; a default that is no source is a fixed value.

    >>> key("n_layer").default is None, key("attention_bias", default=False).default
    (True, Fixed(value=False))
    """
    plain = default is None or isinstance(default, (Fixed, Of, SumOf, Key, Scaled, Switch))
    return Key(names, default if plain else Fixed(default), null, words)
