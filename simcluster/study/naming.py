"""Names of candidates."""

from __future__ import annotations

from collections.abc import Sequence

from simcluster.scenario import Loaded

Named = list[tuple[str, Loaded]]


def unique(found: Sequence[tuple[str, Loaded]]) -> Named:
    """The same candidates; a name that was given before gets the next free number behind it.

    >>> from simcluster.scenario import load_text
    >>> job = load_text("{model: llama-7b, cluster: {node: dgx-h100, nodes: 1}}")
    >>> [name for name, _ in unique([("a", job), ("a", job), ("a (2)", job), ("b", job)])]
    ['a', 'a (2)', 'a (2) (2)', 'b']
    """
    taken: set[str] = set()
    named: Named = []
    for name, loaded in found:
        free, number = name, 1
        while free in taken:
            number += 1
            free = f"{name} ({number})"
        taken.add(free)
        named.append((free, loaded))
    return named
