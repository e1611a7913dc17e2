"""Peak memory of every layout at once, composed of the functions of the memory room over arrays.

Stages of equal contents differ in what is in flight alone, most in the first of them; so a few stages of each pipeline
stand for all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.memory.activations import embedding_activations
from simcluster.memory.allocator import PRIORS, communicator_bytes, segment_slack_bytes
from simcluster.memory.arrays import total
from simcluster.memory.buffers import exchange_buffers
from simcluster.memory.counts import RankParameters, rank_parameters
from simcluster.memory.inflight import chunk_sets
from simcluster.memory.live import layer_memory, rounding_bytes, saved_activations, transient_bytes
from simcluster.memory.parameters import layer_parameters
from simcluster.memory.precision import activation_widths
from simcluster.memory.recompute import recompute_modules_of
from simcluster.memory.setup import MemorySetup
from simcluster.memory.stage import state_bytes
from simcluster.memory.units import sharding_buffers
from simcluster.parallel.schedules import overlapped
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.planner.job import Job
from simcluster.planner.space import Points
from simcluster.resolve.layout import overlaps_experts, shard_ranks
from simcluster.shapes import Num
from simcluster.workload.layers import LayerKind, layer_kind

Floats = NDArray[np.float64]
Signature = tuple[frozenset[LayerKind], bool, bool]  # kinds of layers, embedding, head


@dataclass(frozen=True, slots=True)
class _Rows:
    """Stages of layouts with one signature: row of the layout, layers held and in flight by kind, embeddings alive."""

    point: NDArray[np.int64]
    held: dict[LayerKind, Floats]
    alive: dict[LayerKind, Floats]
    embedded: Floats


def peak_bytes(job: Job, points: Points) -> Floats:
    """Device peak of each layout in bytes: (points, recomputes, strategies)."""
    peaks = _peaks(job, points, "1f1b")
    rows = np.flatnonzero((points.ep > 1) & ((points.pp == 1) | (points.virtual > 1)))
    cells = [
        (again, place)
        for again, recompute in enumerate(job.recomputes)
        for place, name in enumerate(job.strategies)
        if overlaps_experts(job.family, 2, 1, 1, name, recompute)
    ]
    if cells and rows.size:
        beside = _peaks(job, points.take(rows), overlapped.NAME)
        for again, place in cells:
            peaks[rows, again, place] = beside[:, again, place]
    return peaks


def _peaks(job: Job, points: Points, schedule: str) -> Floats:
    """The same under a schedule."""
    peaks = np.zeros((len(points), len(job.recomputes), len(job.strategies)))
    for signature, rows in _signatures(job, points, schedule).items():
        for split in (0, 1):
            chosen = points.sequence_parallel[rows.point] == split
            if chosen.any():
                some = _some(rows, chosen)
                np.maximum.at(
                    peaks, some.point, _stage(job, points.take(some.point), signature, some, bool(split), schedule)
                )
    return peaks


def _some(rows: _Rows, chosen: NDArray[np.bool_]) -> _Rows:
    held, alive = ({kind: counts[chosen] for kind, counts in one.items()} for one in (rows.held, rows.alive))
    return _Rows(rows.point[chosen], held, alive, rows.embedded[chosen])


def _signatures(job: Job, points: Points, schedule: str) -> dict[Signature, _Rows]:
    """Stages to look at, by signature."""
    found: dict[Signature, list[_Rows]] = {}
    shapes = points.pp * 10_000 + points.virtual
    order = np.argsort(shapes, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(shapes[order])) + 1):
        if rows.size:
            for signature, one in _pipeline(job, points, rows, schedule):
                found.setdefault(signature, []).append(one)
    return {signature: _joined(several) for signature, several in found.items()}


def _joined(several: Sequence[_Rows]) -> _Rows:
    kinds = several[0].held
    return _Rows(
        np.concatenate([one.point for one in several]),
        {kind: np.concatenate([one.held[kind] for one in several]) for kind in kinds},
        {kind: np.concatenate([one.alive[kind] for one in several]) for kind in kinds},
        np.concatenate([one.embedded for one in several]),
    )


def _pipeline(job: Job, points: Points, rows: NDArray[np.int64], schedule: str) -> list[tuple[Signature, _Rows]]:
    """Unlike stages of layouts that split the model alike."""
    pp, virtual = int(points.pp[rows[0]]), int(points.virtual[rows[0]])
    seen: dict[Any, tuple[int, tuple[ChunkContents, ...]]] = {}
    contents = stage_contents(job.arch.layers, pp, virtual, None, job.family.stage_balance)
    counted = {chunk: _kinds(job, chunk) for stage in contents for chunk in stage}
    for index, chunks in enumerate(contents):
        key = tuple((frozenset(counted[c].items()), c.embedding, c.head) for c in chunks)
        seen.setdefault(key, (index, chunks))
    result = []
    for index, chunks in seen.values():
        sets = chunk_sets(schedule, index, pp, points.micro_batches[rows], virtual)
        kinds = frozenset(kind for chunk in chunks for kind in counted[chunk])
        held = {kind: np.full(len(rows), float(sum(counted[c][kind] for c in chunks))) for kind in kinds}
        alive = {kind: _weighted([counted[c][kind] for c in chunks], sets, len(rows)) for kind in kinds}
        embedded = _weighted([c.embedding for c in chunks], sets, len(rows))
        signature = (kinds, any(c.embedding for c in chunks), any(c.head for c in chunks))
        result.append((signature, _Rows(rows, held, alive, embedded)))
    return result


def _kinds(job: Job, chunk: ChunkContents) -> Counter[LayerKind]:
    return Counter(layer_kind(job.arch, chunk.first + index) for index in range(chunk.layers))


def _weighted(weights: Sequence[float], sets: Sequence[Num], count: int) -> Floats:
    return np.zeros(count) + total(weight * one for weight, one in zip(weights, sets, strict=True))


def memory_setup(
    job: Job, points: Points, sequence_parallel: bool, strategy: str, recompute: str, schedule: str = "1f1b"
) -> MemorySetup:
    """What memory depends on, numbers as arrays over layouts."""
    mode, modules = recompute_modules_of(recompute, job.family.selective_modules)
    shards, expert_shards = shard_counts(job, points, strategy)
    return MemorySetup(
        tp=points.tp.astype(float),
        pp=points.pp,
        dp=points.dp,
        cp=points.cp,
        micro_batch=points.micro_batch,
        sequence=job.sequence,
        micro_batches=points.micro_batches,
        schedule=schedule,
        sequence_parallel=sequence_parallel,
        sharding=strategy,
        shard_ranks=shards,
        recompute=mode,
        modules=modules,
        precision=job.training.precision,
        ep=points.ep,
        etp=points.etp,
        expert_shard_ranks=expert_shards,
        imbalance=np.where(points.ep > 1, job.training.expert_imbalance or 1.0, 1.0),
        offload=job.training.sharding.offload != "none",
    )


def shard_counts(job: Job, points: Points, strategy: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Ranks that share a set of shards, and those that share one of experts."""
    replicas, copies = points.dp * points.cp, points.tp * points.dp * points.cp // (points.ep * points.etp)
    copies = np.maximum(1, copies)
    known: dict[tuple[int, int], int] = {}
    shards = np.empty_like(replicas)
    group = job.training.sharding.group
    for row, key in enumerate(zip(replicas.tolist(), points.tp.tolist())):
        if key not in known:
            known[key] = shard_ranks(group, strategy, key[0], max(1, job.node_gpus // key[1]), job.family)
        shards[row] = known[key]
    experts = np.where(shards == replicas, copies, np.minimum(copies, shards))
    return shards, np.where((shards > 1) & (strategy != "none"), experts, 1)


def _stage(
    job: Job, points: Points, signature: Signature, rows: _Rows, sequence_parallel: bool, schedule: str
) -> Floats:
    """Device peak of one stage of each layout: (rows, recomputes, strategies)."""
    setup = memory_setup(job, points, sequence_parallel, job.strategies[0], job.recomputes[0])
    groups = (
        setup.tp,
        setup.pp,
        points.dp * points.cp,
        setup.cp,
        setup.ep,
        np.where(points.etp != points.tp, points.etp, 1),
    )
    fixed = PRIORS.workspace_bytes + PRIORS.context_bytes + communicator_bytes(groups)
    fixed = fixed + total(exchange_buffers(job.arch, setup, job.family).values())
    moving = [_moving(job, points, signature, rows, sequence_parallel, mode, schedule) for mode in job.recomputes]
    resident = [_resident(job, points, signature, rows, sequence_parallel, one) for one in job.strategies]
    fixed = fixed + np.zeros(len(points))
    return np.stack([np.stack([fixed + move + rest for rest in resident], -1) for move in moving], 1)


def _samples(job: Job, signature: Signature) -> list[ChunkContents]:
    """Contents with one layer of each kind that a stage holds."""
    kinds, embedding, head = signature
    first = {layer_kind(job.arch, index): index for index in reversed(range(job.arch.layers))}
    samples = [ChunkContents(1, first=first[kind]) for kind in sorted(kinds, key=lambda kind: first[kind])]
    return [*samples, ChunkContents(0, embedding, head)]


def _moving(
    job: Job,
    points: Points,
    signature: Signature,
    rows: _Rows,
    sequence_parallel: bool,
    recompute: str,
    schedule: str,
) -> Floats:
    """Activations in flight, the moment of the peak, and what the allocator adds to them."""
    arch, family = job.arch, job.family
    setup = memory_setup(job, points, sequence_parallel, job.strategies[0], recompute, schedule)
    samples = _samples(job, signature)
    moving: Num = total(transient_bytes(arch, samples, setup, family).values())
    slack: Num = 0.0
    for kind, alive in rows.alive.items():
        saved = layer_memory(arch, setup, family, kind).saved.values()
        moving = moving + alive * total(saved)
        slack = slack + alive * total(segment_slack_bytes(size) for size in saved)
    widths = activation_widths(setup.precision, family)
    outer = embedding_activations(arch, setup.tokens, setup.residual_shards, dropout=family.dropout, widths=widths)
    moving = moving + rows.embedded * total(outer.values())
    if signature[2]:
        moving = moving + total(saved_activations(arch, samples[-1:], 0, setup, family).values())
        slack = slack + rounding_bytes(arch, samples[-1:], 0, setup, family)
        moving = moving - (total(outer.values()) if signature[1] else 0.0)  # counted with what is embedded
    return (1.0 + PRIORS.fragmentation) * moving + slack + np.zeros(len(points))


def _resident(
    job: Job, points: Points, signature: Signature, rows: _Rows, sequence_parallel: bool, strategy: str
) -> Floats:
    """Weights, gradients and optimizer states, and the buffers of their shards."""
    arch, family = job.arch, job.family
    setup = memory_setup(job, points, sequence_parallel, strategy, job.recomputes[0])
    samples = _samples(job, signature)
    outer = rank_parameters(arch, samples[-1:], setup)
    counts = [outer.dense, outer.experts, outer.linear]
    for kind, held in rows.held.items():
        own: Mapping[str, Num] = layer_parameters(arch, setup.tp, kind, setup.ep, setup.etp)
        experts = own.get("experts", 0.0)
        counts[0] = counts[0] + held * (total(own.values()) - experts)
        counts[1] = counts[1] + held * experts
        counts[2] = counts[2] + held * (total(own.values()) - own["norms"])
    parameters = RankParameters(counts[0], counts[1], outer.outer, counts[2])
    parts = state_bytes(parameters, setup, family) | sharding_buffers(arch, samples, parameters, setup, family)
    return total(parts.values()) + np.zeros(len(points))
