"""The model catalogue: published architectures by name, and architectures written inside a scenario.

A catalogue file `hardware_db/models/<id>.yaml` holds one model. Its id is the file's name (lower case, hyphens), so
that a model known by its id costs reading one file; aliases are looked up only when no file has the name. Every value
names one of the entry's sources; the published parameter count is compared with what the architecture gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeGuard, get_args, get_type_hints

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import Architecture, Assumption, Provenance
from simcluster.workload.parameters import count_parameters
from simcluster.yamlmarks import Document, read

_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*\Z")
_ENTRY_KEYS = frozenset({"id", "type", "name", "aliases", "sources", "values"})
_KINDS = ("datasheet", "measured", "estimate", "derived")


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


def list_models(extra: str | Path | None = None) -> tuple[str, ...]:
    """Ids of all models, sorted; `extra` is a folder laid out like hardware_db (models under `models/`).

    >>> "llama-2-7b" in list_models()
    True
    """
    return tuple(sorted({path.stem for folder in _folders(extra) for path in _files(folder)}))


def load_model(name: str, extra: str | Path | None = None) -> tuple[Architecture, Mapping[str, Provenance]]:
    """Architecture of a model of the catalogue and where each of its values comes from.

    name is an id or an alias; case, blanks, underscores and slashes do not matter. What is under `extra` goes before
    what ships. Raises InputError if there is no such model (with the nearest names) or its file is wrong.

    >>> arch, provenance = load_model("Llama 2 7B")
    >>> arch.layers, provenance["layers"].kind
    (32, 'datasheet')
    """
    entry = model_entry(name, extra)
    return entry.architecture, entry.provenance


def model_entry(name: str, extra: str | Path | None = None) -> ModelEntry:
    """The whole catalogue entry of a model; see `load_model`.

    >>> model_entry("llama-3-405b").id
    'llama-3.1-405b'
    """
    wanted = _normal(name)
    folders = _folders(extra)
    for folder in folders:
        path = folder / f"{wanted}.yaml"
        if _FILE_NAME.match(wanted) and path.is_file():
            return _entry(path)
    known: dict[str, str] = {}
    for folder in folders:
        entries = [_entry(path) for path in _files(folder)]
        found = [entry for entry in entries if wanted in map(_normal, entry.aliases)]
        if len(found) > 1:
            ids = ", ".join(entry.id for entry in found)
            raise InputError(Problem(f"model {name!r} is an alias of several models: {ids}", "name one of them"))
        if found:
            return found[0]
        known |= {word: entry.id for entry in entries for word in (entry.id, *map(_normal, entry.aliases))}
    raise InputError(_unknown(name, wanted, known))


def _folders(extra: str | Path | None) -> tuple[Path, ...]:
    """Folders with models, the user's own first."""
    shipped = data_root("hardware_db") / "models"
    if extra is None:
        return (shipped,)
    if not Path(extra).is_dir():
        raise InputError(Problem("no such folder", "check the path", Mark(str(extra))))
    return (Path(extra) / "models", shipped)


def _files(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(folder.glob("*.yaml")))


def _normal(name: str) -> str:
    return re.sub(r"[\s_/]+", "-", name.strip().lower())


def _unknown(name: str, wanted: str, known: Mapping[str, str]) -> Problem:
    near = dict.fromkeys(known[word] for word in get_close_matches(wanted, sorted(known), n=3))
    every = ", ".join(sorted(set(known.values())))
    advice = f"did you mean {' or '.join(near)}?" if near else f"state the architecture, or take one of {every}"
    return Problem(f"unknown model {name!r}", advice)


def _entry(path: Path) -> ModelEntry:
    return _read_entry(path, path.stat().st_mtime_ns)


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
        elif key in {*_RANGES, "parameters"} and not isinstance(item.get("unit"), str):
            yield Problem(f"{key} has no unit", "state unit: count", mark)
        elif key == "parameters" and not all(_is_positive(item.get(part, 1)) for part in ("value", "rounded_to")):
            yield Problem("parameters: value and rounded_to are whole numbers from 1", "", mark)


def _is_positive(value: object) -> bool:
    return _is_whole(value) and value >= 1
