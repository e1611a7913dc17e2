"""Settles how unlike the nodes of a cluster are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from simcluster.formats.speeds import MeasuredSpeeds, read_speeds, seem_rates
from simcluster.hardware.cluster import Cluster
from simcluster.resolve.settling import noted
from simcluster.resolve.terms import NodeTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario

_STRAGGLERS = "operations.stragglers"
_SHOWN = 3  # names in a note


def node_terms(scenario: Scenario, cluster: Cluster, folder: Path, trail: Trail) -> NodeTerms:
    """As stated, or read from a file that starts at `folder`; what is wrong with it is noted as a problem."""
    stated = scenario.operations.stragglers
    jitter = stated.jitter_sigma or 0.0
    if stated.speeds is not None:
        return NodeTerms(jitter_sigma=jitter, measured=_measured(scenario, cluster, folder / stated.speeds, trail))
    if stated.node_sigma is None:
        why = "the usual spread between nodes is in the rates, which were fitted on whole clusters"
        trail.assume(f"{_STRAGGLERS}.node_sigma", 0.0, why)
    return NodeTerms(
        node_sigma=stated.node_sigma or 0.0,
        jitter_sigma=jitter,
        slow_nodes=tuple((slow.count, slow.factor) for slow in stated.slow_nodes if slow.count),
        named=tuple((slow.node, slow.factor) for slow in stated.slow_nodes if slow.node is not None),
    )


def _measured(scenario: Scenario, cluster: Cluster, file: Path, trail: Trail) -> tuple[tuple[str, float], ...]:
    """Name and time of every node of the cluster."""
    path, stated = f"{_STRAGGLERS}.speeds", scenario.operations.stragglers
    if stated.slow_nodes or stated.node_sigma is not None:
        trail.problem(path, "node_sigma and slow_nodes say the same of nodes", "keep the file, or what it replaces")
    found = noted(trail, path, partial(read_speeds, file))
    if found is None:
        return ()
    count = cluster.nodes
    if len(found.nodes) < count:
        message = f"{file.name} has {_nodes(len(found.nodes))}, the cluster {count}"
        trail.problem(path, message, "add a row for each node, in the order in which ranks lie on them")
        return ()
    if unused := found.nodes[count:]:
        message = f"{file.name} has {_nodes(len(found.nodes))}, the cluster {count}: the first {count} rows are read"
        trail.note(path, f"{message}, {_list(unused)} not used")
    _note_rates(MeasuredSpeeds(found.nodes[:count], found.factors[:count]), path, file, trail)
    return tuple(zip(found.nodes[:count], found.factors[:count]))


def _note_rates(found: MeasuredSpeeds, path: str, file: Path, trail: Trail) -> None:
    """Says so where the numbers look like rates."""
    low = seem_rates(found.factors)
    if low:
        few = _list([found.nodes[row] for row in low])
        message = f"{file.name}: {few} far below the others, which agree; a factor is a time, and less is faster"
        trail.note(path, f"{message}: if these are rates (TFLOP/s, tokens/s), write 1 over each")


def _nodes(count: int) -> str:
    return f"{count} node{'' if count == 1 else 's'}"


def _list(names: Sequence[str]) -> str:
    """The first names, and how many more there are, with their verb.

    >>> _list("a"), _list("abcde")
    ('a is', 'a, b, c and 2 more are')
    """
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more} {'is' if len(names) == 1 else 'are'}"
