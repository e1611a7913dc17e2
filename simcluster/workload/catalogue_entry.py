"""One file of the model catalogue, read and checked.

A value names the source that it is from. Which fields an entry states: all those that every transformer has, and those
of experts, latent attention and windows as groups: with `experts` all of theirs, without it none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from simcluster.errors import InputError, Problem
from simcluster.shapes import Architecture, Provenance
from simcluster.workload.inline import GROUPS, RANGES, architecture_from, is_whole
from simcluster.workload.parameters import count_parameters
from simcluster.yamlmarks import Document, read

_ENTRY_KEYS = frozenset({"id", "type", "name", "aliases", "sources", "values"})
_KINDS = ("datasheet", "measured", "estimate", "derived")
# Aliases in the form that the catalogue writes them; any other form is left to the YAML reader.
_ALIASES = re.compile(r'^aliases:[ ]*\n((?:[ ]+- "[^"\\\n]+"\n)+)(?=\S)', re.MULTILINE)
_SOME_ALIASES = re.compile(r"""^["']?aliases\b""", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """One model of the catalogue.

    name                   as its authors write it
    provenance             of each value of the architecture, by field
    published_parameters   [count] as published, 0 if unknown
    rounded_to             [count] what that figure is rounded or cut to; 1 means exact
    """

    id: str
    name: str
    aliases: tuple[str, ...]
    architecture: Architecture
    provenance: Mapping[str, Provenance]
    published_parameters: int
    rounded_to: int


def read_entry(path: Path) -> ModelEntry:
    """The entry in a file; read again only when the file has changed. Raises InputError with every problem."""
    return _read_entry(path, path.stat().st_mtime_ns)


def read_aliases(path: Path) -> tuple[str, ...]:
    """Only the aliases of a file, without reading its values; an entry that is wrong has none.

    A folder of a hundred files takes a few milliseconds so, and no index can go stale.
    """
    return _read_aliases(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2048)
def _read_aliases(path: Path, _mtime_ns: int) -> tuple[str, ...]:
    text = path.read_bytes().decode("utf-8", "replace")
    block = _ALIASES.search(text)
    if block:
        return tuple(re.findall(r'"([^"]+)"', block.group(1)))
    if not _SOME_ALIASES.search(text):
        return ()
    data = read(path).data
    aliases = data.get("aliases") if isinstance(data, dict) else None
    return tuple(map(str, aliases)) if isinstance(aliases, list) else ()


@lru_cache(maxsize=512)
def _read_entry(path: Path, _mtime_ns: int) -> ModelEntry:
    """Read and check a catalogue file; the time of change is part of the cache's key."""
    document = read(path)
    problems = _shape_problems(document, path.stem)
    if problems:
        raise InputError(problems)
    data = document.data
    stated = {key: item["value"] for key, item in data["values"].items()}
    published = stated.pop("parameters", 0)
    arch = architecture_from({"name": data["id"]} | stated, lambda at: document.mark(("values", *at)))
    rounded_to = data["values"].get("parameters", {}).get("rounded_to", 1)
    counted = count_parameters(arch).total
    if published and abs(counted - published) >= rounded_to:
        message = f"the architecture has {counted} parameters, published are {published}"
        raise InputError(Problem(message, "correct one of them", document.mark(("values", "parameters"))))
    provenance = {key: _provenance(data["sources"], item) for key, item in data["values"].items()}
    return ModelEntry(
        id=data["id"],
        name=str(data.get("name", data["id"])),
        aliases=tuple(data.get("aliases", ())),
        architecture=arch,
        provenance=MappingProxyType(provenance),
        published_parameters=published,
        rounded_to=rounded_to,
    )


def _provenance(sources: Mapping[str, Any], item: Mapping[str, Any]) -> Provenance:
    source = sources[str(item["from"])]
    unit, note = str(item.get("unit", "")), str(item.get("note", ""))
    return Provenance(unit, source["source"], source["date"], source["kind"], note)


def _shape_problems(document: Document, stem: str) -> list[Problem]:
    """What is wrong with the form of an entry; the values themselves are judged by `architecture_from`."""
    data = document.data
    if not isinstance(data, dict):
        return [Problem("a model is a mapping with id, sources and values", "", document.mark(()))]
    unknown = sorted(data.keys() - _ENTRY_KEYS)
    problems = [Problem(f"unknown key {key!r} of a model", "remove it", document.mark((key,))) for key in unknown]
    if data.get("id") != stem:
        problems.append(Problem(f"id is {data.get('id')!r}", f"the file's name says {stem!r}", document.mark(("id",))))
    aliases = data.get("aliases", [])
    if not (isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)):
        problems.append(Problem("aliases must be a list of names", "quote each", document.mark(("aliases",))))
    bad = [key for key in ("sources", "values") if not isinstance(data.get(key), dict)]
    if bad:
        return problems + [Problem(f"{key} must be a mapping", "", document.mark((key,))) for key in bad]
    problems.extend(_source_problems(document, data["sources"]))
    problems.extend(_value_problems(document, data["values"], data["sources"]))
    problems.extend(_group_problems(document, data["values"]))
    return problems


def _source_problems(document: Document, sources: Mapping[str, Any]) -> Iterable[Problem]:
    for key, item in sources.items():
        mark = document.mark(("sources", key))
        texts = item if isinstance(item, dict) else {}
        if not all(isinstance(texts.get(part), str) and texts[part] for part in ("source", "date", "kind")):
            yield Problem(f"source {key} needs source, date and kind", "give each as text in quotes", mark)
        elif texts["kind"] not in _KINDS:
            yield Problem(f"source {key}: kind is {texts['kind']!r}", f"give one of {', '.join(_KINDS)}", mark)


def _value_problems(document: Document, values: Mapping[str, Any], sources: Mapping[str, Any]) -> Iterable[Problem]:
    for key, item in values.items():
        mark = document.mark(("values", key))
        if not isinstance(item, dict) or "value" not in item:
            yield Problem(f"{key} needs a value and the source that it is from", "{value: …, from: …}", mark)
        elif str(item.get("from")) not in sources:
            yield Problem(f"{key}: no source {item.get('from')!r} in this file", "add it under sources", mark)
        elif key in {*RANGES, "parameters"} and not isinstance(item.get("unit"), str):
            yield Problem(f"{key} has no unit", "state unit: count", mark)
        elif key == "parameters" and not all(_is_positive(item.get(part, 1)) for part in ("value", "rounded_to")):
            yield Problem("parameters: value and rounded_to are whole numbers from 1", "", mark)


def _group_problems(document: Document, values: Mapping[str, Any]) -> Iterable[Problem]:
    for first, others in GROUPS.items():
        missing = [key for key in others if key not in values] if first in values else []
        if missing:
            message = f"{first} without {', '.join(missing)}"
            yield Problem(message, "state them, 0 or false too", document.mark(("values", first)))


def _is_positive(value: object) -> bool:
    return is_whole(value) and value >= 1
