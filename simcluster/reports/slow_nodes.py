"""Nodes of unlike speed as a table: how long steps get, which nodes cost most, what would help."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from simcluster.evaluation import StragglerResult
from simcluster.reports.blocks import Column, Table
from simcluster.units import format_percent, format_seconds

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "swapped": "a typical spare in place of the slowest node",
        "dropped": "without its replica, the others doing the work",
        "rebalanced": "micro-batches shared out by speed",
        "binned": "slow nodes put together in as few replicas as hold them",
        "binned_rebalanced": "both of these",
    }
)
_MOST = 5  # nodes shown


def slow_nodes_table(found: StragglerResult) -> Table:
    """Steps, nodes, remedies."""
    columns = (Column("nodes of unlike speed"), Column("step", "right"), Column("change", "right"))
    return Table(columns, tuple(_rows(found)))


def node_name(found: StragglerResult, node: int) -> str:
    """Name of a node, or its number in the order in which ranks lie on nodes."""
    return found.names[node] if node < len(found.names) else f"node {node}"


def _rows(found: StragglerResult) -> Iterator[tuple[str, str, str]]:
    steps = (
        ("all nodes typical", found.healthy_s),
        ("mean", found.mean_s),
        ("half of the steps take less than", found.p50_s),
        ("nine of ten", found.p90_s),
        ("99 of 100", found.p99_s),
    )
    for words, seconds in steps:
        yield words, format_seconds(seconds), _change(seconds, found.healthy_s)
    for one in found.blame[:_MOST]:
        words = f"{node_name(found, one.node)}, {format_percent(one.factor - 1)} slower, alone costs"
        yield words, format_seconds(one.cost_s), _change(found.healthy_s + one.cost_s, found.healthy_s)
    remedies = found.remedies
    if remedies is None:
        return
    yield "with these nodes as they are", format_seconds(remedies.now_s), _change(remedies.now_s, found.healthy_s)
    for name, words in REMEDIES.items():
        seconds = getattr(remedies, f"{name}_s")
        if math.isfinite(seconds):
            yield words, format_seconds(seconds), _change(seconds, found.healthy_s)


def _change(seconds: float, healthy_s: float) -> str:
    return f"{100 * (seconds / healthy_s - 1):+.2f}%"
