"""A Hugging Face config.json as data: bounded in size, with the place of every key, its text part found.

The file is data from outside: nothing in it is run or imported (`auto_map` and `architectures` are ignored).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simcluster.errors import InputError, Mark, Problem
from simcluster.workload.inline import is_whole
from simcluster.yamlmarks import Document, read_text

MAX_BYTES = 2**20
_TEXT_PARTS = ("text_config", "llm_config", "language_config", "thinker_config")
_DEEPEST_TEXT_PART = 4
_MOST_LAYERS = 10_000


@dataclass(slots=True)
class Source:
    """Text of a file and, once a problem asks for it, the place of every key."""

    file: str
    text: str
    document: Document | None = None

    def mark(self, path: tuple[str, ...]) -> Mark:
        """Place of the key at `path`; JSON that YAML does not take has no lines."""
        if self.document is None:
            with suppress(InputError):
                self.document = read_text(self.text, self.file)
        return self.document.mark(path) if self.document else Mark(self.file)


@dataclass
class Config:
    """One mapping of a file: what was asked for, and what was wrong with it.

    outer    the mapping around it, where this is the text part of a larger model
    """

    data: Mapping[str, Any]
    source: Source | None = None
    path: tuple[str, ...] = ()
    outer: Mapping[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether there is such a key (dots step into mappings) and its value."""
        first = name.partition(".")[0]
        self.used.add(first)
        place: Any = self.data
        for part in name.split("."):
            if not isinstance(place, Mapping) or part not in place:
                return (first in self.outer, self.outer.get(first)) if name == "tie_word_embeddings" else (False, None)
            place = place[part]
        return True, place

    def mark(self, name: str = "") -> Mark | None:
        """Place of a key."""
        parts = tuple(part for part in name.split(".") if part)
        return self.source.mark((*self.path, *parts)) if self.source else None

    def problem(self, name: str, message: str, advice: str = "") -> None:
        """Note something wrong at a key."""
        self.problems.append(Problem(message, advice, self.mark(name)))

    def whole(self, name: str, default: int, low: int = 1) -> int:
        """A whole number from `low` to 10000; missing or null: the default."""
        _, value = self.find(name)
        if value is None:
            return default
        if is_whole(value) and low <= value <= _MOST_LAYERS:
            return value
        self.problem(name, f"{name} is {shown(value)}", f"give a whole number from {low} to {_MOST_LAYERS}")
        return default

    def flag(self, name: str, default: bool) -> bool:
        """A flag; missing or null: the default."""
        _, value = self.find(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        self.problem(name, f"{name} is {shown(value)}", "give true or false")
        return default

    def wholes(self, name: str) -> list[int] | None:
        """A list of whole numbers; None if missing, null or wrong."""
        return self._list(name, int, "whole numbers")

    def words(self, name: str) -> list[str] | None:
        """A list of words; None if missing, null or wrong."""
        return self._list(name, str, "words")

    def _list(self, name: str, kind: type, what: str) -> list[Any] | None:
        _, value = self.find(name)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(item, kind) for item in value):
            return value
        self.problem(name, f"{name} is {shown(value)}", f"give a list of {what}")
        return None

    def text_part(self) -> Config:
        """The mapping that describes the language model: this one, or the text part inside it."""
        part = self
        for _ in range(_DEEPEST_TEXT_PART):
            inner = next(((name, part.data[name]) for name in _TEXT_PARTS if _is_part(part.data.get(name))), None)
            if inner is None:
                break
            part = Config(inner[1], self.source, (*part.path, inner[0]), part.data, self.problems)
        return part


def _is_part(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value)


def read_config(given: str | Path | Mapping[str, Any]) -> Config:
    """The whole file, or the mapping itself. Raises InputError if it cannot be read or holds no JSON object."""
    if isinstance(given, Mapping):
        return Config(given)
    path = Path(given)
    source = Source(str(path), _text(path))
    try:
        data = json.loads(source.text)
    except json.JSONDecodeError as error:
        mark = Mark(source.file, error.lineno, error.colno)
        raise InputError(Problem(f"not valid JSON: {error.msg}", "check commas, quotes and brackets", mark)) from None
    except (RecursionError, ValueError):
        problem = Problem("not valid JSON: nested too deep or a number too long", "", Mark(source.file))
        raise InputError(problem) from None
    if not isinstance(data, dict):
        advice = 'it begins with "{" and holds model_type'
        raise InputError(Problem("a config.json is a JSON object", advice, Mark(source.file, 1, 1)))
    return Config(data, source)


def shown(value: object) -> str:
    """A value as it stands in the file, shortened.

    >>> shown(True), shown(None), shown("x" * 100)[-1]
    ('true', 'null', '…')
    """
    with suppress(TypeError, ValueError):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 60 else f"{text[:60]}…"
    return f"a {type(value).__name__}"


def _text(path: Path) -> str:
    mark = Mark(str(path))
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(Problem("no such file", "check the path", mark)) from None
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", "", mark)) from None
    if len(raw) > MAX_BYTES:
        raise InputError(Problem("is larger than 1 MiB", "a config.json has a few kilobytes; check the path", mark))
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(Problem("is not UTF-8 text", "save the file as UTF-8", mark)) from None
