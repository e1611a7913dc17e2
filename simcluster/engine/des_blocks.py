"""The step of a plan, event by event, block by block: with the traffic of sharded parameters as flows, and the host
that issues kernels apart from the device that runs them.

The host's times do not stretch when communication slows the device; a launch-bound block is slowed only where the
device falls behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.des import Change, Simulated, simulate
from simcluster.engine.des_step import bounded_share, filled_tables, resource_shares, step_wiring
from simcluster.engine.step import StepTimes
from simcluster.engine.step_flows import NO_INTERFERENCE, Exchange, Interference, StepFlows
from simcluster.engine.step_tables import ChunkKey, StepTables, pair_key
from simcluster.parallel.schedules.order import FORWARD, PAIR
from simcluster.parallel.stages import ChunkContents
from simcluster.program.chunk import ChunkShape, chunk_program
from simcluster.program.graph import Ints
from simcluster.program.inlined import ENTRY, Inlined, Inside, inline
from simcluster.program.plan import StepPlan, block_names, buckets, chunk_shape
from simcluster.program.pricing import CLASSES, Machine
from simcluster.program.step import POSITIONS
from simcluster.program.wiring import NO_FLOW, Wiring
from simcluster.shapes import GroupShape

Floats = NDArray[np.float64]

_BESIDE = PAIR, (), ChunkShape(0)  # the backward of a pair, whose blocks are those of its forward


@dataclass(frozen=True)
class BlockStep:
    """A step of blocks, ready to run: the program and its flows."""

    program: Inlined
    wiring: Wiring

    def run(self, changes: Sequence[Change] = ()) -> Simulated:
        """Runs it; tasks are those of `program`."""
        return simulate(self.program.graph, self.program.durations, self.program.lags, self.wiring, changes)


def block_step(
    plan: StepPlan, machine: Machine, times: StepTimes, interference: Interference = NO_INTERFERENCE
) -> BlockStep:
    """The step of `times = solve_step(plan, machine)` in blocks; one replica stands for all."""
    return _Blocks(plan, machine, times, interference).step()


class _Blocks:
    def __init__(self, plan: StepPlan, machine: Machine, times: StepTimes, interference: Interference) -> None:
        self.plan, self.machine, self.times, self.program = plan, machine, times, times.program
        self.interference = interference
        self.tables: StepTables = filled_tables(plan, machine, times)
        self.keys = [self._key(task) for task in range(self.program.chunk_tasks)]
        self.known: dict[ChunkKey, Inside] = {}

    def step(self) -> BlockStep:
        """Program and wiring."""
        durations, lags = self.tables.durations[:, 0], self.tables.lags[:, 0]
        insides = [self._inside(key) for key in self.keys]
        program = inline(self.program, insides, durations, lags, self._block_of_lag())
        return BlockStep(program, self._wiring(program))

    def _contents(self, task: int) -> tuple[int, ChunkContents, int]:
        """Kind of a chunk task, what it holds, and its stage."""
        pp, part = self.plan.mesh.pp, int(self.program.virtual_stage[task])
        return int(self.program.kind[task]), self.plan.contents[part % pp][part // pp], part % pp

    def _key(self, task: int) -> ChunkKey:
        if self.program.pair[task] == 2:
            return _BESIDE
        if self.program.pair[task] == 1:
            return pair_key(self.plan, *(self._contents(one)[1] for one in (task, task + 1)))
        kind, contents, _ = self._contents(task)
        backward = kind != FORWARD
        micro = int(self.program.micro[task])
        position = POSITIONS - 1 if micro == self.plan.micro_batches - 1 else min(micro, 1)
        names = block_names(self.plan, contents, backward)
        return kind, names, chunk_shape(self.plan, len(names), backward, position)

    def _inside(self, key: ChunkKey) -> Inside:
        """What is inside a chunk task; those alike share it."""
        if key not in self.known:
            self.known[key] = self._blocks(*key)
        return self.known[key]

    def _blocks(self, kind: int, names: tuple[str, ...], shape: ChunkShape) -> Inside:
        blocks = [self.times.blocks[kind, name] for name in names]
        device, hosted, host = (
            np.array([getattr(block, name)[0] for block in blocks]) for name in ("device", "hosted", "host")
        )
        traffic = self.tables.traffic(names, shape)
        durations = np.concatenate([device, traffic.gather, traffic.scatter, traffic.replica, [0.0]])
        return Inside(chunk_program(shape), durations, np.cumsum(host) - host + hosted - device)

    def _block_of_lag(self) -> dict[int, int]:
        """Lag rows that stand for the end, or the start, of a block."""
        program, found = self.program, {}
        for base, rows, backward in (
            (program.release_base, program.bucket_rows, True),
            (program.need_base, program.gather_rows, False),
        ):
            for row, (stage, chunk, index) in enumerate(rows):
                bucket = buckets(self.plan, self.plan.contents[stage][chunk], backward)[index]
                found[base + row] = bucket.last if backward else bucket.first
        for row, (stage, chunk, index) in enumerate(program.copy_rows):
            found[program.copy_base + row] = buckets(self.plan, self.plan.contents[stage][chunk], True)[index].last
        return found

    def _wiring(self, program: Inlined) -> Wiring:
        """The flows of the step program, and those of the shards."""
        outer = step_wiring(self.plan, self.machine, self.times, self.interference)
        flows = StepFlows(self.plan, self.machine, self.interference)
        for flow in outer.flows:
            flows.numbers.setdefault(flow, len(flows.numbers))
        tasks = len(program.graph)
        transfer, message = np.full(tasks, NO_FLOW), np.full(tasks, NO_FLOW)
        sends = np.flatnonzero(outer.message != NO_FLOW)
        message[program.last[sends]] = outer.message[sends]
        behind = program.origin >= self.program.chunk_tasks
        transfer[behind] = outer.transfer[program.origin[behind]]
        shares = self._units(program, flows, transfer)
        known = program.edge >= 0
        sm_bound, hbm_bound = resource_shares(shares)
        return replace(
            outer,
            flows=flows.flows,
            transfer=transfer,
            message=message,
            carried=known & outer.carried[program.edge],
            extra_s=np.where(known, outer.extra_s[program.edge], 0.0),
            sm_bound=sm_bound,
            hbm_bound=hbm_bound,
        )

    def _units(self, program: Inlined, flows: StepFlows, transfer: Ints) -> Floats:
        """Marks transfers of shards; returns the share of each class in every block's time."""
        shares = np.zeros((len(program.graph), len(CLASSES)))
        known: dict[tuple[ChunkKey, int, int], int | None] = {}
        for task in np.flatnonzero(program.unit != ENTRY).tolist():
            origin, unit = int(program.origin[task]), int(program.unit[task])
            key, count = self.keys[origin], self.keys[origin][2].blocks
            if unit < count:
                block = self.times.blocks[key[0], key[1][unit]]
                shares[task] = bounded_share(block.busy, float(block.device[0]))
            elif unit < 4 * count:
                stage = self._contents(origin)[2]
                if (key, unit, stage) not in known:
                    seconds = float(program.durations[task])
                    exchanges = self._exchanges(key[1][unit % count], unit // count)
                    known[key, unit, stage] = flows.collective(exchanges, seconds, (stage,))
                found = known[key, unit, stage]
                transfer[task] = NO_FLOW if found is None else found
        return shares

    def _exchanges(self, name: str, what: int) -> tuple[Exchange, ...]:
        """Collectives of a block's unit: 1 gather, 2 reduction, 3 sum over replicas."""
        data = self.plan.data
        experts = self.plan.expert_parameters.get(name, 0.0)
        dense = self.plan.block_parameters[name] - experts
        if what == 3:
            replicas = data.units.replicas if data.units else GroupShape(1)
            return (Exchange("all_reduce", dense * data.gradient_bytes / data.gather_group.ranks, replicas),)
        width = data.parameter_bytes if what == 1 else data.gradient_bytes
        kind = "all_gather" if what == 1 else data.reduce_kind
        return (
            Exchange(kind, dense * width, data.gather_group),
            Exchange(kind, experts * width, data.expert_group),
        )
