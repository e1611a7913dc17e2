"""Keys that YAML reads as one word with their value, because no space follows the colon: `{count:1}`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simcluster.scenario.tree import Node, Path, find


def glued_keys(node: Node, path: Path = ()) -> Iterator[Path]:
    """Paths of all such keys; they have no value, so that nothing else would complain of them.

    >>> from simcluster.scenario.tree import DEFAULT, from_data
    >>> list(glued_keys(from_data({"slow": [{"count:1": None, "factor": 2}]}, lambda _: DEFAULT)))
    [('slow', 0, 'count:1')]
    """
    if isinstance(node.value, dict):
        for key, item in node.value.items():
            if is_glued(key, item):
                yield (*path, key)
            yield from glued_keys(item, (*path, key))
    elif isinstance(node.value, list):
        for index, item in enumerate(node.value):
            yield from glued_keys(item, (*path, index))


def is_glued(key: str, item: Node) -> bool:
    """Whether a key holds its value."""
    name, colon, value = key.partition(":")
    return bool(item.value is None and name and colon and value)


def has_glued(tree: Node, path: Sequence[str | int]) -> bool:
    """Whether the mapping at a path, or the nearest that exists, has such a key."""
    held = find(tree, path)[0].value
    return isinstance(held, dict) and any(is_glued(key, item) for key, item in held.items())
