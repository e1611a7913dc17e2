"""Reads values with their sources from one catalogue file and gathers everything that is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeAlias

from simcluster import yamlmarks
from simcluster.errors import Problem
from simcluster.hardware.field import Dimension, dimension_of, si_factor
from simcluster.hardware.quantity import CONFIDENCES, KINDS_OF_EVIDENCE, Quantity
from simcluster.shapes import Provenance

VALUE_KEYS = ("value", "unit", "from", "low", "high", "date", "confidence", "note", "conflicts")
_SOURCE_KEYS = ("source", "date", "kind", "confidence", "note")
_ONE_DATE = r"\d{4}(?:-(?:\d{2}(?:-\d{2})?|H[12]))?"
_DATE = re.compile(rf"{_ONE_DATE}(?:\.\.{_ONE_DATE})?")
_SHOWN = 12

Steps: TypeAlias = "tuple[str | int, ...]"


@dataclass(frozen=True, slots=True)
class Source:
    """One line under `sources:` of a file."""

    source: str
    date: str
    kind: str
    note: str = ""
    confidence: str = ""


class ValueReader:
    """Reads the parts of one document; problems are gathered in `problems`."""

    def __init__(self, document: yamlmarks.Document) -> None:
        self.document = document
        self.problems: list[Problem] = []

    def problem(self, path: Steps, message: str, advice: str = "") -> None:
        """Notes what is wrong at a place of the document."""
        self.problems.append(Problem(message, advice, self.document.mark(path)))

    def mapping(self, data: Any, path: Steps) -> dict[str, Any]:
        """`data` if it is a mapping, else a problem and nothing."""
        if isinstance(data, dict):
            return data
        what = ".".join(str(step) for step in path) or "the file"
        self.problem(path, f"{what} must be a mapping of keys to values")
        return {}

    def sequence(self, data: Any, path: Steps) -> list[Any]:
        """`data` if it is a list, else a problem and nothing."""
        if isinstance(data, list):
            return data
        self.problem(path, f"{path[-1]} must be a list")
        return []

    def known(self, data: Mapping[str, Any], allowed: Iterable[str], path: Steps) -> None:
        """Complains of keys that are not allowed."""
        allowed = tuple(allowed)
        for key in data:
            if key not in allowed:
                self.problem((*path, key), f"unknown key {key!r}", near(key, allowed))

    def text(self, data: Mapping[str, Any], key: str, path: Steps, *, required: bool = True) -> str:
        """Text of a key, "" if it is absent."""
        value = data.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if value is not None and not isinstance(value, str):
            self.problem((*path, key), f"{key} must be text, not {value!r}", "put it in quotes")
        elif required:
            self.problem(path, f"{key} is missing", f"add {key}")
        return ""

    def word(self, data: Mapping[str, Any], key: str, path: Steps, words: tuple[str, ...]) -> str:
        """Text of a key that must be one of `words`, "" if it is absent."""
        value = self.text(data, key, path, required=False)
        if value and value not in words:
            self.problem((*path, key), f"{key} {value!r} is not one of {', '.join(words)}")
            return ""
        return value

    def sources(self, data: Mapping[str, Any]) -> dict[str, Source]:
        """Named sources of the file."""
        found = {}
        for name, raw in self.mapping(data.get("sources") or {}, ("sources",)).items():
            path = ("sources", name)
            source = self.mapping(raw, path)
            self.known(source, _SOURCE_KEYS, path)
            if "kind" not in source:
                self.problem(path, "kind is missing", "add kind")
            found[name] = Source(
                source=self.text(source, "source", path),
                date=self._date(source, path),
                kind=self.word(source, "kind", path, KINDS_OF_EVIDENCE),
                note=self.text(source, "note", path, required=False),
                confidence=self.word(source, "confidence", path, CONFIDENCES),
            )
        return found

    def _date(self, data: Mapping[str, Any], path: Steps, *, required: bool = True) -> str:
        date = data.get("date")
        text = str(date) if isinstance(date, int) and not isinstance(date, bool) else None
        text = self.text(data, "date", path, required=required) if text is None else text
        if text and not is_date(text):
            self.problem((*path, "date"), f"date {text!r} is not a date", 'write "2026-09" or "2024..2026"')
        return text

    def quantity(
        self,
        raw: Mapping[str, Any],
        dimension: Dimension | None,
        sources: Mapping[str, Source],
        path: Steps,
        label: str,
    ) -> Quantity | None:
        """Value with its provenance; None, and problems, if it is not complete. No dimension: its unit tells."""
        before = len(self.problems)
        dimension = dimension or self._dimension(raw, path, label)
        if dimension is None:
            return None
        source = self._source(raw, sources, path, label)
        number = raw.get("value")
        factor = self._factor(raw, dimension, path, label)
        low, high = (self._bound(raw, end, path) for end in ("low", "high"))
        if number is None and low is not None and high is not None:
            number = (low + high) / 2
        value = self._value(number, dimension, path, label)
        confidence = self.word(raw, "confidence", path, CONFIDENCES)
        date, note = self._date(raw, path, required=False), self.text(raw, "note", path, required=False)
        others = self.sequence(raw.get("conflicts") or [], (*path, "conflicts"))
        kept = [self._other(o, dimension, sources, (*path, "conflicts", i), label) for i, o in enumerate(others)]
        if len(self.problems) > before or source is None or value is None:
            return None
        unit = str(raw.get("unit", "")) if dimension != "text" else ""
        provenance = Provenance(unit, source.source, date or source.date, source.kind, note or source.note)  # type: ignore[arg-type]
        ends = [None if end is None else end * factor for end in (low, high)]
        si = value if isinstance(value, str) else value * factor
        others_kept = tuple(other for other in kept if other is not None)
        return Quantity(si, value, provenance, ends[0], ends[1], others_kept, confidence or source.confidence)

    def _other(
        self, raw: Any, dimension: Dimension, sources: Mapping[str, Source], path: Steps, label: str
    ) -> Quantity | None:
        other = self.mapping(raw, path)
        self.known(other, VALUE_KEYS, path)
        return self.quantity(other, dimension, sources, path, label) if other else None

    def _dimension(self, raw: Mapping[str, Any], path: Steps, label: str) -> Dimension | None:
        if "unit" not in raw and isinstance(raw.get("value"), str):
            return "text"
        if not isinstance(raw.get("unit"), str):
            self.problem(path, f"{label} has no unit", "add `unit:`")
            return None
        try:
            return dimension_of(raw["unit"])
        except ValueError as error:
            self.problem((*path, "unit"), f"{label}: {error}")
            return None

    def _source(self, raw: Mapping[str, Any], sources: Mapping[str, Source], path: Steps, label: str) -> Source | None:
        name = raw.get("from")
        if isinstance(name, str) and name in sources:
            return sources[name]
        message = f"{label} has no source" if name is None else f"source {name!r} is not in this file's sources"
        self.problem((*path, "from"), message, "name one with `from:` and describe it under `sources:`")
        return None

    def _value(self, value: Any, dimension: Dimension, path: Steps, label: str) -> float | str | None:
        if dimension == "text":
            if isinstance(value, str) and value.strip():
                return value
            self.problem((*path, "value"), f"{label} must be text, not {value!r}", "put it in quotes")
            return None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        self.problem((*path, "value"), f"{label} must be a number, not {value!r}", "put the unit under `unit:`")
        return None

    def _factor(self, raw: Mapping[str, Any], dimension: Dimension, path: Steps, label: str) -> float:
        if dimension == "text":
            return 1.0
        unit = raw.get("unit")
        if not isinstance(unit, str):
            self.problem(path, f"{label} has no unit", "add `unit:`")
            return 1.0
        try:
            return si_factor(unit, dimension)
        except ValueError as error:
            self.problem((*path, "unit"), f"{label}: {error}")
            return 1.0

    def _bound(self, raw: Mapping[str, Any], end: str, path: Steps) -> float | None:
        bound = raw.get(end)
        if bound is None:
            return None
        if isinstance(bound, (int, float)) and not isinstance(bound, bool):
            return float(bound)
        self.problem((*path, end), f"{end} must be a number, not {bound!r}")
        return None


def is_date(text: str) -> bool:
    """Whether `text` is a year, month, day or half-year, or a span of them.

    >>> is_date("2026-09"), is_date("2024-08..2025"), is_date("2026-H1"), is_date("lately")
    (True, True, True, False)
    """
    return bool(_DATE.fullmatch(text))


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
