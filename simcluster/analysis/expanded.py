"""What is inside a chunk: its blocks, kernels and exchanges of each, and transfers of shards, at the times that the
solved chunk implies.

A block enters as the one before it ends (with sharded parameters: so that it ends when the chunk's solution says);
an operation starts when its block has entered, the host has issued it, and what it waits for has ended. Transfers of
shards are laid out as on a free wire, so that the last ends with the chunk's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.analysis.timeline import Span
from simcluster.engine.chunk import ChunkTimes
from simcluster.engine.maxplus import solve
from simcluster.engine.step import StepTimes
from simcluster.engine.step_tables import StepTables
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT
from simcluster.program.block import EXCHANGE, BlockOp, block_graph
from simcluster.program.chunk import ChunkShape, chunk_program
from simcluster.program.plan import (
    LAYER_BLOCKS,
    StepPlan,
    block_names,
    block_ops,
    chunk_shape,
    weight_gradient_ops,
)
from simcluster.program.pricing import Machine, PricedOps, price
from simcluster.program.step import POSITIONS
from simcluster.shapes import Operator

Stream: TypeAlias = Literal["compute", "exchange", "data_parallel", "replicas"]
Floats = NDArray[np.float64]
# Kinds of operations by kinds of spans: a backward is whole, or of input gradients alone.
_KINDS = {"forward": (FORWARD,), "backward": (BACKWARD, INPUT), "weight_gradient": (WEIGHT,)}
_SHARDS = ("gather", "reduce", "sum copies")  # what moves, by the rows of a chunk's program
_ROUNDING = 1e-9  # share of the time at which a span ends by which its chunk may be longer or shorter


@dataclass(frozen=True, slots=True)
class Inner:
    """A block of a chunk, an operation of a block, or a transfer of its shards.

    stream      exchange: of tensor, context and expert parallelism; data_parallel, replicas: of shards
    operator    what the operation does; None for a transfer of shards, and for a block, which holds the operations
                behind it
    recompute   runs only because activations were not kept
    start_s, end_s   from the start of the step
    """

    stream: Stream
    name: str
    operator: Operator | None
    recompute: bool
    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        """Length."""
        return self.end_s - self.start_s


class Expander:
    """Opens spans of chunks of `timeline(plan, machine, times)`; each distinct chunk is worked out once."""

    def __init__(self, plan: StepPlan, machine: Machine, times: StepTimes) -> None:
        self.plan, self.machine, self.times = plan, machine, times
        self._tables = StepTables(plan, machine, times.program, times.blocks)
        self._ops: dict[tuple[str, int], tuple[tuple[BlockOp, ...], PricedOps]] = {}
        self._known: dict[tuple[bool, int, int, int], tuple[Inner, ...]] = {}

    def inside(self, span: Span) -> tuple[Inner, ...]:
        """Blocks, each followed by its operations; transfers of a chunk's shards; nothing for what is no chunk.

        Nothing either for a chunk that shares the GPU with another, so that its span is not as long as its solution.
        Blocks of input gradients alone have no operations: their time is what the weight gradients leave of the whole.
        """
        if span.part < 0 or span.stream in ("messages", "beside"):
            return ()
        start, position = span.start_s, self._position(span.micro_batch)
        for kind in _KINDS.get(span.kind, ()):
            parts = self._opened(span.stream == "compute", kind, span.part, position)
            ends = (one.end_s for one in parts if span.stream == "compute" or one.stream == span.stream)
            if abs(max(ends, default=0.0) - span.duration_s) <= _ROUNDING * span.end_s:
                moved = (replace(one, start_s=start + one.start_s, end_s=start + one.end_s) for one in parts)
                return tuple(one for one in moved if span.stream == "compute" or one.stream == span.stream)
        return ()

    def _opened(self, compute: bool, kind: int, part: int, position: int) -> tuple[Inner, ...]:
        """The inside of a chunk that starts at zero, or the transfers of its shards; nothing if it is never run."""
        key = (compute, kind, part, position)
        if key not in self._known:
            solved = (kind, *self._names(kind, part, position)[::2]) in self.times.chunks
            opener = self._chunk if compute else self._shards
            self._known[key] = tuple(opener(kind, part, position)) if solved else ()
        return self._known[key]

    def _position(self, micro: int) -> int:
        return POSITIONS - 1 if micro == self.plan.micro_batches - 1 else min(micro, 1)

    def _names(self, kind: int, part: int, position: int) -> tuple[tuple[str, ...], list[str], ChunkShape]:
        """Blocks of a chunk, their titles, and its structure."""
        pp, backward = self.plan.mesh.pp, kind != FORWARD
        contents = self.plan.contents[part % pp][part // pp]
        names = block_names(self.plan, contents, backward)
        return names, _titles(names, contents.first, backward), chunk_shape(self.plan, len(names), backward, position)

    def _chunk(self, kind: int, part: int, position: int) -> Iterator[Inner]:
        """The inside of a chunk that starts at zero."""
        names, titles, shape = self._names(kind, part, position)
        solved, issued = self.times.chunks[kind, names, shape], 0.0
        for index, (name, title) in enumerate(zip(names, titles)):
            entry = float(solved.starts[index, 0]) if shape.gathers else _entry(solved, index)
            yield Inner("compute", title, None, False, entry, float(solved.ends[index, 0]))
            yield from self._block(name, kind, entry, issued)
            issued += float(self.times.blocks[kind, name].host[0])

    def _shards(self, kind: int, part: int, position: int) -> Iterator[Inner]:
        """Transfers of the shards of a chunk that starts at zero with free wires."""
        names, titles, shape = self._names(kind, part, position)
        blocks = [self.times.blocks[kind, name] for name in names]
        device, hosted, host = (
            np.array([getattr(one, name)[0] for one in blocks]) for name in ("device", "hosted", "host")
        )
        traffic, program = self._tables.traffic(names, shape), chunk_program(shape)
        durations = np.concatenate([device, traffic.gather, traffic.scatter, traffic.replica, [0.0]])
        lags = np.cumsum(host) - host + hosted - device
        ends = solve(program.graph, durations[:, None], lags[:, None])[:, 0]
        wires: tuple[tuple[Stream, tuple[int, ...]], ...] = (
            ("data_parallel", program.shards),
            ("replicas", program.replicas),
        )
        for stream, tasks in wires:
            for task in tasks:
                row = int(program.graph.duration[task])
                name = f"{_SHARDS[row // len(names) - 1]} {titles[row % len(names)]}"
                yield Inner(stream, name, None, False, float(ends[task] - durations[row]), float(ends[task]))

    def _block(self, name: str, kind: int, entry: float, issued: float) -> Iterator[Inner]:
        """Operations of a block that is entered, and whose host begins, at given times."""
        if kind == INPUT:
            return
        if (name, kind) not in self._ops:
            weights = kind == WEIGHT
            ops = weight_gradient_ops(self.plan, name) if weights else block_ops(self.plan, name, kind == BACKWARD)
            self._ops[name, kind] = ops, price(ops, self.machine)
        ops, priced = self._ops[name, kind]
        if not ops:
            return
        ready = np.maximum(entry, issued + np.cumsum(priced.host_s))
        ends = solve(block_graph(ops), priced.seconds[:, None], ready[:, None])[:, 0]
        for op, end, length in zip(ops, ends.tolist(), priced.seconds.tolist()):
            if length > 0:
                stream: Stream = "exchange" if op.stream == EXCHANGE else "compute"
                yield Inner(stream, op.operator.name, op.operator, op.recompute, end - length, end)


def _entry(solved: ChunkTimes, index: int) -> float:
    return float(solved.ends[index - 1, 0]) if index else 0.0


def _titles(names: tuple[str, ...], first: int, backward: bool) -> list[str]:
    """Names of blocks, layers with their number in the model."""
    titles, layer = [], first
    for name in reversed(names) if backward else names:
        titles.append(f"{name} {layer}" if name in LAYER_BLOCKS else name)
        layer += name in LAYER_BLOCKS
    return titles[::-1] if backward else titles
