"""The step of a plan, event by event: messages, gradient buckets and parameter gathers as flows on each stage's links.

A flow alone takes what max-plus plans for it (sharing with its own kind included). What the plan does not know is who
else is on the link at that moment, how communication slows computing, and what happens in mid-step. Traffic inside a
chunk (tensor, context, expert parallelism, shards of parameters) stays part of its length here;
`simcluster.engine.des_blocks` has the blocks and the shards' traffic one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.des import Change, Simulated, simulate
from simcluster.engine.period import step_time
from simcluster.engine.step import StepTimes
from simcluster.engine.step_flows import NO_INTERFERENCE, Exchange, Interference, StepFlows, link_names
from simcluster.parallel.mesh import stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD
from simcluster.program.graph import SOURCE
from simcluster.program.plan import Bucket, StepPlan, block_names, buckets, end_stages
from simcluster.program.pricing import ATTENTION, CLASSES, GEMM, MEMORY, Machine
from simcluster.program.step import POSITIONS, StepProgram
from simcluster.program.step_rows import PAIR
from simcluster.program.wiring import NO_FLOW, Wiring, replicated
from simcluster.shapes import CollectiveKind, GroupShape

Floats = NDArray[np.float64]


def solve_step_des(times: StepTimes, wiring: Wiring | None = None, changes: Sequence[Change] = ()) -> Simulated:
    """The step of one replica, which stands for all, event by event; tasks are those of `times.program`.

    Without a wiring nothing is shared, and the ends are those of
    max-plus; `step_wiring` makes one. `changes` may name links (`step_flows.link_number`) and streams (the computing of
    a stage is the stream of its number). Raises SimclusterError if a link that is down for good keeps the step from
    ending.
    """
    return simulate(times.program.graph, times.durations[:, 0], times.lags[:, 0], wiring, changes)


def simulated_step_s(times: StepTimes, run: Simulated) -> float:
    """Time from one step to the next [s] of a run of `times.program`; see `simcluster.engine.period`."""
    ends = run.ends[:, None]
    return float(step_time(times.program, ends, ends - (run.starts + run.stalled)[:, None], times.lags[:, :1])[0])


def timed_by_events(plan: StepPlan, machine: Machine, times: StepTimes) -> StepTimes:
    """A solved step whose actual times are those of the event engine, with exchanges sharing each stage's links."""
    found = solve_step_des(times, step_wiring(plan, machine, times))
    total, ends = times.total.copy(), times.ends.copy()
    total[0], ends[:, 0] = simulated_step_s(times, found), found.ends
    return replace(times, total=total, ends=ends)


def solve_replicas_des(times: StepTimes, wiring: Wiring, replicas: int, changes: Sequence[Change] = ()) -> Simulated:
    """The step with several replicas apart, which meet in gradient sums, gathers and norm.

    Stage s of replica r computes on stream r*streams + s and has links r*links + `link_number(s, …)`, streams and links
    being those of one replica. Tasks are those of `simcluster.program.wiring.replicated`.
    """
    graph, whole, _ = replicated(times.program.graph, wiring, _shared(times.program), replicas)
    return simulate(graph, times.durations[:, 0], times.lags[:, 0], whole, changes)


def _shared(program: StepProgram) -> NDArray[np.bool_]:
    """Tasks in which replicas meet: gathers, buckets, norm, tied embedding."""
    rows = program.graph.duration
    shared: NDArray[np.bool_] = (rows >= program.bucket_base) & (rows < program.optimizer_base)
    return shared


def step_wiring(
    plan: StepPlan, machine: Machine, times: StepTimes, interference: Interference = NO_INTERFERENCE
) -> Wiring:
    """Links and flows of a step."""
    return StepWires(plan, machine, times, interference).wiring()


