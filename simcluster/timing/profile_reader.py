"""Reads a profile file into the records of `profile`, and says everything that is wrong with it.

The records themselves are the schema: each key of the file is a field, checked by the type that the field declares.
Point tables are block text, a line of column names and then one line per point; a name that ends in _us is stored in
seconds.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from simcluster import yamlmarks
from simcluster.errors import InputError, Problem
from simcluster.timing.records import KernelProfile
from simcluster.timing.regression import Array

SCHEMA = 1
_Record = TypeVar("_Record")
_Path = tuple["str | int", ...]


@cache
def _hints(kind: Any) -> dict[str, Any]:
    """Types of the fields of a dataclass; the annotations are text until they are resolved."""
    return get_type_hints(kind)


def read_profile(path: str | Path) -> KernelProfile:
    """Read one profile file; InputError lists every problem with its place."""
    return profile_from(yamlmarks.read(path, text_keys=("date",)))


def profile_from(document: yamlmarks.Document) -> KernelProfile:
    """Check a parsed document and build the profile from it."""
    reader = _Reader(document)
    data = document.data if isinstance(document.data, dict) else {}
    if data.get("schema") != SCHEMA:
        reader.complain(("schema",), f"schema is {data.get('schema')!r}", f"this version reads schema {SCHEMA}")
    body = {key: value for key, value in data.items() if key != "schema"}
    profile = reader.record((), KernelProfile, body)
    if profile is not None:
        _check_bases(reader, profile)
    if reader.problems or profile is None:
        raise InputError(reader.problems)
    return profile


def _check_bases(reader: _Reader, profile: KernelProfile) -> None:
    """Every base must exist, and following them must end."""
    for key, table in profile.attention.items():
        seen, base = {key}, table.base
        while base:
            if base in seen or base not in profile.attention:
                what = "refers back to itself" if base in seen else f"refers to {base!r}, which the profile lacks"
                reader.complain(
                    ("attention", key, "base"), f"attention {key} {what}", "name another table or leave it empty"
                )
                break
            seen.add(base)
            base = profile.attention[base].base


class _Reader:
    """Builds records from plain data and gathers problems; a part that is wrong becomes None."""

    def __init__(self, document: yamlmarks.Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def complain(self, path: _Path, message: str, advice: str = "") -> None:
        self.problems.append(Problem(message, advice, self.document.mark(path, value=True)))

    def record(self, path: _Path, kind: type[_Record], data: Any) -> _Record | None:
        """A dataclass from a mapping: no unknown key, every field without a default present."""
        if not isinstance(data, dict):
            self.complain(path, f"{_name(path)} must be a mapping, not {data!r:.40}")
            return None
        fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
        for key in data.keys() - fields.keys():
            near = difflib.get_close_matches(key, fields, 1)
            hint = f"did you mean {near[0]}?" if near else f"known keys: {', '.join(fields)}"
            self.complain((*path, key), f"unknown key {_name((*path, key))}", hint)
        record: Any = kind
        hints = _hints(record)
        before, values = len(self.problems), {}
        for name, item in fields.items():
            if name in data:
                values[name] = self.value((*path, name), hints[name], data[name], item.metadata)
            elif item.default is dataclasses.MISSING:
                self.complain(path, f"{_name((*path, name))} is missing")
        return kind(**values) if len(self.problems) == before else None

    def value(self, path: _Path, kind: Any, data: Any, meta: Mapping[str, Any]) -> Any:
        """One value of the type that a field declares."""
        if "columns" in meta:
            return self.points(path, meta["columns"], data)
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            return self.record(path, kind, data)
        origin, args = get_origin(kind), get_args(kind)
        if origin is Literal:
            if data not in args:
                self.complain(path, f"{_name(path)} is {data!r}", f"one of {', '.join(map(str, args))}")
            return data
        if origin is tuple:
            items = data if isinstance(data, list) else [data]
            return tuple(self.number((*path, i), item) for i, item in enumerate(items))
        if origin is not None and issubclass(origin, Mapping):
            return self.mapping(path, args[1], data)
        if kind in (float, int):
            number = self.number(path, data, any_sign="any_sign" in meta)
            return kind(number)
        if not isinstance(data, str):
            self.complain(path, f"{_name(path)} must be text, not {data!r:.40}", "put it in quotes")
        return data

    def mapping(self, path: _Path, kind: Any, data: Any) -> dict[str, Any]:
        """A mapping whose values all have one type."""
        if not isinstance(data, dict):
            self.complain(path, f"{_name(path)} must be a mapping, not {data!r:.40}")
            return {}
        return {str(key): self.value((*path, key), kind, item, {}) for key, item in data.items()}

    def number(self, path: _Path, data: Any, *, any_sign: bool = False) -> float:
        """A finite number, positive unless any sign is allowed."""
        good = isinstance(data, (int, float)) and not isinstance(data, bool) and math.isfinite(data)
        if not good or (data <= 0 and not any_sign):
            self.complain(path, f"{_name(path)} is {data!r:.40}", "a number" + ("" if any_sign else " above zero"))
            return 1.0
        return float(data)

    def points(self, path: _Path, columns: tuple[str, ...], data: Any) -> Array:
        """A table of points from block text."""
        empty = np.empty((0, len(columns)))
        if not isinstance(data, str):
            self.complain(path, f"{_name(path)} must be block text", "write `points: |`")
            return empty
        head, _, body = data.strip().partition("\n")
        if tuple(head.split()) != columns:
            self.complain(path, f"{_name(path)} has the columns {head[:80]!r}", f"expected {' '.join(columns)!r}")
            return empty
        table = self._numbers(path, len(columns), body)
        if table is None:
            return empty
        scale = np.array([1e-6 if name.endswith("_us") else 1.0 for name in columns])
        return np.asarray(table * scale)

    def _numbers(self, path: _Path, width: int, body: str) -> Array | None:
        """The body of a point table, axes [point, column]; times must be positive and nothing negative."""
        try:
            flat = np.array(body.split(), dtype=np.float64)
        except ValueError as error:
            self.complain(path, f"{_name(path)}: {error}", "only numbers may follow the line of column names")
            return None
        if flat.size % width or any(len(line.split()) != width for line in body.splitlines()):
            self.complain(path, f"{_name(path)} has a line without {width} numbers")
            return None
        table = flat.reshape(-1, width)
        if not np.isfinite(table).all() or (table < 0).any() or (table[:, -1] <= 0).any():
            self.complain(path, f"{_name(path)} holds a negative, infinite or zero value", "times must be above zero")
            return None
        return table


def _name(path: _Path) -> str:
    return ".".join(map(str, path)) or "the profile"
