"""Reads YAML and remembers where every value stands, so that each later complaint can name file, line and column.

The dialect is narrower than YAML 1.1 on purpose:

* `no`, `off`, `yes` and `on` are words, `12:30` is a word (not base 60), `1e3` is a number (the YAML 1.2 core schema).
* keys are always text; a key given twice is refused; tags are refused (no objects are ever made).
* anchors, aliases and merge keys (`<<`) work, within a budget that stops a "billion laughs" file.
* one document, at most 4 MiB, nested at most 64 deep.

Data that an alias repeats is one shared object: treat what you read as read-only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml

from simcluster.errors import InputError, Mark, Problem

MAX_BYTES = 4 * 2**20
MAX_DEPTH = 64
MAX_ALIAS_NODES = 20_000  # values that aliases may repeat, counted after expansion

_CONSTANTS: dict[str, Any] = {"": None, "~": None, "null": None, "Null": None, "NULL": None} | {
    word: value for value in (True, False) for word in (str(value).lower(), str(value), str(value).upper())
}
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]{0,39}\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]{1,4})?\Z")
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_ADVICE = (
    (r"cannot start any token", "indent with spaces, not tabs; quote text that begins with @, % or `"),
    (r"mapping values are not allowed", "put text that holds ': ' in quotes, and check the indentation"),
    (r"could not find expected ':'", "put a colon and a space after the key"),
    (r"expected (',' or|the node content)|did not find expected", "check brackets, quotes and indentation"),
    (r"quoted scalar", "close the quote"),
)


@dataclass(slots=True)
class Place:
    """Where a value stands (line and column from 1) and, for mappings, where each key does."""

    line: int
    column: int
    keys: dict[str, tuple[int, int]] | None = None
    children: Any = None  # dict[str, Place] of a mapping, list[Place] of a list, None of a scalar


@dataclass(frozen=True, slots=True)
class Document:
    r"""A YAML file: plain data and the place of every value.

    >>> doc = read_text("a: 1\nb:\n  - c: no\n", "x.yaml")
    >>> doc.data
    {'a': 1, 'b': [{'c': 'no'}]}
    >>> str(doc.mark(("b", 0, "c"))), str(doc.mark(("b", 0, "c"), value=True)), str(doc.mark(("b", "nowhere")))
    ('x.yaml:3:5', 'x.yaml:3:8', 'x.yaml:2:1')
    """

    file: str
    data: Any
    place: Place

    def mark(self, path: Sequence[str | int], *, value: bool = False) -> Mark:
        """Place of the key at `path` (of the value with `value=True`); of its nearest parent if it does not exist."""
        place, at = self.place, (self.place.line, self.place.column)
        for step in path:
            child = _child(place, step)
            if child is None:
                break
            key = place.keys.get(str(step)) if place.keys is not None else None
            at = key if key and not value else (child.line, child.column)
            place = child
        return Mark(self.file, *at)


def _child(place: Place, step: str | int) -> Place | None:
    children = place.children
    found: Place | None = None
    if isinstance(children, dict):
        found = children.get(step)
    elif isinstance(children, list) and isinstance(step, int) and 0 <= step < len(children):
        found = children[step]
    return found


def read(path: str | Path, *, text_keys: Collection[str] = ()) -> Document:
    """Read a YAML file; the value of a key in `text_keys` stays text (`torch: 2.10` is not the number 2.1).

    Raises InputError (with every problem that can be told) if the file is missing, too large or wrong.
    """
    path = Path(path)
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise InputError(Problem("no such file", "check the path", Mark(str(path)))) from None
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", "", Mark(str(path)))) from None
    try:
        text = raw[:MAX_BYTES].decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(raw) <= MAX_BYTES:
            line = raw.count(b"\n", 0, error.start) + 1
            problem = Problem("is not UTF-8 text", "save the file as UTF-8", Mark(str(path), line, 1))
            raise InputError(problem) from None
        text = ""
    if len(raw) > MAX_BYTES:
        raise InputError(Problem("is larger than 4 MiB", "split the file", Mark(str(path))))
    return read_text(text, str(path), text_keys=text_keys)


def read_text(text: str, file: str = "<text>", *, text_keys: Collection[str] = ()) -> Document:
    r"""Read YAML from a string; `file` is the name that messages give. See `read`.

    >>> read_text("[1e3, 12:30, 1_000, off]").data
    [1000.0, '12:30', 1000, 'off']
    >>> read_text("a: 1\na: 2\n")
    Traceback (most recent call last):
    simcluster.errors.InputError: <text>:2:1: key 'a' is given twice; the first is on line 1, keep one
    """
    if len(text) > MAX_BYTES:
        raise InputError(Problem("is larger than 4 MiB", "split the file", Mark(file)))
    odd = _UNPRINTABLE.search(text)
    if odd:
        line = text.count("\n", 0, odd.start()) + 1
        column = odd.start() - text.rfind("\n", 0, odd.start())
        problem = Problem(f"control character {odd.group()!r}", "remove it", Mark(file, line, column))
        raise InputError(problem)
    return _Builder(file, text_keys).build(_events(text))


def scalar(text: str) -> Any:
    """Value of an unquoted YAML word: None, bool, int, float or the text itself.

    >>> scalar("8"), scalar("1e3"), scalar("true"), scalar("~"), scalar("no"), scalar("12:30"), scalar("1e999")
    (8, 1000.0, True, None, 'no', '12:30', '1e999')
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.match(text):
        return int(text.replace("_", ""))
    if _FLOAT.match(text):
        number = float(text.replace("_", ""))
        return number if math.isfinite(number) else text
    return text


