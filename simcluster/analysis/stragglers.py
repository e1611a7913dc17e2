"""Steps on nodes of unlike speed, simulated: how long they get.

Ranks that exchange inside a layer go at the pace of their slowest node, pipelines wait at each hand-off, replicas once
a step. A node's factor is its time over that of a typical node: 1.02 takes 2 % longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.node_speeds import DRAWN, NodeSpeeds
from simcluster.engine.paced import PacedStep, paced_step, step_times
from simcluster.engine.rows import BLOCK
from simcluster.engine.step import StepTimes
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_QUICK, _SOLVED = (128, 2048), 32  # least and most samples of a quick answer, and those of them that are solved
_FACTORS = 2**17  # drawn for a quick answer, if that is few enough samples
_ALL, _RANKED = 4, 2  # replicas up to which all are solved, and how many of more


def node_places(plan: StepPlan, gpus_per_node: int) -> Ints:
    """Nodes (replicas, stages, nodes of a group) of the ranks that go in step: those of one replica and stage.

    Ranks exchange inside a layer over tp, cp and experts, and where shards of parameters are gathered for each layer,
    over all that hold one; ranks lie on nodes in mesh order.
    """
    mesh, data = plan.mesh, plan.data
    ranks = mesh.tp * mesh.cp * mesh.dp
    together = lcm(mesh.tp * mesh.cp, plan.exchange.ep * plan.exchange.etp)
    if data.units is not None and data.units.gather:
        together = lcm(together, data.gather_group.ranks * mesh.tp)
    if ranks % together:
        together = ranks
    within = np.unique([*range(0, together, gpus_per_node), together - 1])
    first = np.arange(ranks // together)[:, None] * together + np.arange(mesh.pp) * ranks
    nodes = (first[:, :, None] + within) // gpus_per_node
    further = [place for place in range(1, len(within)) if (nodes[..., place] != nodes[..., place - 1]).any()]
    return np.asarray(nodes[..., [0, *further]], dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Simulated steps on nodes of unlike speed.

    healthy_s   step time with every node typical [s]
    step_s      (samples,) step times [s]; each is another draw of the fleet (unless measured) and of the step
    """

    healthy_s: float
    step_s: Floats

    @property
    def slow_down(self) -> float:
        """Mean step time over that of typical nodes."""
        return float(self.step_s.mean()) / self.healthy_s

    def percentile(self, percent: float) -> float:
        """Step time [s] that so many percent of the steps do not exceed; one of them."""
        return float(np.percentile(self.step_s, percent, method="inverted_cdf"))


def simulate_stragglers(
    step: PacedStep,
    places: Ints,
    speeds: NodeSpeeds,
    samples: int = 1000,
    seed: int = 0,
    workers: int = 1,
    block: int = BLOCK,
) -> Stragglers:
    """Step times of draws, exact for each draw.

    step, places   of `paced_step` and `node_places`
    workers        processes; the result is the same with any number of them, and with any `block`
    """
    if workers <= 1:
        return Stragglers(step.healthy_s, _sampled(step, places, speeds, range(samples), seed, block))
    from joblib import Parallel, delayed

    share = -(-samples // (workers * DRAWN)) * DRAWN
    parts = [range(first, min(first + share, samples)) for first in range(0, samples, share)]
    found = Parallel(n_jobs=workers)(delayed(_sampled)(step, places, speeds, part, seed, block) for part in parts)
    return Stragglers(step.healthy_s, np.concatenate(found))


def _sampled(step: PacedStep, places: Ints, speeds: NodeSpeeds, samples: range, seed: int, block: int) -> Floats:
    return step_times(step, group_paces(speeds.draw(len(samples), seed, samples.start), places), block)


def group_paces(factors: Floats, places: Ints) -> Floats:
    """Paces (…, replicas, stages): the slowest node of each group, from factors (…, nodes)."""
    if places.shape[-1] == 1:
        return np.take(factors, places[..., 0], axis=-1)
    found: Floats = factors[..., places].max(axis=-1)
    return found


def simulated_slow_down(
    plan: StepPlan,
    machine: Machine,
    times: StepTimes,
    nodes: int,
    node_sigma: float,
    slow_nodes: Sequence[tuple[int, float]],
    seed: int,
    named: Sequence[tuple[int, float]] = (),
) -> float:
    """Factor on the step time of `times = solve_step(plan, machine)`, >= 1, of nodes of unlike speed.

    nodes [count] of the cluster, those that the job does not use included; node_sigma, slow_nodes and named as in
    `NodeSpeeds`. The mean of 128 to 2,048 draws: all are estimated (each replica by its worst stage), and the mean
    error of the first 32, which are solved, is taken off. Standard error about 3 % of what is lost. Of more than four
    replicas only the two of each draw that are estimated slowest are solved; `simulate_stragglers` solves all.
    """
    known = tuple((count, factor) for count, factor in slow_nodes if count > 0)
    if node_sigma <= 0 and not known and not named:
        return 1.0
    step, places = paced_step(plan, machine, times), node_places(plan, machine.network.gpus_per_node)
    speeds = NodeSpeeds(max(nodes, int(places.max()) + 1), node_sigma, slow_nodes=known, named=tuple(named))
    samples = min(max(_FACTORS // speeds.nodes, _QUICK[0]), _QUICK[1])
    paces = group_paces(speeds.draw(samples, seed), places)
    estimated = _estimated(step, paces, plan.micro_batches)
    candidates = paces[:_SOLVED]
    if paces.shape[1] > _ALL:
        slowest = np.argpartition(estimated[:_SOLVED], -_RANKED, axis=1)[:, -_RANKED:]
        candidates = np.take_along_axis(candidates, slowest[:, :, None], axis=1)
    solved = step_times(step, np.concatenate([candidates, np.ones_like(candidates[:1])]))  # the last is healthy
    latest = estimated.max(axis=1)
    mean_s = latest.mean() + (solved[:-1] - latest[:_SOLVED]).mean()
    return max(1.0, float(mean_s / solved[-1]))


def _estimated(step: PacedStep, paces: Floats, micro_batches: int) -> Floats:
    """Estimated step times [s] if a replica were alone: (samples, replicas).

    The step time with only one of the replica's stages at its pace, the worst of them, and one micro-batch of all.
    """
    stages, highest = paces.shape[-1], max(float(paces.max()) - 1.0, 1e-9)
    excess = np.array([0.0, 0.5 * highest, highest])
    alone = np.ones((stages, len(excess), 1, stages))
    alone[np.arange(stages), :, 0, np.arange(stages)] += excess
    seconds = step_times(step, alone.reshape(-1, 1, stages)).reshape(stages, len(excess))
    slope = np.diff(seconds) / (0.5 * highest)
    over = paces - 1.0
    lower, upper = over * slope[:, 0] + seconds[:, 0], over * slope[:, 1] + (seconds[:, 2] - highest * slope[:, 1])
    worst = np.maximum(lower, upper, out=lower).max(axis=-1)  # convex: between the points it is the larger of two lines
    once = over @ (step.stage_s[1] / micro_batches)
    found: Floats = worst + once
    return found
