"""The step of a plan, event by event: messages, gradient buckets and parameter gathers as flows on each stage's links.

A flow alone takes what max-plus plans for it (sharing with its own kind included). What the plan does not know is who
else is on the link at that moment, how communication slows computing, and what happens in mid-step. Traffic inside a
chunk (tensor, context, expert parallelism, shards of parameters) stays part of its length here;
`simcluster.engine.des_blocks` has the blocks and the shards' traffic one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.des import Change, Simulated, simulate
from simcluster.engine.period import step_time
from simcluster.engine.step import StepTimes
from simcluster.engine.step_flows import NO_INTERFERENCE, Exchange, Interference, StepFlows, link_names
from simcluster.engine.step_tables import StepTables, pair_key
from simcluster.parallel.mesh import stage_pair
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, PAIR
from simcluster.program.graph import SOURCE
from simcluster.program.plan import Bucket, StepPlan, block_names, buckets, chunk_shape, end_stages
from simcluster.program.pricing import ATTENTION, CLASSES, GEMM, MEMORY, Machine
from simcluster.program.step import POSITIONS, StepProgram
from simcluster.program.wiring import NO_FLOW, Wiring, replicated
from simcluster.shapes import CollectiveKind, GroupShape

Floats = NDArray[np.float64]


def step_tables(plan: StepPlan, machine: Machine, times: StepTimes) -> tuple[Floats, Floats]:
    """Durations and lags of a step's tasks as they are [s], rows as `times.program` names them."""
    tables = filled_tables(plan, machine, times)
    return tables.durations[:, 0], tables.lags[:, 0]


def filled_tables(plan: StepPlan, machine: Machine, times: StepTimes) -> StepTables:
    """Tables of the step program, filled again."""
    tables = StepTables(plan, machine, times.program, times.blocks)
    tables.fill()
    return tables


def solve_step_des(
    plan: StepPlan,
    machine: Machine,
    times: StepTimes,
    wiring: Wiring | None = None,
    changes: Sequence[Change] = (),
) -> Simulated:
    """The step of one replica, which stands for all, event by event; tasks are those of `times.program`.

    `times` is what `solve_step(plan, machine)` gave. Without a wiring nothing is shared, and the ends are those of
    max-plus; `step_wiring` makes one. `changes` may name links (`step_flows.link_number`) and streams (the computing of
    a stage is the stream of its number). Raises SimclusterError if a link that is down for good keeps the step from
    ending.
    """
    durations, lags = step_tables(plan, machine, times)
    return simulate(times.program.graph, durations, lags, wiring, changes)


def timed_by_events(plan: StepPlan, machine: Machine, times: StepTimes) -> StepTimes:
    """A solved step whose actual times are those of the event engine, with exchanges sharing each stage's links."""
    found = solve_step_des(plan, machine, times, step_wiring(plan, machine, times))
    total, ends = times.total.copy(), times.ends.copy()
    ends[:, 0] = found.ends
    spent = found.ends - found.starts - found.stalled  # also what a link that others use has made longer
    lags = filled_tables(plan, machine, times).lags[:, :1]
    total[0] = step_time(times.program, ends[:, :1], spent[:, None], lags)[0]
    return replace(times, total=total, ends=ends)


def solve_replicas_des(
    plan: StepPlan, machine: Machine, times: StepTimes, wiring: Wiring, replicas: int, changes: Sequence[Change] = ()
) -> Simulated:
    """The step with several replicas apart, which meet in gradient sums, gathers and norm.

    Stage s of replica r computes on stream r*streams + s and has links r*links + `link_number(s, …)`, streams and links
    being those of one replica. Tasks are those of `simcluster.program.wiring.replicated`.
    """
    graph, whole, _ = replicated(times.program.graph, wiring, _shared(times.program), replicas)
    durations, lags = step_tables(plan, machine, times)
    return simulate(graph, durations, lags, whole, changes)


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
        self.durations, self.lags = step_tables(plan, machine, times)
        tasks, edges = len(self.program.graph), len(self.program.graph.predecessor)
        self.transfer, self.message = np.full(tasks, NO_FLOW), np.full(tasks, NO_FLOW)
        self.carried, self.extra_s = np.zeros(edges, dtype=bool), np.zeros(edges)

    def wiring(self) -> Wiring:
        """All of it."""
        for kind in (FORWARD, BACKWARD):
            for target, source in enumerate(self.program.senders(kind).tolist()):
                if source >= 0:
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
        """The stages of embedding and head sum the gradient of a shared embedding."""
        plan, network, ends = self.plan, self.machine.network, end_stages(self.plan)
        if plan.tied_exchange:
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
        for kind, part in itertools.product(range(program.kinds), range(program.parts)):
            backward = kind != FORWARD
            names = block_names(self.plan, self.plan.contents[part % pp][part // pp], backward)
            busy = sum((self.times.blocks[kind, name].busy for name in names), np.zeros(len(CLASSES)))
            for position in range(POSITIONS):
                key = (kind, names, chunk_shape(self.plan, len(names), backward, position))
                if key in self.times.chunks:
                    length = float(self.times.chunks[key].duration[0])
                    shares[program.chunk_row(kind, part, position)] = bounded_share(busy, length)
        if program.shape.paired:
            self._paired(shares)
        sm_bound, hbm_bound = resource_shares(shares)
        rows = program.graph.duration
        return sm_bound[rows], hbm_bound[rows]

    def _paired(self, shares: Floats) -> None:
        """Shares of overlapped pairs."""
        program, pp = self.program, self.plan.mesh.pp
        for part, mate in program.pairs():
            key = pair_key(self.plan, *(self.plan.contents[one % pp][one // pp] for one in (part, mate)))
            busy = sum((self.times.blocks[PAIR, name].busy for name in key[1]), np.zeros(len(CLASSES)))
            for position in range(POSITIONS):
                length = float(self.times.chunks[key].duration[0])
                shares[program.pair_row(part, mate, position)] = bounded_share(busy, length)


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
