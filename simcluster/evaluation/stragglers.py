"""What nodes of unlike speed do to a step: how much slower it gets, who is to blame, what would help."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.analysis.straggler_costs import Blame, Remedies, blame, remedies
from simcluster.analysis.stragglers import (
    NodeSpeeds,
    node_places,
    relative,
    simulate_stragglers,
    simulated_slow_down,
)
from simcluster.engine.paced import paced_step
from simcluster.engine.step import StepTimes
from simcluster.resolve import Resolved
from simcluster.resolve.terms import NodeTerms

_SAMPLES = 500  # steps behind percentiles
_FEW = 64  # steps behind a mean


@dataclass(frozen=True, slots=True)
class StragglerResult:
    """Steps on unlike nodes, in seconds.

    healthy_s     with every node typical
    mean_s, p50_s, p90_s, p99_s   over steps (and over fleets, where speeds are drawn)
    names         of nodes, where a file names them
    blame         slowest nodes and what each costs, the dearest first; empty where only a spread is known
    remedies      what would help against those nodes; None likewise
    """

    healthy_s: float
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    names: tuple[str, ...]
    blame: tuple[Blame, ...]
    remedies: Remedies | None


def slow_down_of(resolved: Resolved, times: StepTimes, terms: NodeTerms, seed: int) -> float:
    """Factor on the mean step time, >= 1."""
    if terms.alike:
        return 1.0
    plan, machine, nodes = resolved.plan, resolved.machine, resolved.cluster.nodes
    if not terms.jitter_sigma and not terms.measured:
        return simulated_slow_down(plan, machine, times, nodes, terms.node_sigma, terms.slow_nodes, seed)
    step, places = paced_step(plan, machine, times), node_places(plan, machine.network.gpus_per_node)
    samples = _FEW if terms.jitter_sigma else 1
    return max(1.0, simulate_stragglers(step, places, _speeds(terms, nodes), samples, seed).slow_down)


def stragglers_of(resolved: Resolved, times: StepTimes, terms: NodeTerms, seed: int) -> StragglerResult | None:
    """Steps on the settled terms; None where all nodes are alike."""
    if terms.alike:
        return None
    plan, machine = resolved.plan, resolved.machine
    step, places = paced_step(plan, machine, times), node_places(plan, machine.network.gpus_per_node)
    speeds = _speeds(terms, resolved.cluster.nodes)
    found = simulate_stragglers(step, places, speeds, _SAMPLES, seed)
    known = bool(terms.measured or terms.slow_nodes)
    factors = NodeSpeeds(speeds.nodes, 0.0, 0.0, speeds.slow_nodes, speeds.measured).draw(1, seed)[0]
    return StragglerResult(
        healthy_s=found.healthy_s,
        mean_s=float(found.step_s.mean()),
        p50_s=found.percentile(50),
        p90_s=found.percentile(90),
        p99_s=found.percentile(99),
        names=tuple(name for name, _ in terms.measured),
        blame=blame(step, places, factors) if known else (),
        remedies=remedies(step, places, factors, plan.micro_batches) if known else None,
    )


def _speeds(terms: NodeTerms, nodes: int) -> NodeSpeeds:
    measured = relative([factor for _, factor in terms.measured]) if terms.measured else ()
    return NodeSpeeds(len(measured) or nodes, terms.node_sigma, terms.jitter_sigma, terms.slow_nodes, measured)
