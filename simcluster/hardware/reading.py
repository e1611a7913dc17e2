"""Reads one catalogue file into an Entry and gathers everything that is wrong with it.

    id: my-node                       # the file is my-node.yaml
    type: node                        # row group of `schema.py`
    name: My node
    aliases: [MyNode, {alias: Old name, when: "<2024", assumed: true, nics: 4}]
    extends: dgx-h100                 # optional: an entry of the same kind that gives the values left out
    sources:                          # who says so; `source` is an id of sources.yaml, or words that describe it
      quote: {source: quotation of our vendor, date: "2026-10-01", kind: datasheet, confidence: high}
    values:
      price: {value: 290, low: 280, high: 300, unit: kUSD, from: quote, note: "…", conflicts: [{…}]}
    table:                            # types with a table: columns of `schema.TABLES` beside the keys of a value
      - {instance: box.8x, gpu: h100-80gb-sxm, gpus: 8, term: 1y, value: 2.1, unit: USD/GPU-h, from: quote}

A value without unit, source, date and kind does not load. A value left out between low and high is their middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from simcluster import yamlmarks
from simcluster.errors import InputError
from simcluster.hardware.alias import Alias, is_when
from simcluster.hardware.entry import Entry, Row
from simcluster.hardware.quantity import Quantity
from simcluster.hardware.schema import KINDS, TABLES, Field, Table
from simcluster.hardware.value_reading import VALUE_KEYS, Source, Steps, ValueReader, near

__all__ = ["entry_of", "near", "read_entry"]

_TOP = ("id", "type", "name", "aliases", "extends", "note", "rows", "sources", "values", "table")
_ALIAS = ("alias", "when", "assumed", "nics")


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
    return _Reader(document).read(kind)


class _Reader(ValueReader):
    """Turns one document into an Entry; problems are gathered, then raised together."""

    def read(self, kind: str) -> Entry:
        data = self.mapping(self.document.data, ())
        self.known(data, _TOP, ())
        types = KINDS[kind]
        type_ = self.text(data, "type", ())
        if type_ and type_ not in types:
            self.problem(("type",), f"type {type_!r} is not one of {', '.join(types)}", near(type_, types))
        id_ = self.text(data, "id", ())
        sources = self.sources(data)
        known = type_ in types
        entry = Entry(
            kind=kind,
            type=type_,
            id=id_,
            name=self.text(data, "name", (), required=False),
            aliases=tuple(self._aliases(data)),
            values=self._values(data, types[type_], sources) if known else {},
            table=tuple(self._table(data, type_, sources)) if known else (),
            note=self.text(data, "note", (), required=False),
            extends=self.text(data, "extends", (), required=False),
            rows=self._lines(data, "rows", ()),
            files=(self.document.file,),
        )
        if self.problems:
            raise InputError(self.problems)
        return entry

    def _lines(self, data: Mapping[str, Any], key: str, path: Steps) -> tuple[str, ...]:
        """Names of collected facts: one text or a list of them."""
        raw = data.get(key) or []
        lines = [raw] if isinstance(raw, str) else self.sequence(raw, (*path, key))
        if not all(isinstance(line, str) for line in lines):
            self.problem((*path, key), f"{key} must be text", "put it in quotes")
            return ()
        return tuple(lines)

    def _aliases(self, data: Mapping[str, Any]) -> Iterable[Alias]:
        for index, item in enumerate(self.sequence(data.get("aliases") or [], ("aliases",))):
            path = ("aliases", index)
            if isinstance(item, str):
                yield Alias(item)
                continue
            alias = self.mapping(item, path)
            self.known(alias, _ALIAS, path)
            when = self.text(alias, "when", path, required=False)
            if when and not is_when(when):
                self.problem((*path, "when"), f"when: {when!r} is not a range of dates", 'write "<2022-05" or a..b')
            nics = alias.get("nics", 0)
            if not isinstance(nics, int) or isinstance(nics, bool) or nics < 0:
                self.problem((*path, "nics"), f"nics must be a whole number, not {nics!r}")
                nics = 0
            yield Alias(self.text(alias, "alias", path), when, alias.get("assumed") is True, nics)

    def _values(
        self, data: Mapping[str, Any], fields: Mapping[str, Field], sources: Mapping[str, Source]
    ) -> dict[str, Quantity]:
        found = {}
        for key, raw in self.mapping(data.get("values") or {}, ("values",)).items():
            path = ("values", key)
            if key not in fields:
                self.problem(path, f"unknown value {key!r}", near(key, fields))
            elif not isinstance(raw, dict):
                self.problem(path, f"{key} needs unit and source", "write {value: …, unit: …, from: …}")
            else:
                self.known(raw, VALUE_KEYS, path)
                quantity = self.quantity(raw, fields[key].dimension, sources, path, key)
                if quantity is not None:
                    found[key] = quantity
        return found

    def _table(self, data: Mapping[str, Any], type_: str, sources: Mapping[str, Source]) -> Iterator[Row]:
        raw = data.get("table")
        if raw is None:
            return
        if type_ not in TABLES:
            self.problem(("table",), f"an entry of type {type_} has no table")
            return
        names: set[str] = set()
        for index, item in enumerate(self.sequence(raw, ("table",))):
            path = ("table", index)
            row = self._row(self.mapping(item, path), TABLES[type_], sources, path)
            if row is None:
                continue
            if row.name and row.name in names:
                self.problem((*path, "name"), f"name {row.name!r} is given twice", "give each row its own name")
            names.add(row.name)
            yield row

    def _row(self, raw: dict[str, Any], table: Table, sources: Mapping[str, Source], path: Steps) -> Row | None:
        self.known(raw, ("name", "row", *table.columns, *VALUE_KEYS), path)
        name = self.text(raw, "name", path, required=table.named)
        labels = {}
        for key, column in table.columns.items():
            label = self._label(raw, key, column, path)
            if label is not None:
                labels[key] = label
        quantity = self.quantity(raw, table.dimension, sources, path, name or f"row {path[-1]}")
        lines = self._lines(raw, "row", path)
        return Row(name, labels, quantity, lines) if quantity is not None else None

    def _label(self, raw: Mapping[str, Any], key: str, column: Field, path: Steps) -> str | float | None:
        if column.dimension == "text":
            value = self.text(raw, key, path, required=column.required)
            if value and column.choices and value not in column.choices:
                self.problem((*path, key), f"{key} {value!r} is not one of {', '.join(column.choices)}")
            return value or None
        number = raw.get(key)
        if number is None and column.required:
            self.problem(path, f"{key} is missing", f"add {key}: {column.doc}")
        elif number is not None and (not isinstance(number, (int, float)) or isinstance(number, bool)):
            self.problem((*path, key), f"{key} must be a number, not {number!r}")
        else:
            return number
        return None
