"""Lower bounds of the step time: lengths of paths through the step program, summed up without building it.

Every path of a program is at most as long as its longest. Taken are, for each stage, all its own chunks in a row with
the way down to it and back; the loops of 1F1B through the whole pipeline; the gradients behind the last backwards; and
the wire of sharded parameters. (Closed forms: Narayanan et al. 2021.)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.memory.precision import element_bytes
from simcluster.parallel.mesh import Mesh, group_shape, stage_pair
from simcluster.parallel.stages import ChunkContents, stage_contents
from simcluster.planner.blocks import BlockTable, Seconds
from simcluster.planner.job import Job
from simcluster.planner.space import Points
from simcluster.planner.traffic import Traffic
from simcluster.program.plan import BLOCK_OF
from simcluster.program.pricing import Machine
from simcluster.workload.layers import layer_kind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bounder:
    """Bounds of layouts that share a machine; arrays run over `points`."""

    job: Job
    machine: Machine
    points: Points
    blocks: BlockTable
    traffic: Traffic

    def step_s(self) -> Floats:
        """No simulated step of these layouts is faster."""
        points, bound = self.points, np.zeros(len(self.points))
        times = {
            (backward, block): self.blocks.times(backward, block)
            for backward in (False, True)
            for block in self.blocks.blocks()
        }
        shapes = points.pp * 10_000 + points.virtual
        order = np.argsort(shapes, kind="stable")
        for rows in np.split(order, np.flatnonzero(np.diff(shapes[order])) + 1):
            if rows.size:
                bound[rows] = self._pipelines(rows, times)
        return bound

    def _pipelines(self, rows: Ints, times: dict[tuple[bool, str], Seconds]) -> Floats:
        """Bounds of layouts with as many stages and virtual stages."""
        job, points = self.job, self.points
        pp, virtual = int(points.pp[rows[0]]), int(points.virtual[rows[0]])
        contents = stage_contents(job.arch.layers, pp, virtual, None, job.family.stage_balance)
        parts = [contents[part % pp][part // pp] for part in range(pp * virtual)]
        forward, backward = (self._chunks(parts, rows, times, back) for back in (False, True))
        most = 2 * pp if job.family.ep_overlap else pp  # forwards beside backwards start earlier
        pipe = _Pipe(
            pp, virtual, points.micro_batches[rows], forward, backward, *self._messages(pp, virtual, rows), most
        )
        return self._longest(rows, pipe, contents[0])

    def _longest(self, rows: Ints, pipe: _Pipe, stage: tuple[ChunkContents, ...]) -> Floats:
        """The longest of the paths; `stage` is what the first stage holds."""
        traffic, first, whole = self.traffic, _held(self.job, stage[:1]), _held(self.job, stage)
        own = pipe.own()
        wire, opening, closing = traffic.units(rows, whole)
        reduce, gather = traffic.buckets(rows, whole)
        last, early = traffic.buckets(rows, first)
        edge, _ = traffic.buckets(rows, Counter({"embedding": 1}))
        chunk = pipe.backward[:, 0]
        if traffic.overlap_reduce:
            behind = np.maximum.reduce([edge, last - chunk, reduce - chunk - pipe.after_last()])
        else:
            behind = reduce
        paths = [(own + pipe.lead()[:, : pipe.pp] + pipe.drain()).max(axis=1), pipe.loops()]
        paths.append(own[:, 0] + np.maximum(behind, closing))
        start = opening + (np.maximum(0.0, early - pipe.forward[:, 0]) if traffic.overlap_gather else 0.0)
        paths = [path + start for path in paths]
        paths.append(pipe.micro_batches * wire)
        tail = traffic.tail(rows, whole) + (0.0 if traffic.overlap_gather else gather)
        return np.asarray(np.maximum.reduce(paths) + tail)

    def _chunks(
        self, parts: list[ChunkContents], rows: Ints, times: dict[tuple[bool, str], Seconds], back: bool
    ) -> Floats:
        """Least time of each chunk: its blocks on the device, or as the host issues them: (rows, parts)."""
        known: dict[tuple[object, ...], Floats] = {}
        columns = []
        for chunk in parts:
            names = _names(self.job, chunk)
            key = (frozenset(Counter(names).items()), *names[:1], *names[-1:])
            if key not in known:
                known[key] = _chunk_s(names[::-1] if back else names, rows, times, back)
            columns.append(known[key])
        return np.stack(columns, axis=1)

    def _messages(self, pp: int, virtual: int, rows: Ints) -> tuple[Floats, Floats, bool]:
        """Message and gather behind it between parts i and i + 1: (rows, parts - 1) each; and whether they overlap."""
        job, points, machine = self.job, self.points, self.machine
        parts = pp * virtual
        sent, gathered = np.zeros((len(rows), parts - 1)), np.zeros((len(rows), parts - 1))
        scatter, network = job.family.scatter_p2p, machine.network
        tp, split = points.tp[rows], points.sequence_parallel[rows] > 0
        tokens = points.micro_batch[rows] * job.sequence / points.cp[rows]
        whole = element_bytes(job.training.precision) * tokens * job.arch.hidden
        size = np.where(split | scatter, whole / tp, whole)
        mesh = Mesh(tp=job.world // pp, pp=pp)  # the ranks of a stage, whatever they do
        for part in range(parts - 1):
            pair = stage_pair(mesh, part % pp, (part + 1) % pp, network.domain_gpus, network.gpus_per_node)
            if pair.ranks > 1:
                sent[:, part] = machine.transfer("sendrecv", size, pair).seconds
        for degree in np.unique(tp).tolist() if scatter else ():
            again = (tp == degree) & ~split & (degree > 1)
            if again.any() and parts > 1:
                group = group_shape(degree, 1, job.world, network.domain_gpus, network.gpus_per_node)
                gathered[again] = np.asarray(machine.transfer("all_gather", whole[again], group).seconds)[:, None]
        overlap = job.family.overlap_p2p_interleaved if virtual > 1 else job.family.overlap_p2p
        return sent, gathered, overlap


def _names(job: Job, chunk: ChunkContents) -> list[str]:
    """Blocks of a chunk in model order."""
    names = ["embedding"] * chunk.embedding
    names += [BLOCK_OF[layer_kind(job.arch, chunk.first + index)] for index in range(chunk.layers)]
    return names + (["head", *["mtp"] * job.arch.mtp_depth] if chunk.head else [])


def _held(job: Job, chunks: tuple[ChunkContents, ...]) -> Counter[str]:
    """Blocks of chunks by name."""
    return Counter(name for chunk in chunks for name in _names(job, chunk))


def _chunk_s(names: list[str], rows: Ints, times: dict[tuple[bool, str], Seconds], back: bool) -> Floats:
    if not names:
        return np.zeros(len(rows))
    counts = Counter(names)
    device = sum((count * times[back, name].device[rows] for name, count in counts.items()), np.zeros(len(rows)))
    host = sum((count * times[back, name].host[rows] for name, count in counts.items()), np.zeros(len(rows)))
    first, last = times[back, names[0]], times[back, names[-1]]
    behind = host - last.host[rows] + last.hosted[rows]
    ahead = device - first.device[rows] + first.hosted[rows]
    return np.asarray(np.maximum(np.maximum(device, ahead), behind))


@dataclass(frozen=True, slots=True)
class _Pipe:
    """Chunk times (rows, parts) and messages (rows, parts - 1) of layouts of one depth; at `most` so many in flight."""

    pp: int
    virtual: int
    micro_batches: Ints
    forward: Floats
    backward: Floats
    sent: Floats
    gathered: Floats
    overlap: bool
    most: int

    def lead(self) -> Floats:
        """When the first forward of each part can start: (rows, parts)."""
        steps = self.forward[:, :-1] + self.sent + self.gathered
        return np.hstack([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)])

    def drain(self) -> Floats:
        """From the last backward of a stage to that of the first stage: (rows, stages)."""
        steps = self.backward[:, : self.pp - 1] + (self.sent + self.gathered)[:, : self.pp - 1]
        return np.hstack([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)])

    def own(self) -> Floats:
        """All chunks of a stage in a row, and what their messages hold it up: (rows, stages)."""
        spent = self.forward + self.backward
        rows = len(spent)
        if not self.overlap:
            none = np.zeros((rows, 1))
            down, up = np.hstack([self.sent, none]), np.hstack([none, self.sent])
            spent = spent + down + up
        whole = spent.reshape(rows, self.virtual, self.pp).sum(axis=1) * self.micro_batches[:, None]
        if self.overlap:
            return np.asarray(whole)
        return np.asarray(whole - np.hstack([np.zeros((rows, 1)), self.sent[:, : self.pp - 1]]))

    def loops(self) -> Floats:
        """Without interleaving: as many micro-batches as are in flight take one way through all stages and back."""
        if self.virtual > 1 or self.pp == 1:
            return np.zeros(len(self.forward))
        loop = (self.forward + self.backward).sum(axis=1) + 2 * (self.sent + self.gathered).sum(axis=1)
        turns, rest = np.divmod(self.micro_batches - 1, self.most)
        return np.asarray((turns + 1) * loop + rest * self.backward[:, 0])

    def after_last(self) -> Floats:
        """What the first stage still runs after the last backward of its last part."""
        if self.virtual == 1:
            return np.zeros(len(self.backward))
        spent = self.backward[:, :: self.pp]
        if not self.overlap:
            spent = spent + np.hstack([np.zeros((len(spent), 1)), self.sent[:, self.pp - 1 :: self.pp]])
        return np.asarray(self.pp * spent[:, :-1].sum(axis=1))
