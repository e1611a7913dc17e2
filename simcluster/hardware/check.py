"""Checks a whole catalogue: every file loads, every reference leads somewhere, every number is plausible.

Each `check_…` holds one rule and returns what breaks it; `check_catalogue` gathers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from simcluster import yamlmarks
from simcluster.errors import InputError, Mark, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry
from simcluster.hardware.plausible import implausible
from simcluster.hardware.quantity import Quantity
from simcluster.hardware.reading import near
from simcluster.hardware.schema import KINDS, PROTOCOLS, TABLES, Field

_SOURCE_KEYS = ("title", "reference", "kind")

_Path: TypeAlias = "tuple[str | int, ...]"


def check_catalogue(catalogue: Catalogue) -> list[Problem]:
    """Everything that is wrong with a catalogue, sorted by file; empty if it is fine.

    >>> check_catalogue(Catalogue.load())
    []
    """
    problems: list[Problem] = []
    entries: list[Entry] = []
    for kind in KINDS:
        for id_ in catalogue.files(kind):
            try:
                entries.append(catalogue.entry(kind, id_))
            except InputError as error:
                problems.extend(error.problems)
    try:
        problems.extend(check_sources(catalogue))
        known = catalogue.sources()
    except InputError as error:
        return [*problems, *error.problems]
    for entry in entries:
        problems.extend(check_entry(entry, catalogue, known))
    problems.extend(check_aliases(entries))
    problems.extend(check_places(catalogue))
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.mark or Mark(""), problem.message))


def check_entry(entry: Entry, catalogue: Catalogue, known: Mapping[str, Any]) -> Iterator[Problem]:
    """References, sources, plausibility of one entry: each value, each row, and the values together."""
    rows = KINDS[entry.kind][entry.type]
    for key, quantity in entry.values.items():
        path: _Path = ("values", key)
        yield from check_reference(entry, path, quantity.value, rows[key], catalogue)
        for one in (quantity, *quantity.conflicts):
            yield from check_source(entry, path, one, known)
            yield from check_plausible(entry, path, one, rows[key])
    for index, row in enumerate(entry.table):
        path = ("table", index)
        for label, column in TABLES[entry.type].columns.items():
            yield from check_reference(entry, path, row.labels.get(label), column, catalogue)
        for one in (row.quantity, *row.quantity.conflicts):
            yield from check_source(entry, path, one, known)
            yield from check_plausible(entry, path, one, Field("count", "", low=0.0))
    protocol = entry.text("protocol", "none")
    if protocol not in PROTOCOLS:
        found = near(protocol, PROTOCOLS)
        yield _problem(entry, ("values", "protocol"), f"protocol {protocol!r} is unknown", found)
    for key, message, advice in implausible(entry, catalogue):
        yield _problem(entry, ("values", key), message, advice)


def check_reference(entry: Entry, path: _Path, value: Any, row: Field, catalogue: Catalogue) -> Iterator[Problem]:
    """A value that names another entry must name one that exists."""
    if row.refers and value is not None and value not in catalogue.files(row.refers):
        hint = near(str(value), catalogue.files(row.refers))
        yield _problem(entry, path, f"{path[-1]}: there is no {value!r} in {row.refers}", hint)


def check_source(entry: Entry, path: _Path, quantity: Quantity, known: Mapping[str, Any]) -> Iterator[Problem]:
    """A source is an id of sources.yaml, or several words that describe it."""
    source = quantity.provenance.source
    if source not in known and " " not in source.strip():
        yield _problem(entry, path, f"{path[-1]}: source {source!r} is not in sources.yaml", near(source, known))


def check_plausible(entry: Entry, path: _Path, quantity: Quantity, row: Field) -> Iterator[Problem]:
    """A number must be physically possible, and lie in the range that comes with it."""
    if isinstance(quantity.value, str):
        return
    if not row.low <= quantity.value <= row.high:
        limits = f"expected {row.low:g} to {row.high:g} in SI units"
        yield _problem(entry, path, f"{path[-1]}: {quantity} is not plausible", limits)
    low = quantity.value if quantity.low is None else quantity.low
    high = quantity.value if quantity.high is None else quantity.high
    if not low <= quantity.value <= high:
        yield _problem(entry, path, f"{path[-1]}: {quantity} lies outside its own low and high", "mend the range")


def check_aliases(entries: list[Entry]) -> Iterator[Problem]:
    """Within a kind, a name leads to one entry at any date, and a search in the files' text finds it."""
    seen: dict[tuple[str, str], tuple[str, str]] = {(entry.kind, entry.id): (entry.id, "") for entry in entries}
    for entry in entries:
        text = "\n".join(Path(file).read_text(encoding="utf-8").casefold() for file in entry.files)
        for alias in entry.aliases:
            owner, when = seen.setdefault((entry.kind, alias.key), (entry.id, alias.when))
            if owner != entry.id and not (when and alias.when and when != alias.when):
                yield _problem(entry, (), f"alias {alias.name!r} also means {owner}", "keep one, or bind both to dates")
            if alias.key not in text:
                message = f"alias {alias.name!r} is written with escapes"
                yield _problem(entry, (), message, "write its characters as they are")


def check_places(catalogue: Catalogue) -> Iterator[Problem]:
    """Files that nothing reads, because they lie in no folder of a kind."""
    folders = {*KINDS, "models"}
    for root in catalogue.roots:
        for path in sorted(root.rglob("*.y*ml")):
            parts = path.relative_to(root).parts
            if parts != ("sources.yaml",) and (len(parts) != 2 or parts[0] not in folders or path.suffix != ".yaml"):
                advice = f"put it in one of {', '.join(sorted(folders))}, as NAME.yaml"
                yield Problem("nothing reads this file", advice, Mark(str(path)))


def check_sources(catalogue: Catalogue) -> Iterator[Problem]:
    """Every source has a title, a reference and a kind."""
    for root in catalogue.roots:
        path = root / "sources.yaml"
        if not path.is_file():
            continue
        document = yamlmarks.read(path)
        data = document.data if isinstance(document.data, dict) else {}
        for id_, source in data.items():
            missing = [key for key in _SOURCE_KEYS if not isinstance(source, dict) or not source.get(key)]
            if missing:
                yield Problem(f"source {id_} lacks {', '.join(missing)}", "add it", document.mark((id_,)))


def _problem(entry: Entry, path: _Path, message: str, advice: str) -> Problem:
    """Problem at a value or row of the entry, in the last of its files that has it; else of the whole file."""
    mark = Mark(entry.files[-1])
    for file in entry.files:
        document = yamlmarks.read(file)
        if path and _has(document.data, path):
            mark = document.mark(path)
    return Problem(f"{entry.id}: {message}", advice, mark)


def _has(data: Any, path: _Path) -> bool:
    part = data.get(path[0]) if isinstance(data, dict) else None
    if isinstance(part, dict):
        return path[1] in part
    return isinstance(part, list) and isinstance(path[1], int) and path[1] < len(part)