class StepWires:
    """Finds the flows of a step program."""

    def __init__(self, plan: StepPlan, machine: Machine, times: StepTimes, interference: Interference) -> None:
        self.plan, self.machine, self.times = plan, machine, times
        self.program, self.flows = times.program, StepFlows(plan, machine, interference)
        self.durations, self.lags = times.durations[:, 0], times.lags[:, 0]
        tasks, edges = len(self.program.graph), len(self.program.graph.predecessor)
        self.transfer, self.message = np.full(tasks, NO_FLOW), np.full(tasks, NO_FLOW)
        self.carried, self.extra_s = np.zeros(edges, dtype=bool), np.zeros(edges)

    def wiring(self) -> Wiring:
        """All of it."""
        for kind in (FORWARD, BACKWARD):
            for source in range(self.program.parts):
                target = self.program.receiver(kind, source)
                if target >= 0:
                    self._message(kind, source, target)
        if not self.plan.pipeline.overlap_messages:
            self._blocking()
        self._exchanges()
        self._tied()
        sm_bound, hbm_bound = self._bounds()
        return Wiring(
            links=link_names(self.plan.mesh.pp),
            bytes_per_s=np.array(self.flows.bytes_per_s),
            flows=self.flows.flows,
            transfer=self.transfer,
            message=self.message,
            carried=self.carried,
            extra_s=self.extra_s,
            sm_bound=sm_bound,
            hbm_bound=hbm_bound,
        )

    def _message(self, kind: int, source: int, target: int) -> None:
        """Edges that messages between two virtual stages carry; a gather that follows stays a lag."""
        pp, row = self.plan.mesh.pp, self.program.message_lag(kind, target)
        found = self.flows.message(source % pp, target % pp)
        if found is None:
            return
        flow, seconds = found
        edges = np.flatnonzero(self.program.graph.lag == row)
        self.message[self.program.graph.predecessor[edges]] = flow
        self.carried[edges] = True
        self.extra_s[edges] = max(0.0, float(self.lags[row]) - seconds)

    def _blocking(self) -> None:
        """A sender that blocks goes on when its message has left."""
        graph, program = self.program.graph, self.program
        rows = [program.own_lag(kind, part) for kind in range(program.kinds) for part in range(program.parts)]
        own = np.isin(graph.lag, rows) & (graph.predecessor != SOURCE)
        own &= np.append(self.lags, 0.0)[graph.lag] > 0
        own[own] &= self.message[graph.predecessor[own]] != NO_FLOW
        self.carried |= own

    def _exchanges(self) -> None:
        """Buckets and gathers."""
        data, program = self.plan.data, self.program
        for row, (stage, chunk, index) in enumerate(program.bucket_rows):
            bucket = buckets(self.plan, self.plan.contents[stage][chunk], backward=True)[index]
            parts = _parts(bucket, data.reduce_kind, data.gradient_bytes, data.group, data.expert_group)
            self._collective(program.bucket_base + row, parts, (stage,))
        for row, (stage, chunk, index) in enumerate(program.gather_rows):
            bucket = buckets(self.plan, self.plan.contents[stage][chunk], backward=False)[index]
            assert data.gather_kind != "none"
            parts = _parts(bucket, data.gather_kind, data.parameter_bytes, data.gather_group, data.expert_group)
            self._collective(program.gather_base + row, parts, (stage,))

    def _tied(self) -> None:
        """The stages of embedding and head sum the gradient of a shared table."""
        plan, network = self.plan, self.machine.network
        if plan.tied_exchange:
            ends = end_stages(plan)
            pair = stage_pair(plan.mesh, *ends, network.domain_gpus, network.gpus_per_node)
            size = plan.padded_vocab * plan.arch.hidden / plan.mesh.tp * plan.data.gradient_bytes
            group = GroupShape(2, pair.domains, pair.sharers)
            self._collective(self.program.barrier_row + 1, [Exchange("all_reduce", size, group)], ends)

    def _collective(self, row: int, exchanges: Sequence[Exchange], stages: Sequence[int]) -> None:
        flow = self.flows.collective(exchanges, float(self.durations[row]), stages)
        if flow is not None:
            self.transfer[self.program.graph.duration == row] = flow

    def _bounds(self) -> tuple[Floats, Floats]:
        """Shares of each chunk's time that the multiprocessors, and the memory bandwidth, set."""
        program, pp = self.program, self.plan.mesh.pp
        shares = np.zeros((program.duration_rows, len(CLASSES)))
        busy = {(kind, part): self._busy(kind, part) for kind in range(program.kinds) for part in range(program.parts)}
        if program.shape.two_way:
            for part in range(program.parts):
                busy[PAIR, part] = busy[FORWARD, part] + busy[BACKWARD, (part + pp) % program.parts]
        for (kind, part), spent in busy.items():
            for position in range(POSITIONS):
                row = program.chunk_row(kind, part, position)
                shares[row] = bounded_share(spent, float(self.durations[row]))
        sm_bound, hbm_bound = resource_shares(shares)
        rows = program.graph.duration
        return sm_bound[rows], hbm_bound[rows]

    def _busy(self, kind: int, part: int) -> Floats:
        """Seconds of a chunk by class."""
        pp = self.plan.mesh.pp
        names = block_names(self.plan, self.plan.contents[part % pp][part // pp])
        return sum((self.times.blocks[kind, name].busy for name in names), np.zeros(len(CLASSES)))


def bounded_share(busy: Floats, length: float) -> Floats:
    """Busy seconds by class as shares of a length; of their sum where they overlap."""
    whole = max(length, float(busy.sum()))
    return busy / whole if whole > 0 else np.zeros_like(busy)


def resource_shares(shares: Floats) -> tuple[Floats, Floats]:
    """Shares by class (last axis) as those that multiprocessors and memory bandwidth set."""
    return shares[..., GEMM] + shares[..., ATTENTION], shares[..., MEMORY]


def _parts(
    bucket: Bucket, kind: CollectiveKind, width: float, group: GroupShape, expert_group: GroupShape
) -> tuple[Exchange, Exchange]:
    """Collectives of a bucket: of its dense parameters, and of its experts."""
    return Exchange(kind, bucket.parameters * width, group), Exchange(kind, bucket.experts * width, expert_group)
