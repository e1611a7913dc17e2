"""The model catalogue: published architectures by name.

A catalogue file `hardware_db/models/<id>.yaml` holds one model. Its id is the file's name (lower case, hyphens), so
that a model known by its id costs reading one file; aliases are looked up only when no file has the name. Every value
names one of the entry's sources; the published parameter count is compared with what the architecture gives. A path
to a Hugging Face config.json stands wherever a name does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import Architecture, Assumption, Provenance
from simcluster.workload.catalogue_entry import ModelEntry, read_aliases, read_entry
from simcluster.workload.huggingface import architecture_from_config
from simcluster.workload.inline import RANGES, architecture_from, assumed_defaults

__all__ = [
    "ModelEntry",
    "architecture_from",
    "assumed_defaults",
    "config_path",
    "list_models",
    "load_model",
    "model_assumptions",
    "model_entry",
]

_FILE_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*\Z")
_CONFIG = "config.json"


def list_models(extra: str | Path | None = None) -> tuple[str, ...]:
    """Ids of all models, sorted; `extra` is a folder laid out like hardware_db (models under `models/`).

    >>> "llama-2-7b" in list_models()
    True
    """
    return tuple(sorted({path.stem for folder in _folders(extra) for path in _files(folder)}))


def load_model(name: str, extra: str | Path | None = None) -> tuple[Architecture, Mapping[str, Provenance]]:
    """Architecture of a model and where each of its values comes from.

    name is an id or an alias (case, blanks, underscores and slashes do not matter), or the path of a Hugging Face
    config.json or of a folder that holds one; the catalogue goes first, so write "./name" for a folder named like a
    model. What is under `extra` goes before what ships. Raises InputError if there is no such model (with the nearest
    names) or its file is wrong.

    >>> arch, provenance = load_model("Llama 2 7B")
    >>> arch.layers, provenance["layers"].kind
    (32, 'datasheet')
    """
    path = config_path(name)
    if path and (_looks_like_path(name) or not _find(name, extra)):
        return _from_config(path)
    entry = model_entry(name, extra)
    return entry.architecture, entry.provenance


def model_assumptions(name: str, extra: str | Path | None = None) -> tuple[Assumption, ...]:
    """What had to be assumed about a model: nothing in the catalogue, the defaults that a config.json leaves out.

    >>> model_assumptions("llama-2-7b")
    ()
    """
    path = config_path(name)
    if path and (_looks_like_path(name) or not _find(name, extra)):
        return architecture_from_config(path)[1]
    return ()


def model_entry(name: str, extra: str | Path | None = None) -> ModelEntry:
    """The whole catalogue entry of a model; see `load_model`.

    >>> model_entry("llama-3-405b").id
    'llama-3.1-405b'
    """
    found = _find(name, extra)
    if len(found) > 1:
        ids = ", ".join(path.stem for path in found)
        raise InputError(Problem(f"model {name!r} is an alias of several models: {ids}", "name one of them"))
    if not found:
        raise InputError(_unknown(name, extra))
    return read_entry(found[0])


def config_path(name: str) -> Path | None:
    """The Hugging Face config.json that a name means: itself, or the one in the folder of that name; else None.

    A name that ends in .json is a path even where no such file is.

    >>> config_path("llama-2-7b") is None, config_path("nowhere/config.json").name
    (True, 'config.json')
    """
    if "\0" in name or not name:
        return None
    path = Path(name).expanduser() if name.startswith("~/") else Path(name)
    if path.suffix == ".json":
        return path
    inside = path / _CONFIG
    return inside if inside.is_file() or (_looks_like_path(name) and path.is_dir()) else None


def _looks_like_path(name: str) -> bool:
    return name.endswith(".json") or name.startswith(("./", "../", "/", "~/"))


def _from_config(path: Path) -> tuple[Architecture, Mapping[str, Provenance]]:
    arch, assumptions = architecture_from_config(path)
    why = {item.path.rpartition(".")[2]: item.why for item in assumptions}
    provenance = {
        name: Provenance(
            "count" if name in RANGES else "",
            str(path),
            "",
            "derived" if name in why else "datasheet",
            why.get(name, ""),
        )
        for name in Architecture.__dataclass_fields__
        if name != "name"
    }
    return arch, MappingProxyType(provenance)


def _find(name: str, extra: str | Path | None) -> tuple[Path, ...]:
    """Files of the model with this id, else of those with this alias in the first folder that has any."""
    wanted = _normal(name)
    folders = _folders(extra)
    for folder in folders:
        path = folder / f"{wanted}.yaml"
        if _FILE_NAME.match(wanted) and path.is_file():
            return (path,)
    for folder in folders:
        found = tuple(path for path in _files(folder) if wanted in map(_normal, read_aliases(path)))
        if found:
            return found
    return ()


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


def _unknown(name: str, extra: str | Path | None) -> Problem:
    known = dict(_words(extra))
    near = dict.fromkeys(known[word] for word in get_close_matches(_normal(name), sorted(known), n=3))
    every = ", ".join(sorted(set(known.values())))
    advice = f"did you mean {' or '.join(near)}?" if near else f"state the architecture, or take one of {every}"
    return Problem(f"unknown model {name!r}", advice)


def _words(extra: str | Path | None) -> Iterator[tuple[str, str]]:
    """Every id and alias, with the id that it means."""
    for folder in _folders(extra):
        for path in _files(folder):
            for word in (path.stem, *map(_normal, read_aliases(path))):
                yield word, path.stem
