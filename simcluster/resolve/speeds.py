"""Settles how unlike the nodes of a cluster are."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from simcluster.formats.speeds import read_speeds
from simcluster.hardware.cluster import Cluster
from simcluster.resolve.settling import noted
from simcluster.resolve.terms import NodeTerms
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario

_STRAGGLERS = "operations.stragglers"


def node_terms(scenario: Scenario, cluster: Cluster, folder: Path, trail: Trail) -> NodeTerms:
    """As stated, or read from a file that starts at `folder`; what is wrong with it is noted as a problem."""
    stated = scenario.operations.stragglers
    jitter = stated.jitter_sigma or 0.0
    if stated.speeds is not None:
        return NodeTerms(jitter_sigma=jitter, measured=_measured(scenario, cluster, folder / stated.speeds, trail))
    if stated.node_sigma is None:
        why = "the usual spread between nodes is in the rates, which were fitted on whole clusters"
        trail.assume(f"{_STRAGGLERS}.node_sigma", 0.0, why)
    known = tuple((slow.count, slow.factor) for slow in stated.slow_nodes if slow.count)
    return NodeTerms(stated.node_sigma or 0.0, jitter, known)


def _measured(scenario: Scenario, cluster: Cluster, file: Path, trail: Trail) -> tuple[tuple[str, float], ...]:
    """Name and factor of every node."""
    path, stated = f"{_STRAGGLERS}.speeds", scenario.operations.stragglers
    if stated.slow_nodes or stated.node_sigma is not None:
        trail.problem(path, "node_sigma and slow_nodes say the same of nodes", "keep the file, or what it replaces")
    found = noted(trail, path, partial(read_speeds, file))
    if found is None:
        return ()
    if len(found.nodes) < cluster.nodes:
        message = f"{file.name} has {len(found.nodes)} nodes, the cluster {cluster.nodes}"
        trail.problem(path, message, "add a row for each node, in the order in which ranks lie on them")
        return ()
    return tuple(zip(found.nodes, found.factors))