def _events(text: str) -> Iterator[Any]:
    """Events of PyYAML's C parser, or of its Python parser where the C one was not built."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_event():
            yield loader.get_event()
    finally:
        loader.dispose()


class _Frame:
    """A mapping or list that is being filled."""

    __slots__ = ("anchor", "data", "key", "merges", "nodes", "place")

    def __init__(self, data: dict[str, Any] | list[Any], place: Place, anchor: str | None) -> None:
        self.data = data
        self.place = place
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[tuple[Any, Place]] = []
        self.nodes = 1


class _Builder:
    """Turns events into data and places, without recursion; gathers what is wrong."""

    def __init__(self, file: str, text_keys: Collection[str]) -> None:
        self.file = file
        self.text_keys = frozenset(text_keys)
        self.problems: list[Problem] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Any, Place, int]] = {}
        self.alias_nodes = 0
        self.documents = 0
        self.root: tuple[Any, Place] = (None, Place(1, 1))

    def build(self, events: Iterator[Any]) -> Document:
        handlers: dict[type, Callable[[Any], None]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }
        try:
            for event in events:
                handler = handlers.get(type(event))
                if handler:
                    handler(event)
        except yaml.YAMLError as error:
            self._fatal(*_syntax(error, self.file))
        if self.problems:
            raise InputError(self.problems)
        return Document(self.file, *self.root)

    def _mark(self, event: Any) -> Mark:
        return Mark(self.file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _fatal(self, message: str, advice: str, mark: Mark) -> NoReturn:
        raise InputError([*self.problems, Problem(message, advice, mark)])

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            self._fatal("a second document begins", "keep one document in a file", self._mark(event))

    def _scalar(self, event: Any) -> None:
        start = event.start_mark
        line, column = start.line + 1, start.column + 1
        if event.tag is not None:
            self._refuse_tag(event)
        frame = self.stack[-1] if self.stack else None
        if frame and frame.key is None and type(frame.data) is dict:
            self._key(frame, event, line, column)
            return
        value = event.value
        if event.implicit[0] and not (frame and frame.key in self.text_keys and scalar(value) is not None):
            value = scalar(value)
        place = Place(line, column)
        if event.anchor:
            self.anchors[event.anchor] = (value, place, 1)
        self._add(value, place, 1)

    def _key(self, frame: _Frame, event: Any, line: int, column: int) -> None:
        key = event.value
        keys = frame.place.keys
        assert keys is not None
        if key in keys:
            advice = f"the first is on line {keys[key][0]}, keep one"
            self.problems.append(Problem(f"key {key!r} is given twice", advice, Mark(self.file, line, column)))
        frame.key = key
        keys[key] = (line, column)

    def _start(self, event: Any) -> None:
        if event.tag is not None:
            self._refuse_tag(event)
        frame = self.stack[-1] if self.stack else None
        if frame and frame.key is None and type(frame.data) is dict:
            self._fatal("a key must be a word", "quote braces in text", self._mark(event))
        if len(self.stack) >= MAX_DEPTH:
            self._fatal(f"nested more than {MAX_DEPTH} deep", "flatten the file", self._mark(event))
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if type(event) is yaml.MappingStartEvent:
            self.stack.append(_Frame({}, Place(line, column, {}, {}), event.anchor))
        else:
            self.stack.append(_Frame([], Place(line, column, None, []), event.anchor))

    def _end(self, _event: Any) -> None:
        frame = self.stack.pop()
        for data, place in frame.merges:
            self._merge(frame, data, place)
        if frame.anchor:
            self.anchors[frame.anchor] = (frame.data, frame.place, frame.nodes)
        self._add(frame.data, frame.place, frame.nodes)

    def _add(self, value: Any, place: Place, nodes: int) -> None:
        if not self.stack:
            self.root = (value, place)
            return
        frame = self.stack[-1]
        frame.nodes += nodes
        key = frame.key
        if key is None:
            frame.data.append(value)  # type: ignore[union-attr]
            frame.place.children.append(place)
            return
        frame.key = None
        if key == "<<":
            frame.merges.append((value, place))
            del frame.place.keys["<<"]  # type: ignore[union-attr]
            return
        frame.data[key] = value  # type: ignore[call-overload]
        frame.place.children[key] = place

    def _alias(self, event: Any) -> None:
        frame = self.stack[-1] if self.stack else None
        if frame and frame.key is None and type(frame.data) is dict:
            self._fatal("a key must be a word", "write the key out", self._mark(event))
        if event.anchor not in self.anchors:
            self._fatal(f"alias *{event.anchor} has no anchor before it", "define it above", self._mark(event))
        value, place, nodes = self.anchors[event.anchor]
        self.alias_nodes += nodes
        if self.alias_nodes > MAX_ALIAS_NODES:
            self._fatal("aliases repeat too many values", "write the values out", self._mark(event))
        self._add(value, place, nodes)

    def _merge(self, frame: _Frame, data: Any, place: Place) -> None:
        pairs = list(zip(data, place.children)) if isinstance(data, list) else [(data, place)]
        for source, where in pairs:
            if not isinstance(source, dict):
                mark = Mark(self.file, where.line, where.column)
                self.problems.append(Problem("'<<' takes a mapping", "name an anchor of a mapping", mark))
                continue
            for key in source:
                if key not in frame.data:
                    frame.data[key] = source[key]
                    frame.place.children[key] = where.children[key]
                    frame.place.keys[key] = where.keys[key]  # type: ignore[index]

    def _refuse_tag(self, event: Any) -> None:
        mark = self._mark(event)
        self.problems.append(Problem(f"tag {event.tag!r} is not allowed", "remove it; quote text instead", mark))


def _syntax(error: yaml.YAMLError, file: str) -> tuple[str, str, Mark]:
    """Message, advice and place of a syntax error."""
    where = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    mark = Mark(file, where.line + 1, where.column + 1) if where else Mark(file)
    parts = [getattr(error, "context", None), getattr(error, "problem", None)]
    message = ", ".join(part for part in parts if part) or str(error).splitlines()[0]
    advice = next((text for pattern, text in _ADVICE if re.search(pattern, message)), "")
    return f"not valid YAML: {message}", advice, mark
