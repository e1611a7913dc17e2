"""Reads one catalogue file into an Entry and gathers everything that is wrong with it.

    id: my-node                       # the file is my-node.yaml
    type: node                        # row group of `schema.py`
    name: My node
    aliases: [MyNode, {alias: Old name, when: "<2024", assumed: true, nics: 4}]
    extends: dgx-h100                 # optional: an entry of the same kind that gives the values left out
    sources:                          # who says so; `source` is an id of sources.yaml, or words that describe it
      quote: {source: quotation of our vendor, date: "2026-10-01", kind: datasheet}
    values:
      price: {value: 290, low: 280, high: 300, unit: kUSD, from: quote, note: "…", conflicts: [{…}]}

A value without unit, source, date and kind does not load.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from simcluster import yamlmarks
from simcluster.errors import InputError, Problem
from simcluster.hardware.alias import Alias, is_when
from simcluster.hardware.entry import Entry
from simcluster.hardware.quantity import KINDS_OF_EVIDENCE, Quantity
from simcluster.hardware.schema import KINDS, Field, si_factor
from simcluster.shapes import Provenance

_TOP = ("id", "type", "name", "aliases", "extends", "note", "sources", "values")
_VALUE = ("value", "unit", "from", "low", "high", "note", "conflicts")
_SOURCE = ("source", "date", "kind", "note")
_SHOWN = 12
_ALIAS = ("alias", "when", "assumed", "nics")

_Path: TypeAlias = "tuple[str | int, ...]"
_Sources: TypeAlias = "Mapping[str, tuple[str, str, str, str]]"  # source, date, kind, note


def read_entry(path: Path, kind: str) -> Entry:
    """Read one file of the catalogue; InputError with every problem in it."""
    return entry_of(yamlmarks.read(path), kind)


def entry_of(document: yamlmarks.Document, kind: str) -> Entry:
    """Entry of a document of the given kind; InputError with every problem in it.

    >>> text = '''
    ... id: x
    ... type: switch
    ... name: X
    ... sources: {s: {source: a sheet, date: "2026", kind: datasheet}}
    ... values: {ports: {value: 64, unit: count, from: s}}
    ... '''
    >>> entry_of(yamlmarks.read_text(text, "x.yaml"), "networks").number("ports")
    64.0
    """
    return _Reader(document, kind).read()


class _Reader:
    """Turns one document into an Entry; problems are gathered, then raised together."""

    def __init__(self, document: yamlmarks.Document, kind: str) -> None:
        self.document = document
        self.kind = kind
        self.problems: list[Problem] = []

    def read(self) -> Entry:
        data = self._mapping(self.document.data, ())
        self._known(data, _TOP, ())
        types = KINDS[self.kind]
        type_ = self._text(data, "type", ())
        if type_ and type_ not in types:
            self._problem(("type",), f"type {type_!r} is not one of {', '.join(types)}", near(type_, types))
        id_ = self._text(data, "id", ())
        sources = self._sources(data)
        fields = types.get(type_, {})
        values = self._values(data, fields, sources) if fields else {}
        entry = Entry(
            kind=self.kind,
            type=type_,
            id=id_,
            name=self._text(data, "name", (), required=False),
            aliases=tuple(self._aliases(data)),
            values=values,
            note=self._text(data, "note", (), required=False),
            extends=self._text(data, "extends", (), required=False),
            files=(self.document.file,),
        )
        if self.problems:
            raise InputError(self.problems)
        return entry

    def _problem(self, path: _Path, message: str, advice: str = "") -> None:
        self.problems.append(Problem(message, advice, self.document.mark(path)))

    def _mapping(self, data: Any, path: _Path) -> dict[str, Any]:
        if isinstance(data, dict):
            return data
        what = ".".join(str(step) for step in path) or "the file"
        self._problem(path, f"{what} must be a mapping of keys to values")
        return {}

    def _known(self, data: Mapping[str, Any], allowed: Iterable[str], path: _Path) -> None:
        allowed = tuple(allowed)
        for key in data:
            if key not in allowed:
                self._problem((*path, key), f"unknown key {key!r}", near(key, allowed))

    def _text(self, data: Mapping[str, Any], key: str, path: _Path, *, required: bool = True) -> str:
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None and not isinstance(value, str):
            self._problem((*path, key), f"{key} must be text, not {value!r}", "put it in quotes")
        elif required:
            self._problem(path, f"{key} is missing", f"add {key}")
        return ""

    def _sources(self, data: Mapping[str, Any]) -> dict[str, tuple[str, str, str, str]]:
        """Named sources of the file: (source, date, kind, note)."""
        found = {}
        for name, raw in self._mapping(data.get("sources") or {}, ("sources",)).items():
            path = ("sources", name)
            source = self._mapping(raw, path)
            self._known(source, _SOURCE, path)
            kind = self._text(source, "kind", path)
            if kind and kind not in KINDS_OF_EVIDENCE:
                self._problem((*path, "kind"), f"kind {kind!r} is not one of {', '.join(KINDS_OF_EVIDENCE)}")
            note = self._text(source, "note", path, required=False)
            found[name] = (self._text(source, "source", path), self._date(source, path), kind, note)
        return found

    def _date(self, source: Mapping[str, Any], path: _Path) -> str:
        date = source.get("date")
        return str(date) if isinstance(date, int) and 1900 < date < 2200 else self._text(source, "date", path)

    def _aliases(self, data: Mapping[str, Any]) -> Iterable[Alias]:
        raw = data.get("aliases") or []
        if not isinstance(raw, list):
            self._problem(("aliases",), "aliases must be a list")
            return
        for index, item in enumerate(raw):
            path = ("aliases", index)
            if isinstance(item, str):
                yield Alias(item)
                continue
            alias = self._mapping(item, path)
            self._known(alias, _ALIAS, path)
            when = self._text(alias, "when", path, required=False)
            if when and not is_when(when):
                self._problem((*path, "when"), f"when: {when!r} is not a range of dates", 'write "<2022-05" or a..b')
            nics = alias.get("nics", 0)
            if not isinstance(nics, int) or isinstance(nics, bool) or nics < 0:
                self._problem((*path, "nics"), f"nics must be a whole number, not {nics!r}")
                nics = 0
            yield Alias(self._text(alias, "alias", path), when, alias.get("assumed") is True, nics)

    def _values(self, data: Mapping[str, Any], fields: Mapping[str, Field], sources: _Sources) -> dict[str, Quantity]:
        found = {}
        for key, raw in self._mapping(data.get("values") or {}, ("values",)).items():
            path = ("values", key)
            if key not in fields:
                self._problem(path, f"unknown value {key!r}", near(key, fields))
                continue
            quantity = self._quantity(raw, fields[key], sources, path)
            if quantity is not None:
                found[key] = quantity
        return found

    def _quantity(
        self,
        raw: Any,
        row: Field,
        sources: _Sources,
        path: _Path,
    ) -> Quantity | None:
        label = str(path[1])
        if not isinstance(raw, dict):
            self._problem(path, f"{label} needs unit and source", "write {value: …, unit: …, from: …}")
            return None
        self._known(raw, _VALUE, path)
        provenance = self._provenance(raw, row, sources, path)
        value = self._value(raw.get("value"), row, path, label)
        factor = self._factor(raw, row, path)
        if provenance is None or value is None or factor is None:
            return None
        low, high = (self._bound(raw, end, factor, path) for end in ("low", "high"))
        others = raw.get("conflicts") or []
        if not isinstance(others, list):
            self._problem((*path, "conflicts"), "conflicts must be a list")
            others = []
        conflicts = [self._quantity(item, row, sources, (*path, "conflicts", i)) for i, item in enumerate(others)]
        kept = tuple(other for other in conflicts if other is not None)
        return Quantity(value if isinstance(value, str) else value * factor, raw["value"], provenance, low, high, kept)

    def _provenance(
        self,
        raw: Mapping[str, Any],
        row: Field,
        sources: _Sources,
        path: _Path,
    ) -> Provenance | None:
        name = raw.get("from")
        if not isinstance(name, str) or name not in sources:
            message = f"{path[1]} has no source" if name is None else f"source {name!r} is not in this file's sources"
            self._problem((*path, "from"), message, "name one with `from:` and describe it under `sources:`")
            return None
        source, date, kind, note = sources[name]
        own = self._text(raw, "note", path, required=False)
        unit = str(raw.get("unit", "")) if row.dimension != "text" else ""
        return Provenance(unit, source, date, kind, own or note)  # type: ignore[arg-type]

    def _value(self, value: Any, row: Field, path: _Path, label: str) -> float | str | None:
        if row.dimension == "text":
            if isinstance(value, str) and value.strip():
                return value
            self._problem((*path, "value"), f"{label} must be text, not {value!r}", "put it in quotes")
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self._problem((*path, "value"), f"{label} must be a number, not {value!r}", "put the unit under `unit:`")
        return None

    def _factor(self, raw: Mapping[str, Any], row: Field, path: _Path) -> float | None:
        if row.dimension == "text":
            return 1.0
        unit = raw.get("unit")
        if not isinstance(unit, str):
            self._problem(path, f"{path[1]} has no unit", "add `unit:`")
            return None
        try:
            return si_factor(unit, row.dimension)
        except ValueError as error:
            self._problem((*path, "unit"), f"{path[1]}: {error}")
            return None

    def _bound(self, raw: Mapping[str, Any], end: str, factor: float, path: _Path) -> float | None:
        bound = raw.get(end)
        if bound is None:
            return None
        if isinstance(bound, (int, float)) and not isinstance(bound, bool):
            return float(bound) * factor
        self._problem((*path, end), f"{end} must be a number, not {bound!r}")
        return None


def near(word: str, words: Iterable[str]) -> str:
    """Advice on a word that is not known: the one that it resembles, or those that there are.

    >>> near("protocl", ("protocol", "link")), near("xyz", ("protocol", "link"))
    ("did you mean 'protocol'?", 'known: protocol, link')
    """
    words = list(words)
    close = get_close_matches(word, words, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(words[:_SHOWN])}{', …' if len(words) > _SHOWN else ''}"
