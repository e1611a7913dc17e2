"""Steps on nodes of unlike speed, simulated: how long they get.

Ranks that exchange inside a layer go at the pace of their slowest node, pipelines wait at each hand-off, replicas once
a step. A node's factor is its time over that of a typical node: 1.02 takes 2 % longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.node_speeds import DRAWN, NodeSpeeds
from simcluster.engine.paced import PacedStep, step_times
from simcluster.engine.rows import BLOCK
from simcluster.program.plan import StepPlan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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
