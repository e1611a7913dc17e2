"""Least times of what data-parallel ranks exchange, and of the optimizer, for the first stage of many layouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.memory.precision import LOW_BYTES, element_bytes
from simcluster.memory.static import DTYPE_BYTES
from simcluster.parallel.mesh import group_shape
from simcluster.planner.blocks import BlockTable
from simcluster.planner.fitting import shard_counts
from simcluster.planner.job import Job
from simcluster.planner.space import Points
from simcluster.program.pricing import Machine
from simcluster.resolve.data_parallel import WHOLE
from simcluster.shapes import GroupShape
from simcluster.timing.streaming import streaming_time

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Traffic:
    """Prices of layouts' data-parallel exchanges; a sum of transfers takes at least as long as one of all bytes."""

    def __init__(self, job: Job, machine: Machine, points: Points, strategy: Ints, blocks: BlockTable) -> None:
        self.job, self.machine, self.points, self.strategy, self.blocks = job, machine, points, strategy, blocks
        family = job.family
        self.overlap_reduce, self.overlap_gather = family.overlap_grad_reduce, family.overlap_param_gather
        self.gradient_bytes = DTYPE_BYTES[family.gradient_dtype]
        low = family.fp8_param_gather and job.training.precision in LOW_BYTES
        self.parameter_bytes = 1.0 if low else element_bytes(job.training.precision)
        self.shards, self.expert_shards = np.ones(len(points), np.int64), np.ones(len(points), np.int64)
        for index, name in enumerate(job.strategies):
            rows = strategy == index
            self.shards[rows], self.expert_shards[rows] = shard_counts(job, points.take(rows), name)

    def buckets(self, rows: Ints, held: Counter[str]) -> tuple[Floats, Floats]:
        """Reduction of these blocks' gradients and gather of their parameters, as far as chunks do not move them."""
        reduce, gather = self._by_strategy(rows, held, self._buckets, 2)
        return reduce, gather

    def units(self, rows: Ints, held: Counter[str]) -> tuple[Floats, Floats, Floats]:
        """Sharded units: the wire of one micro-batch, and what the first gather and the last reduction expose."""
        wire, first, last = self._by_strategy(rows, held, self._units, 3)
        return wire, first, last

    def _by_strategy(self, rows: Ints, held: Counter[str], price: Any, count: int) -> list[Floats]:
        found = [np.zeros(len(rows)) for _ in range(count)]
        for index, name in enumerate(self.job.strategies):
            at = np.flatnonzero(self.strategy[rows] == index)
            if at.size and self.job.training.grad_compression == "none":
                for one, part in zip(found, price(rows[at], held, name), strict=True):
                    one[at] = part
        return found

    def _buckets(self, rows: Ints, held: Counter[str], strategy: str) -> tuple[Floats, Floats]:
        """Sums of the gradients and gathers of the parameters that are not moved inside chunks."""
        family, shards = self.job.family, self.shards[rows]
        none = np.zeros(len(rows))
        dense, experts = self.parameters(rows, held)
        sharded = (shards > 1) & (strategy != "none")
        units = sharded & (strategy in ("zero-2", *WHOLE))
        their = self._groups(rows, "experts")
        scatter = self._scatters(rows, strategy)
        reduce = self._reduced(rows, dense, experts, self._groups(rows, "replicas"), their, scatter)
        reduce = np.where(units, 0.0, reduce)
        if strategy in ("none", *WHOLE):
            return reduce, none
        kind = "all_gather" if family.parameter_sync == "all-gather" else "broadcast"
        gather = self._priced(kind, dense * self.parameter_bytes, self._groups(rows, "shards"))
        gather = gather + self._priced(kind, experts * self.parameter_bytes, their)
        return reduce, np.where(sharded, gather, 0.0)

    def _units(self, rows: Ints, held: Counter[str], strategy: str) -> tuple[Floats, Floats, Floats]:
        """Shards of a micro-batch on their wire; what the first gather and the last reduction expose."""
        none = np.zeros(len(rows))
        if strategy not in ("zero-2", *WHOLE):
            return none, none, none
        family, whole = self.job.family, strategy in WHOLE
        once = (self.points.pp[rows] > 1) & (not family.reshard_with_pp)
        gathers = np.where(once, 0.0, 1.0 + family.reshard_after_forward) * whole
        reduces = np.where(once | (not family.reduce_every_micro_batch), 0.0, 1.0)
        shards, their = self._groups(rows, "shards"), self._groups(rows, "experts")
        scatter = self._scatters(rows, strategy)
        wire, first, last = none.copy(), none, none
        for name, count in held.items():
            dense, experts = self.parameters(rows, Counter({name: 1}))
            gather = self._priced("all_gather", dense * self.parameter_bytes, shards)
            gather = gather + self._priced("all_gather", experts * self.parameter_bytes, their)
            reduce = self._reduced(rows, dense, experts, shards, their, scatter)
            wire = wire + count * (gathers * gather + reduces * reduce)
            if name == "embedding":
                first, last = gather * whole, reduce
        sharded = self.shards[rows] > 1
        return wire * sharded, first * sharded, last * sharded

    def _scatters(self, rows: Ints, strategy: str) -> NDArray[np.bool_]:
        """Whether gradients are reduced and scattered, rather than summed on all ranks."""
        replicas, shards = (self.points.dp * self.points.cp)[rows], self.shards[rows]
        alike = (shards == replicas) & (self.job.family.gradient_sync == "reduce-scatter")
        return np.asarray((shards > 1) & (strategy != "none") & ((strategy in WHOLE) | alike))

    def _reduced(
        self,
        rows: Ints,
        dense: Floats,
        experts: Floats,
        own: list[GroupShape],
        their: list[GroupShape],
        scatter: NDArray[np.bool_],
    ) -> Floats:
        seconds = np.zeros(len(rows))
        for kind, rule in (("reduce_scatter", scatter), ("all_reduce", ~scatter)):
            if rule.any():
                time = self._priced(kind, dense * self.gradient_bytes, own)
                seconds = np.where(rule, time + self._priced(kind, experts * self.gradient_bytes, their), seconds)
        return seconds

    def tail(self, rows: Ints, held: Counter[str]) -> Floats:
        """The norm over all ranks, then the optimizer of the first stage."""
        network, job = self.machine.network, self.job
        world = group_shape(job.world, 1, job.world, network.domain_gpus, network.gpus_per_node)
        barrier = float(self.machine.transfer("all_reduce", 4.0, world).seconds) if job.world > 1 else 0.0
        dense, experts = self.parameters(rows, held)
        updated = dense / self.shards[rows] + experts / self.expert_shards[rows]
        unit = np.array([name in ("zero-2", *WHOLE) for name in job.strategies])[self.strategy[rows]]
        gradients = np.where(unit & (self.shards[rows] > 1), updated, dense + experts)
        pass_bytes = DTYPE_BYTES[job.family.gradient_storage]
        moved = updated * (job.family.optimizer_bytes - pass_bytes) + gradients * pass_bytes
        return barrier + np.asarray(streaming_time(self.machine.kernels, moved, 4.0).seconds)

    def parameters(self, rows: Ints, held: Mapping[str, int]) -> tuple[Floats, Floats]:
        """Parameters of these blocks on one rank, those of experts apart."""
        cuts = self.blocks.cut[rows]
        dense, experts = np.zeros(len(rows)), np.zeros(len(rows))
        for index in np.unique(cuts).tolist():
            plan = self.blocks.plans[self.blocks.cuts[index]]
            own = sum(count * plan.block_parameters[name] for name, count in held.items())
            their = sum(count * plan.expert_parameters.get(name, 0.0) for name, count in held.items())
            dense[cuts == index], experts[cuts == index] = own - their, their
        return dense, experts

    def _groups(self, rows: Ints, which: str) -> list[GroupShape]:
        """Shape of a group in each layout."""
        points, network = self.points, self.machine.network
        tp, cp, dp = (getattr(points, name)[rows] for name in ("tp", "cp", "dp"))
        expert = points.ep[rows] * points.etp[rows]
        ranks, stride = {
            "replicas": (cp * dp, tp),
            "shards": (self.shards[rows], tp),
            "experts": (np.maximum(1, tp * cp * dp // expert), expert),
        }[which]
        world, domain, node = self.job.world, network.domain_gpus, network.gpus_per_node
        known: dict[tuple[int, int], GroupShape] = {}
        result = []
        for key in zip(ranks.tolist(), stride.tolist()):
            if key not in known:
                known[key] = group_shape(*key, world, domain, node)
            result.append(known[key])
        return result

    def _priced(self, kind: Any, size: Floats, groups: list[GroupShape]) -> Floats:
        """Seconds of a transfer in each layout."""
        seconds = np.zeros(len(size))
        where: dict[GroupShape, list[int]] = {}
        for row, group in enumerate(groups):
            where.setdefault(group, []).append(row)
        for group, rows in where.items():
            if group.ranks > 1:
                seconds[rows] = self.machine.transfer(kind, size[rows], group).seconds
        return seconds
