"""Checks a whole catalogue: every file loads, every reference leads somewhere, every number is plausible.

Each `check_…` holds one rule and returns what breaks it; `check_catalogue` gathers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simcluster import yamlmarks
from simcluster.errors import InputError, Mark, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry
from simcluster.hardware.quantity import Quantity
from simcluster.hardware.reading import near
from simcluster.hardware.schema import KINDS, PROTOCOLS, Field

_SOURCE_KEYS = ("title", "reference", "kind")


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
    return sorted(dict.fromkeys(problems), key=lambda problem: (problem.mark or Mark(""), problem.message))


def check_entry(entry: Entry, catalogue: Catalogue, known: Mapping[str, Any]) -> Iterator[Problem]:
    """References, sources, plausibility and the searchability of the names of one entry."""
    rows = KINDS[entry.kind][entry.type]
    for key, quantity in entry.values.items():
        yield from check_reference(entry, key, quantity, rows[key], catalogue)
        for one in (quantity, *quantity.conflicts):
            yield from check_source(entry, key, one, known)
            yield from check_plausible(entry, key, one, rows[key])
    protocol = entry.text("protocol", "none")
    if protocol not in PROTOCOLS:
        yield _problem(entry, "protocol", f"protocol {protocol!r} is unknown", near(protocol, PROTOCOLS))
    if entry.number("nics") and not entry.number("nic_rate"):
        yield _problem(entry, "nics", "nics without nic_rate", "add nic_rate")


def check_reference(entry: Entry, key: str, quantity: Quantity, row: Field, catalogue: Catalogue) -> Iterator[Problem]:
    """A value that names another entry must name one that exists."""
    if row.refers and quantity.value not in catalogue.files(row.refers):
        hint = near(str(quantity.value), catalogue.files(row.refers))
        yield _problem(entry, key, f"{key}: there is no {quantity.value!r} in {row.refers}", hint)


def check_source(entry: Entry, key: str, quantity: Quantity, known: Mapping[str, Any]) -> Iterator[Problem]:
    """A source is an id of sources.yaml, or several words that describe it."""
    source = quantity.provenance.source
    if source not in known and " " not in source.strip():
        yield _problem(entry, key, f"{key}: source {source!r} is not in sources.yaml", near(source, known))


def check_plausible(entry: Entry, key: str, quantity: Quantity, row: Field) -> Iterator[Problem]:
    """A number must be physically possible, and lie in the range that comes with it."""
    if isinstance(quantity.value, str):
        return
    if not row.low <= quantity.value <= row.high:
        limits = f"expected {row.low:g} to {row.high:g} in SI units"
        yield _problem(entry, key, f"{key}: {quantity} is not plausible", limits)
    low = quantity.value if quantity.low is None else quantity.low
    high = quantity.value if quantity.high is None else quantity.high
    if not low <= quantity.value <= high:
        yield _problem(entry, key, f"{key}: {quantity} lies outside its own low and high", "mend the range")


def check_aliases(entries: list[Entry]) -> Iterator[Problem]:
    """Within a kind, a name leads to one entry at any date, and a search in the files' text finds it."""
    seen: dict[tuple[str, str], tuple[str, str]] = {(entry.kind, entry.id): (entry.id, "") for entry in entries}
    for entry in entries:
        text = "\n".join(Path(file).read_text(encoding="utf-8").casefold() for file in entry.files)
        for alias in entry.aliases:
            owner, when = seen.setdefault((entry.kind, alias.key), (entry.id, alias.when))
            if owner != entry.id and not (when and alias.when and when != alias.when):
                yield _problem(entry, "", f"alias {alias.name!r} also means {owner}", "keep one, or bind both to dates")
            if alias.key not in text:
                yield _problem(
                    entry, "", f"alias {alias.name!r} is written with escapes", "write its characters as they are"
                )


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


def _problem(entry: Entry, key: str, message: str, advice: str) -> Problem:
    """Problem at a value of the entry, in the last of its files that has it; of the whole file without a key."""
    mark = Mark(entry.files[-1])
    for file in entry.files:
        document = yamlmarks.read(file)
        if key and key in (document.data.get("values") or {}):
            mark = document.mark(("values", key))
    return Problem(f"{entry.id}: {message}", advice, mark)
