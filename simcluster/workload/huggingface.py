"""Reads a Hugging Face config.json: the architecture of the language model in it, and what the file did not say.

What each model_type means stands in `huggingface_families`. Keys that the file leaves out get the default of the
model's class, and every such default is reported; so are parts of the file that were not used.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import Architecture, Assumption
from simcluster.workload.huggingface_config import Config, read_config, shown
from simcluster.workload.huggingface_families import FAMILIES, NOT_COUNTED, TEXT_PART
from simcluster.workload.huggingface_layers import expert_period, full_period, listed_windows, sparse_layers
from simcluster.workload.huggingface_sources import (
    NULL_IS_MISSING,
    Family,
    Fixed,
    Key,
    Of,
    Scaled,
    Source,
    SumOf,
    Switch,
    Windows,
)
from simcluster.workload.huggingface_unused import report_unused
from simcluster.workload.inline import GROUPS, advice_for, architecture_from, is_whole


def architecture_from_config(given: str | Path | Mapping[str, Any]) -> tuple[Architecture, tuple[Assumption, ...]]:
    """Architecture of the language model in a Hugging Face config.json, and what had to be assumed for it.

    given is the path of the file, of the folder that holds it, or its content. Of a model that also sees or hears only
    the text part counts, and an assumption says so. Raises InputError with every problem: a file that is missing,
    larger than 1 MiB or no JSON object, an unknown model_type (with the nearest ones), missing or senseless values.

    >>> config = {"model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    ...           "num_attention_heads": 32, "vocab_size": 32000}
    >>> arch, assumptions = architecture_from_config(config)
    >>> arch.kv_heads, arch.head_dim, assumptions[0].path, assumptions[0].why
    (32, 128, 'model.kv_heads', 'num_key_value_heads is not in the file: as heads')
    """
    path = None if isinstance(given, Mapping) else Path(given)
    if path and path.is_dir():
        path = path / "config.json"
    whole = read_config(given if path is None else path)
    config = whole.text_part()
    model_type, family = _family(whole, config)
    reading = _Reading(config, family, model_type)
    values = reading.values()
    if config.problems:
        raise InputError(config.problems)
    name = path.parent.name if path and path.name == "config.json" and path.parent.name else (path.stem if path else "")
    arch = architecture_from({"name": name or model_type} | values, lambda at: reading.mark(at[0] if at else ""))
    return arch, (*reading.assumptions, *report_unused(whole, config, model_type))


def _family(whole: Config, config: Config) -> tuple[str, Family]:
    """The model_type of the text part and what is known of it; raises InputError."""
    _, stated = config.find("model_type")
    if stated is None and config is not whole:
        stated = TEXT_PART.get(str(whole.data.get("model_type")))
    if not isinstance(stated, str):
        message = "model_type is missing" if stated is None else f"model_type is {shown(stated)}"
        raise InputError(Problem(message, 'state it, such as "llama"', config.mark("model_type")))
    known = stated if stated in FAMILIES else TEXT_PART.get(stated, stated)
    if known in FAMILIES:
        return known, FAMILIES[known]
    mark = config.mark("model_type")
    if known in NOT_COUNTED:
        message = f"model_type {stated!r} cannot be counted: {NOT_COUNTED[known]}"
        raise InputError(Problem(message, "state an architecture that comes near it inline", mark))
    near = [name for name in get_close_matches(stated[:100], FAMILIES, n=1) if not _other_version(name, stated)]
    advice = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(FAMILIES))}"
    raise InputError(Problem(f"unknown model_type {shown(stated)}", advice, mark))


def _other_version(name: str, stated: str) -> bool:
    """Whether the two differ in their numbers: "deepseek_v4" is no slip of the finger for "deepseek_v3"."""
    return re.findall(r"\d+", name) != re.findall(r"\d+", stated)


@dataclass
class _Reading:
    """Resolves the sources of a family against one file; None stands for a value whose problem is noted already."""

    config: Config
    family: Family
    model_type: str
    assumptions: list[Assumption] = field(default_factory=list)
    known: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)

    def values(self) -> dict[str, Any]:
        """Fields of the architecture that the family and the file give."""
        for name, needed in self.family.only.items():
            self._check_only(name, needed if isinstance(needed, Of) else Fixed(needed))
        found = {name: self.field(name) for name in self.family.fields}
        layers = found.get("layers")
        if is_whole(layers):
            found |= self._experts(layers) | self._windows(layers)
        if self.family.experts and not found.get("experts"):
            found = {name: value for name, value in found.items() if name not in ("experts", *GROUPS["experts"])}
        return found

    def mark(self, name: str) -> Mark | None:
        """Place of the key that a field was read from."""
        return self.config.mark(self.places.get(name, ""))

    def field(self, name: str) -> Any:
        """A field of the architecture, read once."""
        if name not in self.known:
            self.known[name] = self._resolve(self.family.fields[name], name)
        return self.known[name]

    def _resolve(self, source: Source, name: str) -> Any:
        if isinstance(source, Fixed):
            return source.value
        if isinstance(source, Key):
            return self._key(source, name)
        if isinstance(source, Switch):
            return self._resolve(source.on if self.config.flag(source.name, source.default) else source.off, name)
        if isinstance(source, Scaled):
            return self._scaled(source, name)
        return self._arithmetic(source)

    def _arithmetic(self, source: Of | SumOf) -> Any:
        names = source.fields if isinstance(source, SumOf) else (source.field, source.over)
        parts = [self.field(part) for part in names if part]
        if not all(map(is_whole, parts)):
            return None
        if isinstance(source, SumOf):
            return sum(parts)
        first, over = parts[0], (parts[1] if source.over else 1)
        if over == 0 or first * source.times % over:
            keys = [self.places.get(part, part) for part in names]
            self.config.problem(keys[1], f"{keys[1]} {over} does not divide {keys[0]} {first}", "state head_dim")
            return None
        return first * source.times // over + source.plus

    def _key(self, source: Key, name: str) -> Any:
        """The value of the first key there is, checked; the default where there is none."""
        there = {key: value for key, (has, value) in ((key, self.config.find(key)) for key in source.names) if has}
        stated = {key: value for key, value in there.items() if value is not None}
        if there and not stated and source.null is not NULL_IS_MISSING:
            return source.null
        if not stated:
            return self._default(source, name, "null" if there else "not in the file")
        key, value = next(iter(stated.items()))
        self.places[name] = key
        other = next((k for k, v in stated.items() if v != value), None) if name != "max_sequence" else None
        if other:
            message = f"{key} is {shown(value)} but {other} is {shown(stated[other])}"
            self.config.problem(other, message, "they mean the same; correct one of them")
        return self._meaning(source, name, key, value)

    def _meaning(self, source: Key, name: str, key: str, value: Any) -> Any:
        if source.words is not None:
            words = source.words
            if isinstance(value, (str, bool)) and value in words:
                meant = words[value]
                return self._resolve(meant, name) if isinstance(meant, (Fixed, Of)) else meant
            choice = ", ".join(shown(word).strip('"') for word in words)
            self.config.problem(key, f"{key} is {shown(value)}", f"give one of {choice}")
            return None
        advice = advice_for(name, value)
        if advice:
            self.config.problem(key, f"{key} is {shown(value)}", advice)
            return None
        return value

    def _default(self, source: Key, name: str, absent: str) -> Any:
        key = source.names[0]
        sizes = self.family.sizes if self.config.outer else {}
        default = Fixed(sizes[name]) if name in sizes else source.default
        if default is None:
            message = f"{key} is {'null' if absent == 'null' else 'missing'}"
            self.config.problem(key if absent == "null" else "", message, "state it: it has no default")
            return None
        value = self._resolve(default, name)
        if not isinstance(default, (Key, Scaled)):
            self._assume(name, value, f"{key} is {absent}: {self._reason(default)}")
        return value

    def _reason(self, default: Source) -> str:
        if isinstance(default, Of):
            over = f"/{default.over}" if default.over else ""
            times = f"{default.times} times " if default.times != 1 else ""
            return f"{'' if over or times else 'as '}{times}{default.field}{over}"
        return f"the default of {self.model_type}"

    def _assume(self, name: str, value: Any, why: str) -> None:
        self.assumptions.append(Assumption(f"model.{name}", value, why))

    def _scaled(self, source: Scaled, name: str) -> Any:
        has, factor = self.config.find(source.name)
        base = self.field(source.field)
        if not has:
            factor = source.default
        elif factor is None:
            factor = 0
        if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not 0 <= factor <= 10_000:
            self.config.problem(source.name, f"{source.name} is {shown(factor)}", "give a number from 0 to 10000")
            return None
        if not is_whole(base):
            return None
        self.places.setdefault(name, source.name)
        value = int(factor * base)
        if not has:
            self._assume(name, value, f"{source.name} is not in the file: {source.default:g} times {source.field}")
        return value

    def _check_only(self, name: str, needed: Of | Fixed) -> None:
        has, value = self.config.find(name)
        wanted = self._resolve(needed, "")
        if has and value is not None and wanted is not None and value != wanted:
            message = f"{name} is {shown(value)}, which cannot be counted"
            self.config.problem(name, message, f"only {shown(wanted)} can; state the architecture inline")

    def _experts(self, layers: int) -> dict[str, int]:
        if not self.family.experts or not self.known.get("experts"):
            return {}
        sparse = sparse_layers(self.config, self.family.experts, layers)
        if not any(sparse):
            return {"experts": 0}
        period = expert_period(sparse)
        if period is None:
            message = "the layers with experts are neither all after the first few nor every n-th"
            self.config.problem("", message, "state the architecture inline")
            return {}
        return {"dense_layers": period[0], "moe_every": period[1]}

    def _windows(self, layers: int) -> dict[str, Any]:
        listed = listed_windows(self.config, layers)
        rule = self.family.windows
        if rule is None or (rule.enabled_by and not self.config.flag(rule.enabled_by, False)):
            return {}
        size = self._window_size(rule)
        if not size:
            return {}
        windowed = listed if listed is not None else self._rule_windows(rule, layers)
        if not any(windowed):
            return {}
        period = full_period(windowed)
        if period is None:
            self._assume(
                "window", 0, f"{windowed.count(True)} of {layers} layers have a window, in no period: all full"
            )
            return {}
        return {"window": size, "window_kind": rule.kind, "full_every": period}

    def _window_size(self, rule: Windows) -> int:
        has, value = self.config.find(rule.size)
        self.places["window"] = rule.size
        if has and value is None:
            return 0
        if not has:
            if rule.default:
                self._assume(
                    "window", rule.default, f"{rule.size} is not in the file: the default of {self.model_type}"
                )
            return rule.default
        advice = advice_for("window", value)
        if advice:
            self.config.problem(rule.size, f"{rule.size} is {shown(value)}", advice)
            return 0
        return int(value)

    def _rule_windows(self, rule: Windows, layers: int) -> list[bool]:
        """Which layers have a window, from periods and other lists than `layer_types`."""
        if rule.after:
            after = self.config.whole(rule.after, 28, low=0)
            return [index >= after for index in range(layers)]
        rope = self.config.wholes(rule.rope_layers) if rule.rope_layers else None
        if rope:
            return [bool(has) for has in rope] if len(rope) == layers else self._wrong_length(rule, rope, layers)
        every = self.config.whole(rule.every_key, rule.every) if rule.every_key else rule.every
        return [every == 0 or (index + 1) % every != 0 for index in range(layers)]

    def _wrong_length(self, rule: Windows, found: list[int], layers: int) -> list[bool]:
        message = f"{rule.rope_layers} has {len(found)} entries"
        self.config.problem(rule.rope_layers, message, f"there are {layers} layers")
        return [False] * layers
