"""The duration and lag tables of a step program, filled from solved blocks and priced exchanges.

Columns are idealisations in the order of `STEP_COLUMNS`; each keeps those before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.block import COLUMNS, BlockTimes
from simcluster.engine.chunk import NEVER, ChunkTimes, WireTimes, solve_chunk
from simcluster.parallel.mesh import group_shape, stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, PAIR
from simcluster.parallel.stages import ChunkContents
from simcluster.program.chunk import ChunkShape
from simcluster.program.compression import wire
from simcluster.program.offload import OffloadPlan
from simcluster.program.plan import (
    Bucket,
    StepPlan,
    block_names,
    buckets,
    chunk_shape,
    end_stages,
    message_bytes,
    paired_names,
    stage_experts,
    stage_parameters,
)
from simcluster.program.pricing import Machine
from simcluster.program.step import POSITIONS, StepProgram
from simcluster.shapes import CollectiveKind, Estimate, GroupShape
from simcluster.timing.streaming import streaming_time

Floats = NDArray[np.float64]

STEP_COLUMNS = ("actual", "no_data_parallel", "no_expert_context", "no_messages", "balanced")
# For each of them the chunk column that gives its chunk times.
_CHUNK_COLUMN = (0, 1, 2, 2, 2)

ChunkKey = tuple[int, tuple[str, ...], ChunkShape]


def pair_key(plan: StepPlan, forward: ChunkContents, backward: ChunkContents) -> ChunkKey:
    """Key of the times of a forward chunk beside a backward one."""
    names = paired_names(plan, forward, backward)
    return PAIR, names, ChunkShape(len(names))


class StepTables:
    """Fills the duration and lag tables of a step program; columns are `STEP_COLUMNS`."""

    def __init__(
        self, plan: StepPlan, machine: Machine, program: StepProgram, blocks: Mapping[tuple[int, str], BlockTimes]
    ) -> None:
        self.plan, self.machine, self.program, self.blocks = plan, machine, program, blocks
        columns = len(STEP_COLUMNS)
        self.durations = np.zeros((program.duration_rows, columns))
        self.lags = np.zeros((program.lag_rows, columns))
        self.runs = np.bincount(program.virtual_stage[program.kind == FORWARD], minlength=program.parts)
        self.virtual = [plan.contents[part % plan.mesh.pp][part // plan.mesh.pp] for part in range(program.parts)]
        self.reduce_s, self.gather_s = np.zeros(plan.mesh.pp), np.zeros(plan.mesh.pp)
        self.optimizer = self._optimizer()
        self.data_evidence: list[tuple[float, float, float]] = []
        self.message_evidence: list[tuple[float, float, float]] = []
        self.known: dict[tuple[str, float, GroupShape], tuple[float, float, float]] = {}
        self.cut: dict[tuple[ChunkContents, bool], tuple[Bucket, ...]] = {}
        self.chunks: dict[ChunkKey, ChunkTimes] = {}
        self.names: dict[tuple[ChunkContents, bool], tuple[str, ...]] = {}

    def fill(self) -> None:
        """All rows."""
        self._chunks()
        self._messages()
        self._buckets()
        self._gathers()
        self._tail()
        if self.plan.offload is not None:
            self._copies(self.plan.offload)

    def chunk(self, contents: ChunkContents, kind: int, position: int) -> ChunkTimes:
        """Times of a chunk, solved once for each distinct one."""
        backward = kind != FORWARD
        names = self.names.get((contents, backward)) or block_names(self.plan, contents, backward)
        self.names[contents, backward] = names
        shape = chunk_shape(self.plan, len(names), backward, position)
        key = (kind, names, shape)
        if key not in self.chunks:
            blocks = [self.blocks[kind, name] for name in names]
            self.chunks[key] = solve_chunk(blocks, shape, self.traffic(names, shape))
        return self.chunks[key]

    def traffic(self, names: tuple[str, ...], shape: ChunkShape) -> WireTimes:
        """Gathers and reductions of a chunk's units."""
        none = WireTimes.none(len(names))
        data = self.plan.data
        fetches = self.plan.offload is not None and self.plan.offload.parameters
        if data.units is None or not (shape.gathers or shape.scatters):
            return none
        experts = np.array([self.plan.expert_parameters.get(name, 0.0) for name in names])
        others = np.array([self.plan.block_parameters[name] for name in names]) - experts
        share = data.gradient_bytes / data.gather_group.ranks

        def gather(own: float, their: float) -> float:
            dense = self._priced("all_gather", own * data.parameter_bytes, data.gather_group)
            moved = dense + self._priced("all_gather", their * data.parameter_bytes, data.expert_group)
            return moved + self._fetched(own, their) if fetches else moved

        def scatter(own: float, their: float) -> float:
            return self._reduced(own, data.gather_group) + self._reduced(their, data.expert_group)

        def replicas(own: float, _their: float) -> float:
            assert data.units is not None
            return self._priced("all_reduce", own * share, data.units.replicas)

        def over_units(wanted: bool, move: Callable[[float, float], float]) -> Floats:
            return np.array([move(*pair) for pair in zip(others, experts)]) if wanted else none.gather

        return WireTimes(
            gather=over_units(shape.gathers, gather),
            scatter=over_units(shape.scatters, scatter),
            replica=over_units(shape.replicas, replicas),
        )

    def _fetched(self, own: float, their: float) -> float:
        """Time to copy a rank's shards of a unit up from the host, in front of its gather."""
        data, offload = self.plan.data, self.plan.offload
        assert offload is not None
        shard = own / data.shards + their / data.expert_shards
        return shard * offload.parameter_bytes / offload.to_gpu_bytes_per_s

    def _chunks(self) -> None:
        program, columns = self.program, list(_CHUNK_COLUMN)
        for kind in range(program.kinds):
            for position in range(POSITIONS):
                times = [self.chunk(contents, kind, position) for contents in self.virtual]
                seconds = np.array([one.duration for one in times])
                balanced = seconds[:, columns[-1]].mean()
                for part, one in enumerate(times):
                    row = program.chunk_row(kind, part, position)
                    self.durations[row] = one.duration[columns]
                    self.durations[row, -1] = balanced
                    if self.program.shape.wires:
                        self._wire(one, row)
        if program.shape.paired:
            self._pairs()

    def pair(self, part: int, mate: int) -> ChunkTimes:
        """Times of a forward of a virtual stage beside a backward of its mate."""
        key = pair_key(self.plan, self.virtual[part], self.virtual[mate])
        if key not in self.chunks:
            blocks = [self.blocks[PAIR, name] for name in key[1]]
            self.chunks[key] = solve_chunk(blocks, key[2], WireTimes.none(len(blocks)))
        return self.chunks[key]

    def _pairs(self) -> None:
        """Forwards beside backwards of the same device; exchanges of each hide behind computing of the other."""
        program = self.program
        for part, mate in program.pairs():
            both = self.pair(part, mate).duration[list(_CHUNK_COLUMN)]
            for position in range(POSITIONS):
                row = program.pair_row(part, mate, position)
                self.durations[row] = both
                rows = (program.chunk_row(FORWARD, part, position), program.chunk_row(BACKWARD, mate, position))
                self.durations[row, -1] = self.durations[rows, -1].sum()

    def _wire(self, times: ChunkTimes, row: int) -> None:
        """Rows of a chunk's wires; only the first column has traffic."""
        program = self.program
        self.durations[program.wire_base + row, 0] = times.wire[0]
        self._busy(0, row, times.compute_after[0] - times.duration[0])
        self._busy(1, row, times.wire_after[0] - times.wire[0])
        if program.shape.replica_wires:
            self.durations[program.replica_base + row, 0] = times.replica[0]
            self._busy(2, row, times.replica_after[0] - times.replica[0])
            self._busy(3, row, times.replica_own[0] - times.replica[0])

    def _busy(self, path: int, row: int, lag: float) -> None:
        base = self.program.busy_wire_base + path * self.program.chunk_rows + row
        self.lags[base] = NEVER
        self.lags[base, 0] = lag

    def _message_s(self, part: int, neighbour: int) -> tuple[float, float]:
        """Time of a message, and of the gather that follows where it came in pieces to ranks that need the whole."""
        plan, pp = self.plan, self.plan.mesh.pp
        network = self.machine.network
        pair = stage_pair(plan.mesh, part % pp, neighbour % pp, network.domain_gpus, network.gpus_per_node)
        if pair.ranks == 1:
            return 0.0, 0.0
        message = self.machine.transfer("sendrecv", message_bytes(plan), pair)
        sent = float(message.seconds)
        self.message_evidence.append((sent * float(self.runs[part]), float(message.grade), float(message.sigma)))
        if not plan.pipeline.scatter or plan.layer.sequence_parallel or plan.mesh.tp == 1:
            return sent, 0.0
        whole = message_bytes(plan) * plan.mesh.tp
        return sent, float(self.machine.transfer("all_gather", whole, self.machine.groups["tp"]).seconds)

    def _messages(self) -> None:
        """A receiver waits for message and gather; a sender that blocks, or whose wire is busy, for the message."""
        program = self.program
        for kind in (FORWARD, BACKWARD):
            senders = (kind, INPUT) if kind == BACKWARD and program.shape.split else (kind,)
            for part in range(program.parts):
                target = program.receiver(kind, part)
                if target < 0:
                    continue
                sent, gathered = self._message_s(part, target)
                self.lags[program.message_lag(kind, target), :3] = sent + gathered
                for sender in senders:
                    chunk = self.chunk(self.virtual[part], sender, 1).duration[0]
                    wire_busy = max(0.0, sent - chunk)  # the next result cannot leave before this one has left
                    held = wire_busy if self.plan.pipeline.overlap_messages else sent
                    self.lags[program.own_lag(sender, part), :3] = held

    def _priced(self, kind: CollectiveKind, size: float, group: GroupShape) -> float:
        key = (kind, size, group)
        if size == 0 or group.ranks == 1:
            return 0.0
        if key not in self.known:
            estimate = self.machine.transfer(kind, size, group)
            self.known[key] = (float(estimate.seconds), float(estimate.grade), float(estimate.sigma))
        self.data_evidence.append(self.known[key])
        return self.known[key][0]

    def _reduced(self, parameters: float, group: GroupShape) -> float:
        """Time to sum gradients over a group, compressed if they are."""
        data = self.plan.data
        sent = wire(data.compression, data.reduce_kind, parameters, data.gradient_bytes, group, self.plan.arch.hidden)
        seconds = sent.share * self._priced(sent.kind, sent.bytes, group)
        if seconds and sent.codec_bytes:
            seconds += float(streaming_time(self.machine.kernels, sent.codec_bytes, 2).seconds)
        return seconds

    def _chunk_buckets(self, contents: ChunkContents, backward: bool) -> tuple[Bucket, ...]:
        key = (contents, backward)
        if key not in self.cut:
            self.cut[key] = buckets(self.plan, contents, backward)
        return self.cut[key]

    def _buckets(self) -> None:
        data = self.plan.data
        for row, (stage, chunk, index) in enumerate(self.program.bucket_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=True)[index]
            seconds = self._reduced(bucket.parameters, data.group) + self._reduced(bucket.experts, data.expert_group)
            self.durations[self.program.bucket_base + row, 0] = seconds
            self.reduce_s[stage] += seconds
            times = self.chunk(contents, self.program.gradient_kind[chunk * self.plan.mesh.pp + stage], 2)
            release = times.ends[bucket.last, 0] - times.duration[0]
            self.lags[self.program.release_base + row] = release

    def _gathers(self) -> None:
        data = self.plan.data
        for row, (stage, chunk, index) in enumerate(self.program.gather_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=False)[index]
            assert data.gather_kind != "none"
            seconds = self._priced(data.gather_kind, bucket.parameters * data.parameter_bytes, data.gather_group)
            seconds += self._priced(data.gather_kind, bucket.experts * data.parameter_bytes, data.expert_group)
            self.durations[self.program.gather_base + row, 0] = seconds
            self.gather_s[stage] += seconds
            needed = self.chunk(contents, FORWARD, 0 if self.plan.micro_batches > 1 else 2).starts[bucket.first, 0]
            self.lags[self.program.need_base + row] = -needed

    def _optimizer(self) -> Estimate:
        held = np.array([stage_parameters(self.plan, stage) for stage in self.plan.contents])
        experts = np.array([stage_experts(self.plan, stage) for stage in self.plan.contents])
        data = self.plan.data
        updated = (held - experts) / data.shards + experts / data.expert_shards
        gradients = held if data.units is None else updated  # what is summed in shards stays in shards
        # Elsewhere states are updated by the processors; the GPU still reads gradients for their norm.
        passes = self.plan.optimizer_bytes if self.plan.offload is None else data.gradient_bytes
        moved = updated * passes + gradients * self.plan.gradient_pass_bytes
        return streaming_time(self.machine.kernels, moved, np.full(len(held), 4.0))

    def _tail(self) -> None:
        plan, network = self.plan, self.machine.network
        world = group_shape(plan.mesh.world, 1, plan.mesh.world, network.domain_gpus, network.gpus_per_node)
        if not self.program.shape.rolling:  # there nobody waits for it
            self.durations[self.program.barrier_row, 0] = self._priced("all_reduce", 4.0, world)
        if plan.tied_exchange:
            pair = stage_pair(plan.mesh, *end_stages(plan), network.domain_gpus, network.gpus_per_node)
            shared = plan.padded_vocab * plan.arch.hidden / plan.mesh.tp * plan.data.gradient_bytes
            tied = self._priced("all_reduce", shared, GroupShape(2, pair.domains, pair.sharers))
            self.durations[self.program.barrier_row + 1, 0] = tied
        base = self.program.optimizer_base
        self.durations[base : base + plan.mesh.pp] = np.asarray(self.optimizer.seconds)[:, None]

    def _copies(self, offload: OffloadPlan) -> None:
        """Copies of gradients and parameters, updates and drives; piece by piece as gradients are summed."""
        data, program = self.plan.data, self.program
        update = offload.update_bytes(data.gradient_bytes) / offload.update_bytes_per_s
        back = 0.0 if offload.parameters else offload.parameter_bytes / offload.to_gpu_bytes_per_s
        rates = [data.gradient_bytes / offload.to_host_bytes_per_s, update, back]
        if offload.drives:
            rates += [offload.state_bytes / offload.read_bytes_per_s, offload.state_bytes / offload.write_bytes_per_s]
        for row, (stage, chunk, index) in enumerate(program.copy_rows):
            contents = self.plan.contents[stage][chunk]
            bucket = self._chunk_buckets(contents, backward=True)[index]
            updated = bucket.parameters / data.shards + bucket.experts / data.expert_shards
            for kind, seconds in enumerate(rates):
                self.durations[program.to_host_base + kind * program.copies + row, 0] = updated * seconds
            times = self.chunk(contents, program.gradient_kind[chunk * self.plan.mesh.pp + stage], 2)
            self.lags[program.copy_base + row] = self._made_before(times, bucket)

    def _made_before(self, times: ChunkTimes, bucket: Bucket) -> float:
        """When a bucket's gradients are complete, from the end of the last backward or, where it has them, its wire."""
        if not self.program.shape.wires:
            return float(times.ends[bucket.last, 0] - times.duration[0])
        wire = times.replica if self.program.shape.replica_wires else times.wire
        return float(times.reduced[bucket.last, 0] - wire[0])

    def stage_compute(self) -> Floats:
        """Seconds that each stage spends in its chunks, by block column from the second on: (stages, 4)."""
        total = np.zeros((self.plan.mesh.pp, len(COLUMNS) - 1))
        for part, contents in enumerate(self.virtual):
            both = self.chunk(contents, FORWARD, 1).duration + self.chunk(contents, BACKWARD, 1).duration
            total[part % self.plan.mesh.pp] += both[2:] * self.runs[part]
        return total
