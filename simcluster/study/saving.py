"""Candidates as a study file, to go on with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import relpath
from pathlib import Path
from typing import Any

import yaml

from simcluster.errors import UsageError
from simcluster.scenario import Loaded
from simcluster.scenario import tree as trees

_PATHS = (
    ("model",),
    ("training", "software", "profile"),
    ("operations", "stragglers", "speeds"),
)  # values that may be paths from the scenario's folder


def study_text(named: Sequence[tuple[str, Loaded]], folder: Path) -> str:
    """YAML of a study with these candidates in the user's words; what all share is stated once.

    folder  where the study will lie; paths in it start there

    >>> from simcluster.scenario import inline_candidate
    >>> job = {"model": "llama-7b"}
    >>> named = [(word, inline_candidate(word, job)) for word in ("1xdgx-h100", "2xdgx-h100")]
    >>> print(study_text(named, Path(".")))
    model: llama-7b
    cluster:
      node: dgx-h100
    candidates:
      1xdgx-h100:
        name: 1xdgx-h100
        cluster:
          nodes: 1
      2xdgx-h100:
        name: 2xdgx-h100
        cluster:
          nodes: 2
    <BLANKLINE>
    """
    stated = [(name, _from_folder(trees.plain(loaded.tree), loaded, folder)) for name, loaded in named]
    shared = _shared([tree for _, tree in stated])
    candidates = {name: _without(tree, shared) for name, tree in stated}
    return yaml.safe_dump({**shared, "candidates": candidates}, sort_keys=False, allow_unicode=True, width=120)


def save_study(named: Sequence[tuple[str, Loaded]], path: Path) -> None:
    """Writes the study; UsageError for a file that is there already or cannot be written."""
    if path.exists():
        raise UsageError(f"--save {path}: is there already; name a new file")
    try:
        path.write_text(study_text(named, path.parent), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--save {path}: cannot be written: {error.strerror or error}") from error


def _from_folder(tree: dict[str, Any], loaded: Loaded, folder: Path) -> dict[str, Any]:
    """The data with paths that start at another folder."""
    here = Path(loaded.file).parent
    for steps in _PATHS:
        holder: Any = tree
        for step in steps[:-1]:
            holder = holder.get(step, {}) if isinstance(holder, dict) else {}
        value = holder.get(steps[-1]) if isinstance(holder, dict) else None
        if isinstance(value, str) and not Path(value).is_absolute() and (here / value).exists():
            holder[steps[-1]] = f"./{relpath(here / value, folder)}"
    return tree


def _shared(trees_: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What is the same in all, mappings by their entries."""
    first, rest = trees_[0], trees_[1:]
    found: dict[str, Any] = {}
    for key, value in first.items():
        if not all(key in other for other in rest):
            continue
        others = [other[key] for other in rest]
        if all(other == value for other in others):
            found[key] = value
        elif all(isinstance(one, Mapping) for one in (value, *others)):
            below = _shared([value, *others])
            if below:
                found[key] = below
    return found


def _without(tree: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """What a tree says beyond the shared part."""
    rest: dict[str, Any] = {}
    for key, value in tree.items():
        if key not in shared:
            rest[key] = value
        elif value != shared[key]:
            rest[key] = _without(value, shared[key])
    return rest
