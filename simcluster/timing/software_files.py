"""Reads `calibration/software/*.yaml`: match patterns, inheritance, and values with their sources.

A file:

    id: megatron-core
    title: Megatron-Core, 2023
    extends: generic
    match: [{text: 'megatron[- ]?(lm|core)', from: 2023-01, until: 2023-12, undated: true}]
    sources: {args: {source: …, date: …, kind: repository}}
    fields: {overlap_grad_reduce: {value: true, from: args}}

`until` is inclusive; `priority` (default 1) settles which of two matching families wins. A value may be a mapping from
GPU generation to value, with `default`. `kind` is documentation, repository (its defaults or example scripts), paper,
or estimate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem

SourceKind: TypeAlias = Literal["documentation", "repository", "paper", "estimate"]
_KINDS = ("documentation", "repository", "paper", "estimate")


@dataclass(frozen=True, slots=True)
class FieldSource:
    """Evidence for one value of a family; `estimate` is a judgement and counts as grade D."""

    source: str
    date: str
    kind: str


@dataclass(frozen=True, slots=True)
class Match:
    """A pattern over the framework text and a span of dates (YYYY-MM, inclusive, empty = open)."""

    pattern: re.Pattern[str]
    start: str
    until: str
    undated: bool
    priority: int


@dataclass(frozen=True, slots=True)
class FamilyFile:
    """One file as written: values of this generation alone, those of its parent by `extends`."""

    id: str
    title: str
    extends: str
    matches: tuple[Match, ...]
    values: Mapping[str, tuple[Any, FieldSource]]
    mark: Mark


def read_families(folder: Path | None = None) -> dict[str, FamilyFile]:
    """All family files of a folder (default: the shipped ones); InputError lists what is wrong in any of them."""
    where = folder or data_root("calibration") / "software"
    families: dict[str, FamilyFile] = {}
    problems: list[Problem] = []
    for path in sorted(where.glob("*.yaml")):
        mark = Mark(path.name)
        try:
            family = _family(yaml.safe_load(path.read_text(encoding="utf-8")), mark)
        except yaml.MarkedYAMLError as error:
            at = error.problem_mark
            place = Mark(path.name, at.line + 1, at.column + 1) if at else mark
            problems.append(Problem(f"not YAML: {error.problem}", "", place))
        except (KeyError, TypeError, AttributeError, ValueError, re.error) as error:
            problems.append(Problem(f"not a software family: {error!r}", "compare with generic.yaml", mark))
        else:
            families[family.id] = family
    problems += [
        Problem(f"extends unknown family {family.extends!r}", "", family.mark)
        for family in families.values()
        if family.extends and family.extends not in families
    ]
    if problems:
        raise InputError(problems)
    return families


def _family(raw: Mapping[str, Any], mark: Mark) -> FamilyFile:
    sources = {
        name: FieldSource(str(entry["source"]), str(entry["date"]), str(entry["kind"]))
        for name, entry in (raw.get("sources") or {}).items()
    }
    bad = [name for name, source in sources.items() if source.kind not in _KINDS]
    if bad:
        raise ValueError(f"kind of source {bad[0]} is none of {', '.join(_KINDS)}")
    values = {name: (entry["value"], sources[entry["from"]]) for name, entry in (raw.get("fields") or {}).items()}
    matches = tuple(_match(entry) for entry in raw.get("match") or ())
    return FamilyFile(str(raw["id"]), str(raw["title"]), str(raw.get("extends") or ""), matches, values, mark)


def _match(entry: Mapping[str, Any]) -> Match:
    return Match(
        re.compile(str(entry["text"]), re.IGNORECASE),
        str(entry.get("from", "")),
        str(entry.get("until", "")),
        bool(entry.get("undated", False)),
        int(entry.get("priority", 1)),
    )


def inherited(families: Mapping[str, FamilyFile], id: str) -> dict[str, tuple[Any, FieldSource]]:
    """Values of a family, its ancestors' first, the nearest winning; InputError when a family extends itself."""
    chain: list[FamilyFile] = []
    name = id
    while name:
        if any(family.id == name for family in chain):
            raise InputError(Problem(f"software family {id!r} extends itself", "", families[id].mark))
        chain.append(families[name])
        name = families[name].extends
    values: dict[str, tuple[Any, FieldSource]] = {}
    for family in reversed(chain):
        values.update(family.values)
    return values


def month_of(date: str) -> str:
    """A date as YYYY-MM: a year counts as its July, anything that is no date as empty.

    >>> month_of("2022"), month_of("2022-05-17"), month_of("soon")
    ('2022-07', '2022-05', '')
    """
    found = re.fullmatch(r"\s*(\d{4})(?:-(\d{2}))?(?:-\d{2})?\s*", date)
    return f"{found[1]}-{found[2] or '07'}" if found else ""


def best_match(families: Mapping[str, FamilyFile], framework: str, date: str) -> tuple[str, str]:
    """Id of the family whose pattern and dates fit with the highest priority, and what that choice assumes.

    The second value is empty when framework and date settle the choice.
    """
    month = month_of(date)
    found = [
        (match.priority, family.id)
        for family in families.values()
        for match in family.matches
        if match.pattern.search(framework) and _covers(match, month)
    ]
    priority, id = max(found)
    if priority == 0:
        name = framework.strip() or "no framework"
        return id, f"{name!r} matches no known framework: generic behaviour of {month or 'recent years'}"
    if not month:
        return id, f"{framework!r} without a date: this generation is the usual reading"
    return id, ""


def _covers(match: Match, month: str) -> bool:
    if not month:
        return match.undated
    return (not match.start or match.start <= month) and (not match.until or month <= match.until)
