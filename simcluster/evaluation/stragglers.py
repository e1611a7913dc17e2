"""What nodes of unlike speed do to a step: how much slower it gets, what each slow node costs, what would help."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.analysis.balancing import layers_of
from simcluster.analysis.node_speeds import NodeSpeeds, relative
from simcluster.analysis.straggler_costs import (
    NodeCost,
    StageCost,
    node_costs,
    one_anywhere,
    replaced_one_by_one,
    stage_costs,
)
from simcluster.analysis.straggler_remedies import Remedies, layers_by_speed, remedies
from simcluster.analysis.stragglers import (
    Floats,
    Ints,
    Stragglers,
    group_paces,
    node_places,
    simulate_stragglers,
)
from simcluster.engine.paced import PacedStep, paced_step
from simcluster.engine.step import StepTimes
from simcluster.evaluation.memory import memory_of
from simcluster.parallel.position import Position, node_position
from simcluster.program.plan import StepPlan
from simcluster.resolve import Resolved
from simcluster.resolve.terms import NodeTerms

_SAMPLES = 500  # steps behind percentiles


@dataclass(frozen=True, slots=True)
class SlowNode:
    """A slow node that is known by its number: name, where it lies, and what it costs."""

    name: str
    position: Position
    cost: NodeCost


@dataclass(frozen=True, slots=True)
class LayersBySpeed:
    """Layers shared out over stages by their speed, and simulated.

    layers       of each virtual stage, in model order
    of_stages    of each stage, all its virtual ones together
    step_s       step time [s]
    fits         whether all stages fit in memory then
    as_now       they are split so already
    """

    layers: tuple[int, ...]
    of_stages: tuple[int, ...]
    step_s: float
    fits: bool
    as_now: bool


@dataclass(frozen=True, slots=True)
class StragglerResult:
    """Steps on unlike nodes, in seconds.

    healthy_s     with every node typical
    drawn         what the draws differ in: speeds of nodes, places of slow nodes, steps; empty where nothing is drawn
    mean_s, p50_s, p90_s, p99_s   over the draws
    nodes         known slow ones, the one that costs most alone first
    replaced_s    with the first 1, 2, 3 … of them typical, up to the last that gains something
    remedies      what else would help against them; None where none is known
    layers        layers split by speed; None where they cannot move
    stages        what a slow node costs by stage, where nobody knows its place
    """

    healthy_s: float
    drawn: tuple[str, ...]
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    nodes: tuple[SlowNode, ...] = ()
    replaced_s: tuple[float, ...] = ()
    remedies: Remedies | None = None
    layers: LayersBySpeed | None = None
    stages: tuple[StageCost, ...] = ()

    @property
    def slow_down(self) -> float:
        """Factor on the mean step time, >= 1."""
        return max(1.0, self.mean_s / self.healthy_s)


def stragglers_of(resolved: Resolved, times: StepTimes, terms: NodeTerms, seed: int) -> StragglerResult | None:
    """Steps on the settled terms; None where all nodes are alike."""
    if terms.alike:
        return None
    plan, machine, speeds = resolved.plan, resolved.machine, _speeds(resolved, terms)
    step, places = paced_step(plan, machine, times), node_places(plan, machine.network.gpus_per_node)
    found = _steps(step, places, speeds, seed)
    factors = speeds.known()
    costs = node_costs(step, places, factors)
    slow = [cost.node for cost in costs]
    return StragglerResult(
        healthy_s=found.healthy_s,
        drawn=_drawn(terms),
        mean_s=float(found.step_s.mean()),
        p50_s=found.percentile(50),
        p90_s=found.percentile(90),
        p99_s=found.percentile(99),
        nodes=tuple(_named(resolved, terms, cost) for cost in costs),
        replaced_s=replaced_one_by_one(step, places, factors, slow) if slow else (),
        remedies=remedies(step, places, factors, plan.micro_batches, slow, _unit(plan)) if slow else None,
        layers=_by_speed(resolved, group_paces(factors, places)) if slow else None,
        stages=stage_costs(step, places, sorted({factor for _, factor in terms.slow_nodes})),
    )


def _steps(step: PacedStep, places: Ints, speeds: NodeSpeeds, seed: int) -> Stragglers:
    """Steps on nodes of these speeds: exact where nothing is drawn, and where one slow node may be anywhere."""
    if speeds.is_one_anywhere:
        ((_, factor),) = (entry for entry in speeds.slow_nodes if entry[0])
        return one_anywhere(step, places, speeds.nodes, factor)
    return simulate_stragglers(step, places, speeds, _SAMPLES if speeds.is_drawn else 1, seed)


def _speeds(resolved: Resolved, terms: NodeTerms) -> NodeSpeeds:
    measured = relative([factor for _, factor in terms.measured]) if terms.measured else ()
    nodes = resolved.cluster.nodes
    return NodeSpeeds(nodes, terms.node_sigma, terms.jitter_sigma, terms.slow_nodes, terms.named, measured)


def _unit(plan: StepPlan) -> int:
    """Micro-batches come in groups of as many as there are stages where virtual stages take turns."""
    return plan.mesh.pp if plan.pipeline.virtual_stages > 1 else 1


def _drawn(terms: NodeTerms) -> tuple[str, ...]:
    parts = {
        "speeds of the nodes": terms.node_sigma,
        "places of the slow nodes": terms.slow_nodes,
        "steps": terms.jitter_sigma,
    }
    return tuple(words for words, drawn in parts.items() if drawn)


def _named(resolved: Resolved, terms: NodeTerms, cost: NodeCost) -> SlowNode:
    name = terms.measured[cost.node][0] if terms.measured else f"node {cost.node}"
    place = node_position(resolved.plan.mesh, cost.node, resolved.machine.network.gpus_per_node)
    return SlowNode(name, place, cost)


def _by_speed(resolved: Resolved, paces: Floats) -> LayersBySpeed | None:
    """Layers by speed, and whether they fit as well as those of now."""
    found = layers_by_speed(resolved.plan, resolved.machine, paces)
    if found is None:
        return None
    plan, step_s = found
    layers, stages = layers_of(plan), plan.mesh.pp
    return LayersBySpeed(
        layers=layers,
        of_stages=tuple(sum(layers[stage::stages]) for stage in range(stages)),
        step_s=step_s,
        fits=bool(memory_of(resolved, plan).fits),
        as_now=layers == layers_of(resolved.plan),
    )
