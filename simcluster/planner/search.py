"""Best-first search: simulates layouts in the order of their bounds until none that is left can win."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.step import BlockStore, solve_step
from simcluster.errors import InputError, Problem
from simcluster.evaluation import Evaluation, evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.memory.allocator import PRIORS
from simcluster.planner.blocks import BlockTable
from simcluster.planner.fitting import peak_bytes
from simcluster.planner.job import Job, plainly, settle_job
from simcluster.planner.pipelines import Bounder
from simcluster.planner.space import Points, Space, space_of
from simcluster.planner.traffic import Traffic
from simcluster.resolve import Resolved, resolve
from simcluster.scenario import Loaded, Origin
from simcluster.scenario.loading import apply_changes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PLANNER = Origin("planner")
_SAME = 1e-9  # relative; rates closer than this are one


@dataclass(frozen=True, slots=True)
class PlanCounts:
    """What the search looked at; space = valid + rejected, valid = fitting + those that need too much memory.

    space       combinations of all choices
    valid       those that model, batch and cluster allow
    fitting     those of them that fit in memory
    bounded     layouts whose lower bound was computed; of those that differ only in recompute, the lightest that fits
    simulated   layouts whose step was simulated
    rejected    combinations that are not valid or do not fit, by reason
    """

    space: int
    valid: int
    fitting: int
    bounded: int
    simulated: int
    rejected: Mapping[str, int]


@dataclass(frozen=True)
class Plan:
    """The fastest layout: the scenario with it filled in, its evaluation, and how it was found."""

    loaded: Loaded
    evaluation: Evaluation
    counts: PlanCounts


@dataclass(frozen=True, slots=True)
class Candidates:
    """Layouts worth simulating: rows of the points, with recompute mode and sharding strategy."""

    points: Points
    recompute: Ints
    strategy: Ints

    def __len__(self) -> int:
        return len(self.points)


@dataclass(slots=True)
class _Found:
    """The best layout so far."""

    tokens_per_s: float = 0.0
    key: tuple[int, ...] = ()
    loaded: Loaded | None = None
    simulated: int = 0


def plan_layout(loaded: Loaded, catalogue: Catalogue) -> Plan:
    """Chooses the layout with the most tokens a second among those that fit in memory.

    What the scenario states stays as it is. Where nothing fits, the layout that comes nearest is returned (its memory
    report says so). Ties go to the simpler layout: fewer ranks in tp, pp, cp and ep, then less recompute, then larger
    micro-batches.

    Raises InputError with what is wrong about the scenario, or when no layout is possible: then with the reasons.

    >>> from simcluster.scenario.loading import load_text
    >>> text = "{model: gpt2, cluster: {node: dgx-a100-80gb, nodes: 1}, training: {global_batch: 64}}"
    >>> plan = plan_layout(load_text(text), Catalogue.load())
    >>> plan.evaluation.resolved.layout.dp, plan.evaluation.memory.fits
    (8, True)
    """
    job = settle_job(loaded, catalogue)
    if job.small:
        simple = plainly(job)
        space = space_of(simple)
        plan = _chosen(simple, space, catalogue) if len(space.points) else None
        if plan is not None and plan.evaluation.memory.fits:
            return plan
    space = space_of(job)
    if not len(space.points):
        raise InputError(_nothing(loaded, space))
    return _chosen(job, space, catalogue)


def _chosen(job: Job, space: Space, catalogue: Catalogue) -> Plan:
    """The fastest layout of a space that fits, or the one that comes nearest."""
    peaks = peak_bytes(job, space.points)
    allowed = np.broadcast_to(space.allowed[:, None, :], peaks.shape)
    peaks = np.where(allowed, peaks, np.inf)
    fits = peaks <= job.cluster.node.gpu.memory_bytes * (1.0 - PRIORS.margin)
    if not fits.any():
        return _nearest(job, space, peaks, catalogue)
    candidates = _lightest(space.points, fits)
    rates = bound_tokens_per_s(job, candidates, catalogue)
    found = _search(job, candidates, rates, catalogue)
    assert found.loaded is not None
    counts = _counts(space, int(allowed.sum()), int(fits.sum()), found.simulated, len(candidates))
    return Plan(found.loaded, evaluate(found.loaded, catalogue), counts)


def _nothing(loaded: Loaded, space: Space) -> Problem:
    reasons = ", ".join(f"{count} by {name}" for name, count in space.rejected.most_common())
    message = f"training.parallelism: none of {space.size} layouts is possible: {reasons}"
    origin = loaded.origins.get("training.global_batch")
    return Problem(message, "change global_batch, micro_batch or the number of nodes", origin.mark if origin else None)


def _lightest(points: Points, fits: NDArray[np.bool_]) -> Candidates:
    """Of layouts that differ only in recompute, the one that runs least again; more of it cannot be faster."""
    mode = np.argmax(fits, axis=1)
    rows, strategy = np.nonzero(fits.any(axis=1))
    return Candidates(points.take(rows), mode[rows, strategy], strategy)


def _counts(space: Space, valid: int, fitting: int, simulated: int, bounded: int) -> PlanCounts:
    rejected = dict(space.rejected + Counter({"memory": valid - fitting}))
    return PlanCounts(space.size, valid, fitting, bounded, simulated, rejected)


def bound_tokens_per_s(job: Job, candidates: Candidates, catalogue: Catalogue) -> Floats:
    """Tokens a second that the simulation of each layout cannot exceed."""
    machine = resolved_layout(job, candidates, 0, catalogue)[1].machine
    blocks = BlockTable(job, machine, candidates.points, candidates.recompute)
    traffic = Traffic(job, machine, candidates.points, candidates.strategy, blocks)
    bound = Bounder(job, machine, candidates.points, blocks, traffic).step_s()
    return candidates.points.sequences * job.sequence / bound


def changes(job: Job, candidates: Candidates, row: int) -> dict[str, Any]:
    """What a layout sets in the scenario, by path; what is stated is left alone."""
    point, training = candidates.points.take(row), job.training
    parallelism: dict[str, Any] = {name: int(getattr(point, name)) for name in ("tp", "pp", "dp", "cp")}
    parallelism["virtual_stages"] = int(point.virtual)
    if point.tp > 1:
        parallelism["sequence_parallel"] = bool(point.sequence_parallel)
    if job.arch.experts:
        parallelism |= {"ep": int(point.ep), "etp": int(point.etp)}
    result: dict[str, Any] = {"training.parallelism": parallelism}
    if not isinstance(training.micro_batch, int):
        result["training.micro_batch"] = int(point.micro_batch)
    if training.global_batch is None and training.gradient_accumulation is None:
        result["training.global_batch"] = int(point.sequences)
    if training.recompute is None:
        result["training.recompute"] = job.recomputes[int(candidates.recompute[row])]
    if training.sharding.strategy is None:
        result["training.sharding.strategy"] = job.strategies[int(candidates.strategy[row])]
    return result


def resolved_layout(job: Job, candidates: Candidates, row: int, catalogue: Catalogue) -> tuple[Loaded, Resolved]:
    """The scenario with one layout filled in, and all that follows from it."""
    loaded = apply_changes(job.loaded, changes(job, candidates, row), PLANNER)
    return loaded, resolve(loaded, catalogue)


def _preference(candidates: Candidates, row: int) -> tuple[int, ...]:
    """Smaller is simpler."""
    point = candidates.points.take(row)
    degrees = int(point.tp * point.pp * point.cp * point.ep)
    again, strategy = int(candidates.recompute[row]), int(candidates.strategy[row])
    return (degrees, again, -int(point.micro_batch), int(point.virtual), int(point.tp), strategy, row)


def _search(job: Job, candidates: Candidates, rates: Floats, catalogue: Catalogue) -> _Found:
    """The best layout: in the order of the bounds, until the next one is below what was simulated."""
    found, store = _Found(), BlockStore()
    for row in np.argsort(-rates, kind="stable").tolist():
        if rates[row] < found.tokens_per_s * (1.0 - _SAME):
            return found
        _try(job, candidates, row, catalogue, found, store)
    return found


def _try(job: Job, candidates: Candidates, row: int, catalogue: Catalogue, found: _Found, store: BlockStore) -> None:
    """Simulates a layout and keeps it if it is better."""
    loaded, resolved = resolved_layout(job, candidates, row, catalogue)
    time = float(solve_step(resolved.plan, resolved.machine, store).total[0])
    found.simulated += 1
    rate = resolved.layout.sequences * job.sequence / time
    key = _preference(candidates, row)
    same = abs(rate - found.tokens_per_s) <= _SAME * rate
    if (same and key < found.key) or (not same and rate > found.tokens_per_s):
        found.tokens_per_s, found.key, found.loaded = rate, key, loaded


def _nearest(job: Job, space: Space, peaks: Floats, catalogue: Catalogue) -> Plan:
    """The layout that needs least memory; of equals the simplest."""
    rows, modes, strategies = np.nonzero(peaks <= peaks.min() * (1.0 + _SAME))
    candidates = Candidates(space.points.take(rows), modes, strategies)
    row = min(range(len(candidates)), key=lambda one: _preference(candidates, one))
    loaded = apply_changes(job.loaded, changes(job, candidates, row), PLANNER)
    counts = _counts(space, int(np.isfinite(peaks).sum()), 0, 0, 0)
    return Plan(loaded, evaluate(loaded, catalogue), counts)
