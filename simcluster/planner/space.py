"""The space of layouts: every combination, those that model, batch and cluster allow, and why the others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.planner.batch import Batches, batches
from simcluster.planner.choices import MOST_SEQUENCES, context_degrees, runs_with_pipeline, virtual_degrees
from simcluster.planner.job import Job
from simcluster.resolve.batch import BATCH_ROUNDING
from simcluster.resolve.layout_checks import MOST_CHUNKS
from simcluster.scenario.findings import (
    depth_finding,
    divisors,
    heads_finding,
    kv_heads_finding,
    padded_heads,
    sequence_finding,
)
from simcluster.scenario.training import Parallelism

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Mesh:
    """One way to cut the model; batch, recompute and sharding apart."""

    tp: int
    cp: int
    pp: int
    dp: int
    virtual: int
    ep: int
    etp: int
    sequence_parallel: bool


@dataclass(frozen=True, slots=True)
class Points:
    """Layouts as columns of one length; recompute and sharding are axes of their own.

    sequences      of a step over all replicas
    micro_batches  that a replica runs
    """

    tp: Ints
    cp: Ints
    pp: Ints
    dp: Ints
    virtual: Ints
    ep: Ints
    etp: Ints
    sequence_parallel: Ints
    micro_batch: Ints
    micro_batches: Ints
    sequences: Ints

    def __len__(self) -> int:
        return len(self.tp)

    def take(self, rows: Any) -> Points:
        """Some of them."""
        return Points(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, slots=True)
class Space:
    """All layouts: how many there are, the valid ones, and the others by what speaks against them.

    allowed   (points, strategies) whether the software shards that way in this layout
    """

    size: int
    points: Points
    allowed: NDArray[np.bool_]
    rejected: Counter[str]


def space_of(job: Job) -> Space:
    """Enumerates the layouts of a job; `size` counts every recompute mode and sharding strategy.

    Where no batch is stated and none near the usual one serves, any size does.
    """
    space = _space(job, BATCH_ROUNDING)
    open_batch = job.training.global_batch is None and job.training.gradient_accumulation is None
    return _space(job, np.inf) if open_batch and not len(space.points) else space


def _space(job: Job, rounding: float) -> Space:
    modes, each = len(job.recomputes), len(job.recomputes) * len(job.strategies)
    piped = np.array([runs_with_pipeline(job.family, name) for name in job.strategies])
    rows: list[NDArray[np.int64]] = []
    allowed: list[NDArray[np.bool_]] = []
    rejected: Counter[str] = Counter()
    size = 0
    known: dict[tuple[int, int, int], Batches] = {}
    for mesh in _meshes(job):
        found = _batches(job, mesh, rounding, known)
        size += each * found.size
        reason = _reason(job, mesh)
        if reason:
            rejected[reason] += each * found.size
            continue
        for why, count in found.rejected.items():
            rejected[why] += each * count
        here = piped if mesh.pp > 1 else np.ones_like(piped)
        rejected["sharding"] += modes * int((~here).sum()) * len(found.sizes)
        head = (mesh.tp, mesh.cp, mesh.pp, mesh.dp, mesh.virtual, mesh.ep, mesh.etp, int(mesh.sequence_parallel))
        rows.append(np.hstack([np.tile(head, (len(found.sizes), 1)), found.sizes]))
        allowed.append(np.tile(here, (len(found.sizes), 1)))
    table = np.concatenate(rows) if rows else np.zeros((0, len(fields(Points))), dtype=np.int64)
    both = np.concatenate(allowed) if allowed else np.zeros((0, len(piped)), dtype=bool)
    serves = both.any(axis=1)
    return Space(size, Points(*table[serves].T), both[serves], +rejected)


def _batches(job: Job, mesh: Mesh, rounding: float, known: dict[tuple[int, int, int], Batches]) -> Batches:
    """Batches of a mesh, worked out once for each number of replicas and stages."""
    group = mesh.pp if mesh.virtual > 1 else 1
    key = (mesh.dp, group, mesh.pp * mesh.virtual)
    if key not in known:
        most = MOST_CHUNKS // (2 * key[2])
        known[key] = batches(job.training, job.sequence, mesh.dp, group, MOST_SEQUENCES, rounding).at_most(most)
    return known[key]


def _meshes(job: Job) -> Iterator[Mesh]:
    """Every mesh; tp stays inside the scale-up domain, as its exchanges cannot wait for a network."""
    world, layers = job.world, job.arch.layers
    inside = max(job.node_gpus, job.cluster.node.scale_up_domain)
    for tp in [1] if job.plain else [size for size in divisors(world) if size <= inside]:
        for cp in [1] if job.plain or job.context_family is None else context_degrees(job.sequence, world // tp):
            for pp in [1] if job.plain else [size for size in divisors(world // (tp * cp)) if size <= layers]:
                dp = world // (tp * cp * pp)
                for virtual in virtual_degrees(layers, pp):
                    for ep, etp in _experts(job, tp, world // pp):
                        for split in _sequence_parallel(job, tp):
                            yield Mesh(tp, cp, pp, dp, virtual, ep, etp, split)


def _experts(job: Job, tp: int, stage_ranks: int) -> list[tuple[int, int]]:
    """(ep, etp): divisors of the experts that a stage's ranks hold, each expert whole or cut over tp."""
    if not job.arch.experts:
        return [(1, 1)]
    cuts = (1,) if job.plain else sorted({1, tp})
    sizes = [1] if job.plain else divisors(job.arch.experts)
    return [(ep, etp) for etp in cuts for ep in sizes if ep * etp <= stage_ranks]


def _sequence_parallel(job: Job, tp: int) -> tuple[bool, ...]:
    return (True, False) if tp > 1 and job.family.sequence_parallel else (False,)


def _reason(job: Job, mesh: Mesh) -> str:
    """Which rule forbids a mesh, as the resolver has them; empty if none."""
    arch, tp = job.arch, mesh.tp
    plan = Parallelism.model_construct(pp=mesh.pp, virtual_stages=mesh.virtual)
    shared = mesh.cp * tp
    all_to_all = mesh.cp > 1 and job.family.cp_communication == "all-to-all"
    rules = (
        ("heads", heads_finding(arch.heads, tp) or kv_heads_finding(arch.heads, arch.kv_heads, tp)),
        ("layers", depth_finding(plan, arch.layers)),
        ("sequence", sequence_finding(job.sequence, mesh.cp)),
        ("sequence", mesh.sequence_parallel and job.sequence % shared),
        ("heads", all_to_all and padded_heads(arch.heads, tp) % shared),
        ("experts", (tp * mesh.cp * mesh.dp) % (mesh.ep * mesh.etp)),
        ("experts", arch.experts and not mesh.sequence_parallel and mesh.etp < tp),
        ("experts", _imbalance_misses(job, mesh.ep)),
        ("sharding", _group_misses(job, mesh.dp * mesh.cp)),
    )
    return next((name for name, broken in rules if broken), "")


def _group_misses(job: Job, replicas: int) -> bool:
    group = job.training.sharding.group
    return isinstance(group, int) and job.strategies != ("none",) and replicas % group > 0


def _imbalance_misses(job: Job, ep: int) -> bool:
    stated = job.training.expert_imbalance or 1.0
    return stated > 1 and (ep == 1 or stated > ep)
