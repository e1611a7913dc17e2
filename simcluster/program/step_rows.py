"""Rows of the duration and lag tables of a step program, named once for whoever fills them and whoever reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from simcluster.parallel.schedules import SPLIT, overlapped
from simcluster.program.graph import Ints

Number = TypeVar("Number", int, Ints)

POSITIONS = 3  # first, middle, last micro-batch of a chunk


@dataclass(frozen=True, slots=True)
class StepShape:
    """All that fixes the structure of a step program (durations apart); hashable, so programs are cached.

    grad_buckets      [stage][chunk] number of gradient buckets
    gather_buckets    [stage][chunk] number of parameter gathers (zero: parameters are not sharded)
    overlap_reduce    buckets may start while the last backward of their chunk runs
    overlap_gather    gathers run at the start of the step beside the first forward, instead of after the optimizer
    tied_embedding    the stages of embedding and head exchange the gradient of a shared table
    ends              the stages of embedding and head; None: the first and the last
    wires             chunks move shards of parameters or gradients over a wire of their own
    replica_wires     they also sum shards over replicas, on another one
    host_copies       [stage][chunk] pieces in which gradients go to the host; empty: states live on the GPU
    drives            states are read from drives and written to them
    """

    schedule: str
    pp: int
    micro_batches: int
    virtual_stages: int
    group: int | None
    grad_buckets: tuple[tuple[int, ...], ...]
    gather_buckets: tuple[tuple[int, ...], ...]
    overlap_reduce: bool
    overlap_gather: bool
    tied_embedding: bool
    wires: bool = False
    replica_wires: bool = False
    ends: tuple[int, int] | None = None
    host_copies: tuple[tuple[int, ...], ...] = ()
    drives: bool = False

    def __post_init__(self) -> None:
        if self.wires and (self.split or self.paired):
            raise ValueError(f"{self.schedule} with shards that move inside chunks is not simulated")

    @property
    def split(self) -> bool:
        """Whether input and weight gradients run apart."""
        return self.schedule in SPLIT

    @property
    def two_way(self) -> bool:
        """Whether micro-batches enter at both ends: chunk 0 of a stage serves one direction, chunk 1 the other."""
        return self.schedule == "dualpipe" and self.pp > 1

    @property
    def paired(self) -> bool:
        """Whether forwards run beside backwards."""
        return self.two_way or self.schedule == overlapped.NAME

    @property
    def rolling(self) -> bool:
        """Whether a stage begins its next step as soon as its own optimizer is done; then none waits for a norm."""
        return self.schedule == "zb-h2"

    @property
    def wire_count(self) -> int:
        """Wires that run beside a chunk."""
        return int(self.wires) + int(self.replica_wires)


@dataclass(frozen=True)
class StepRows:
    """Rows of the duration and lag tables of a step: chunk durations [kind, virtual stage, position], message and
    own-stage lags [kind, virtual stage], then buckets and gathers as many as there are.

    Kinds are those of `simcluster.parallel.schedules.order`; two of them unless the schedule splits the backward.
    """

    shape: StepShape
    buckets: int
    gathers: int

    @property
    def parts(self) -> int:
        """Virtual stages of the whole pipeline."""
        return self.shape.pp * self.shape.virtual_stages

    @property
    def kinds(self) -> int:
        """Kinds of operations of a chunk."""
        return 4 if self.shape.split else 2

    def receiver(self, kind: int, virtual_stage: int) -> int:
        """Virtual stage that the result of a chunk goes to, forward (0) or backward (1); -1 for none."""
        pp, step = self.shape.pp, -1 if kind else 1
        if not self.shape.two_way:
            target = virtual_stage + step
            return target if 0 <= target < self.parts else -1
        chunk, stage = divmod(virtual_stage, pp)
        target = stage - step if chunk else stage + step
        return chunk * pp + target if 0 <= target < pp else -1

    def senders(self, kind: int) -> Ints:
        """Of every virtual stage, the one whose result it receives, forward (0) or backward (1); -1 for none."""
        return np.array([self.receiver(1 - kind, part) for part in range(self.parts)], dtype=np.int64)

    def chunk_row(self, kind: int, virtual_stage: int, position: int) -> int:
        """Duration row of a chunk."""
        return (kind * self.parts + virtual_stage) * POSITIONS + position

    def pairs(self) -> list[tuple[int, int]]:
        """Virtual stages of a forward and of a backward that may run beside it: of one device; of both directions."""
        pp = self.shape.pp
        held = [(one, chunk * pp + one % pp) for one in range(self.parts) for chunk in range(self.shape.virtual_stages)]
        return [(one, mate) for one, mate in held if one != mate or not self.shape.two_way]

    def pair_row(self, part: Number, mate: Number, position: Number) -> Number:
        """Duration row of a forward of a virtual stage beside a backward of its mate."""
        pair = part * self.shape.virtual_stages + mate // self.shape.pp
        return (self.kinds * self.parts + pair) * POSITIONS + position

    @property
    def beside_row(self) -> int:
        """Duration row of the backwards of pairs, which add no time."""
        return (self.kinds + self.shape.virtual_stages) * self.parts * POSITIONS

    @property
    def bucket_base(self) -> int:
        """First duration row of the gradient buckets; gathers, then barrier, tied, optimizer of each stage follow."""
        return self.chunk_rows

    @property
    def gather_base(self) -> int:
        """First duration row of the parameter gathers."""
        return self.bucket_base + self.buckets

    @property
    def barrier_row(self) -> int:
        """Duration row of the gradient norm; the tied embedding's exchange is the next."""
        return self.gather_base + self.gathers

    @property
    def optimizer_base(self) -> int:
        """First duration row of the optimizer, one for each stage."""
        return self.barrier_row + 2

    @property
    def wire_base(self) -> int:
        """First duration row of the chunks' wires, in the order of the chunk rows."""
        return self.optimizer_base + self.shape.pp

    @property
    def replica_base(self) -> int:
        """First duration row of the chunks' replica wires, in the order of the chunk rows."""
        return self.wire_base + self.chunk_rows

    @property
    def chunk_rows(self) -> int:
        """Rows of a table over chunks."""
        return self.beside_row + 1 if self.shape.paired else self.kinds * self.parts * POSITIONS

    @property
    def duration_rows(self) -> int:
        """Rows of the duration table."""
        return self.to_host_base + (5 if self.shape.drives else 3) * self.copies

    @property
    def copies(self) -> int:
        """Pieces in which gradients go to the host."""
        return sum(map(sum, self.shape.host_copies))

    @property
    def to_host_base(self) -> int:
        """First duration row of the copies to the host."""
        return self.wire_base + self.chunk_rows * self.shape.wire_count

    @property
    def update_base(self) -> int:
        """First duration row of the updates in the host, a row for each copy to it."""
        return self.to_host_base + self.copies

    @property
    def to_gpu_base(self) -> int:
        """First duration row of the copies of parameters back; on drives, reads and then writes of states follow."""
        return self.update_base + self.copies

    def message_lag(self, kind: int, virtual_stage: int) -> int:
        """Lag row of the message that chunk (kind, virtual stage) receives."""
        return kind * self.parts + virtual_stage

    def own_lag(self, kind: Number, virtual_stage: Number) -> Number:
        """Lag row by which chunk (kind, virtual stage) delays the next chunk of its own stage."""
        return 2 * self.parts + kind * self.parts + virtual_stage

    @property
    def release_base(self) -> int:
        """First lag row of the gradient buckets: ready that long after their chunk ends (negative: before)."""
        return (2 + self.kinds) * self.parts

    @property
    def need_base(self) -> int:
        """First lag row of the gathers: minus the time into the first forward at which the parameters are needed."""
        return self.release_base + self.buckets

    @property
    def busy_wire_base(self) -> int:
        """First lag row by which a busy wire delays a chunk.

        As many rows each: compute, its wire, its replica wire; then what a busy replica wire delays, itself.
        """
        return self.need_base + self.gathers

    @property
    def lag_rows(self) -> int:
        """Rows of the lag table."""
        return self.copy_base + self.copies

    @property
    def copy_base(self) -> int:
        """First lag row of the copies to the host: ready that long after what makes them ends (negative: before)."""
        return self.busy_wire_base + 2 * self.chunk_rows * self.shape.wire_count
