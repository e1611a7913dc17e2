"""Raw scenario data in which every value knows who stated it; layers of it are merged before validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from simcluster.errors import Mark
from simcluster.yamlmarks import Document

Path: TypeAlias = "tuple[str | int, ...]"
OriginKind = Literal["file", "--set", "what_if", "candidate", "arguments", "planner", "default"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Who stated a value.

    >>> str(Origin("file", mark=Mark("a.yaml", 3, 5))), str(Origin("what_if", "roce")), str(Origin("default"))
    ('a.yaml:3:5', 'what_if roce', 'default')
    """

    kind: OriginKind
    name: str = ""
    mark: Mark | None = None

    def __str__(self) -> str:
        if self.kind == "file":
            return str(self.mark)
        return f"{self.kind} {self.name}" if self.name and self.kind in ("what_if", "candidate") else self.kind


DEFAULT = Origin("default")
Origins: TypeAlias = Callable[[Path], Origin]


@dataclass(frozen=True, slots=True)
class Node:
    """A value (scalar, dict of nodes or list of nodes) and its origin."""

    value: Any
    origin: Origin


def from_data(data: Any, origins: Origins, path: Path = ()) -> Node:
    """Tree of plain data; `origins` tells the origin of a path."""
    if isinstance(data, Mapping):
        value: Any = {str(key): from_data(item, origins, (*path, str(key))) for key, item in data.items()}
    elif isinstance(data, (list, tuple)):
        value = [from_data(item, origins, (*path, index)) for index, item in enumerate(data)]
    else:
        value = data
    return Node(value, origins(path))


def marked(document: Document, prefix: Path, kind: OriginKind, name: str = "") -> Origins:
    """Origins of the part of a document below `prefix`."""
    return lambda path: Origin(kind, name, document.mark((*prefix, *path)))


def plain(node: Node) -> Any:
    """Plain data again; entries without a value (null) are left out, as if they were not there."""
    if isinstance(node.value, dict):
        return {key: plain(item) for key, item in node.value.items() if item.value is not None}
    if isinstance(node.value, list):
        return [plain(item) for item in node.value]
    return node.value


def find(root: Node, path: Sequence[str | int]) -> tuple[Node, int]:
    """Node at `path` or its nearest parent, and how many steps of the path exist."""
    node = root
    for depth, step in enumerate(path):
        below = child(node, step)
        if below is None:
            return node, depth
        node = below
    return node, len(path)


def child(node: Node, step: str | int) -> Node | None:
    """Entry of a mapping or list."""
    found: Node | None = None
    if isinstance(node.value, dict):
        found = node.value.get(step)
    elif isinstance(node.value, list) and isinstance(step, int) and 0 <= step < len(node.value):
        found = node.value[step]
    return found


def nested(path: Sequence[str], leaf: Node) -> Node:
    """Tree with one value at a dotted path.

    >>> plain(nested(("a", "b"), Node(1, DEFAULT)))
    {'a': {'b': 1}}
    """
    for step in reversed(path):
        leaf = Node({step: leaf}, leaf.origin)
    return leaf


def without(node: Node, path: Sequence[str | int]) -> Node:
    """Tree without the value at `path`; list items stay, emptied."""
    if not path:
        return Node(None, node.origin)
    below = child(node, path[0])
    if below is None:
        return node
    if isinstance(node.value, dict):
        rest = {key: item for key, item in node.value.items() if key != path[0]}
        if len(path) > 1:
            rest = {**node.value, path[0]: without(below, path[1:])}
        return Node(rest, node.origin)
    items = [without(item, path[1:]) if index == path[0] else item for index, item in enumerate(node.value)]
    return Node(items, node.origin)


_ALTERNATIVES = {"acquire": ("own", "rent")}  # stating one drops the other
_NAMED = ("cluster.node", "cluster.fabric")  # a name here stands for a catalogue entry
_WHOLE = (("base",), ("gpu", "gpus"), ("protocol", "link"))  # keys that make an entry a new one


def merge(base: Node, layer: Node, path: tuple[str, ...] = ()) -> Node:
    """`layer` over `base`: mappings merge, all else replaces.

    A new node or fabric replaces the old one whole; a change inside a named one keeps the name as `base`. Own replaces
    rent and the reverse. `0`, `1`, … address items of a list.
    """
    if not isinstance(layer.value, dict):
        return layer
    dotted = ".".join(path)
    if dotted in _NAMED:
        if any(set(keys) <= set(layer.value) for keys in _WHOLE):
            return layer
        if isinstance(base.value, str):
            base = Node({"base": base}, base.origin)
    if isinstance(base.value, list) and layer.value and all(_is_index(key, base.value) for key in layer.value):
        items = list(base.value)
        for key, item in layer.value.items():
            items[int(key)] = merge(items[int(key)], item, (*path, key))
        return Node(items, base.origin)
    if not isinstance(base.value, dict):
        return layer
    options = _ALTERNATIVES.get(dotted, ())
    chosen = [key for key in options if key in layer.value]
    kept = {key: item for key, item in base.value.items() if not chosen or key not in options or key in chosen}
    for key, item in layer.value.items():
        kept[key] = merge(kept[key], item, (*path, key)) if key in kept else item
    return Node(kept, base.origin)


def _is_index(key: str, items: list[Any]) -> bool:
    return key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(items)


def leaves(data: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of all values in plain data, mappings and lists included."""
    if path:
        yield path
    if isinstance(data, Mapping):
        for key, item in data.items():
            yield from leaves(item, (*path, key))
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from leaves(item, (*path, index))


def dotted(path: Sequence[str | int]) -> str:
    """Path as users write it.

    >>> dotted(("training", "parallelism", "stages", 0))
    'training.parallelism.stages.0'
    """
    return ".".join(str(step) for step in path)
