"""Validation errors in the user's terms: where, what, and what to do."""

from __future__ import annotations

import re
import reprlib
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from simcluster.errors import Problem
from simcluster.scenario.aliases import is_alias
from simcluster.scenario.glued import glued_keys, has_glued
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.suggest import closest, did_you_mean
from simcluster.scenario.tree import Node, Path, child, dotted, find

_SHOWN = 60
_MOST = 100  # problems told of one scenario
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHOWN
_EXPECTED = {
    "string_type": "text",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "string_too_short": "some text",
    "too_short": "a list with entries",
    "string_pattern_mismatch": "a date like '2024-06'",
}


def from_validation(error: ValidationError, tree: Node) -> list[tuple[Path, Problem]]:
    """Each error with the path of what it is about and the problem to report."""
    found = []
    for item in error.errors(include_url=False)[:_MOST]:
        path, words = clean(item["loc"], tree, missing=item["type"] in ("missing", "extra_forbidden"))
        if item["type"] in ("missing", "value_error") and has_glued(tree, path):
            continue  # what is missing is there, glued to its value
        message, advice = _describe(item, path, words)
        found.append((path, problem(tree, path, message, advice)))
    if error.error_count() > _MOST:
        found.append(((), Problem(f"and {error.error_count() - _MOST} problems more")))
    return found


def problem(tree: Node, path: Path, message: str, advice: str = "") -> Problem:
    """Problem at a path, placed where its value (or the nearest parent) was stated."""
    origin = find(tree, path)[0].origin
    label = f"{dotted(path)}: " if path else ""
    if origin.kind == "--set" and not origin.mark:
        label = f"--set {origin.name}: " + ("" if origin.name.startswith(f"{dotted(path)}=") else label)
    elif origin.kind in ("what_if", "candidate"):
        label = f"{origin}: {label}"
    return Problem(f"{label}{message}", advice, origin.mark)


def glued_problems(tree: Node) -> list[Problem]:
    """Keys without a space after the colon."""
    found = []
    for *parent, key in glued_keys(tree):
        name, _, value = str(key).partition(":")
        advice = f"put a space after the colon: {name}: {value}"
        found.append(problem(tree, tuple(parent), f"YAML reads {_shown(key)} as one word", advice))
    return found


def clean(loc: Sequence[str | int], tree: Node, *, missing: bool) -> tuple[Path, list[str]]:
    """Path of a pydantic location in the user's data, and the union tags that were left out.

    Tags ("a word or a mapping") and parts that the user did not write are no steps of the data; the last step of a
    missing or unknown key is kept.
    """
    path: list[str | int] = []
    tags: list[str] = []
    node: Node | None = tree
    for index, step in enumerate(loc):
        below = child(node, step) if node else None
        if below is not None:
            path.append(step)
            node = below
        elif missing and index == len(loc) - 1:
            path.append(step)
        else:
            tags.append(str(step))
    return tuple(path), tags


def _describe(item: Any, path: Path, tags: list[str]) -> tuple[str, str]:
    kind, context, value = item["type"], item.get("ctx", {}), item.get("input")
    if kind == "missing":
        return "is missing", "state it"
    if kind == "extra_forbidden":
        return "unknown key", _key_advice(path)
    if kind == "literal_error":
        options = re.findall(r"'([^']*)'", context["expected"])
        options += ["a mapping"] if "a word or a mapping" in tags else []
        return f"{_shown(value)} is not known here", did_you_mean(str(value), options)
    if kind in ("value_error", "assertion_error"):
        message, _, advice = str(context["error"]).partition("; ")
        return message, advice
    bounds = {"greater_than_equal": "ge", "less_than_equal": "le", "greater_than": "gt", "less_than": "lt"}
    if kind in bounds:
        words = {"ge": "at least", "le": "at most", "gt": "above", "lt": "below"}[bounds[kind]]
        limit = context[bounds[kind]]
        percent = ", like 20% or 0.2" if bounds[kind] in ("le", "lt") and limit in (1, 10) else ""
        return f"{_shown(value)} should be {words} {limit:g}{percent}", ""
    expected = "a word or a mapping" if "a word or a mapping" in tags else _EXPECTED.get(kind)
    if expected:
        return f"{_shown(value)} should be {expected}", ""
    return f"{_shown(value)}: {item['msg'][:1].lower()}{item['msg'][1:]}", ""


def _shown(value: Any) -> str:
    text = _SHORT.repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _key_advice(path: Path) -> str:
    *parent, key = path
    legal = keys_at(tuple(step for step in parent if isinstance(step, str)))
    if closest(str(key), legal):
        return did_you_mean(str(key), legal)
    elsewhere = _everywhere().get(str(key), [])
    foreign = is_alias(str(key))
    if foreign:
        elsewhere = [dotted(foreign)]
    if len(elsewhere) == 1:
        return f"did you mean {elsewhere[0]}?"
    return did_you_mean(str(key), legal)


def keys_at(path: tuple[str, ...]) -> list[str]:
    """Legal keys of the mapping at a path.

    >>> keys_at(("use",))
    ['horizon', 'hours']
    """
    models: list[type[BaseModel]] = [Scenario]
    for step in path:
        fields = [_fields(model).get(step) for model in models]
        models = [part for annotation in fields if annotation is not None for part in _parts(annotation)]
    return list(dict.fromkeys(key for model in models for key in _fields(model)))


@cache
def _fields(model: type[BaseModel]) -> Mapping[str, Any]:
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def _parts(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [part for argument in typing.get_args(annotation) for part in _parts(argument)]


@cache
def _everywhere() -> Mapping[str, list[str]]:
    """All dotted paths of the scenario by their last key."""
    found: dict[str, list[str]] = {}

    def walk(model: type[BaseModel], prefix: str) -> None:
        for key, annotation in _fields(model).items():
            found.setdefault(key, []).append(f"{prefix}{key}")
            for part in _parts(annotation):
                walk(part, f"{prefix}{key}.")

    walk(Scenario, "")
    return found
