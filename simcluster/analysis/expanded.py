"""What is inside a chunk: its blocks, and kernels and exchanges of each, at the times that the solved chunk implies.

A block enters as the one before it ends (with sharded parameters: so that it ends when the chunk's solution says);
an operation starts when its block has entered, the host has issued it, and what it waits for has ended.
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
from simcluster.program.block import EXCHANGE, BlockOp, block_graph
from simcluster.program.plan import LAYER_BLOCKS, StepPlan, block_names, block_ops, chunk_shape
from simcluster.program.pricing import Machine, PricedOps, price
from simcluster.program.step import POSITIONS
from simcluster.shapes import Operator

Stream: TypeAlias = Literal["compute", "exchange"]
Floats = NDArray[np.float64]
_KINDS = {"forward": 0, "backward": 1}
_ROUNDING = 1e-9  # share of the time at which a span ends by which its chunk may be longer or shorter


@dataclass(frozen=True, slots=True)
class Inner:
    """A block of a chunk, or an operation of a block.

    stream      exchange: of tensor, context and expert parallelism
    operator    what the operation does; None for a block, which holds the operations behind it
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
    """Opens compute spans of `timeline(plan, machine, times)`; each distinct chunk is worked out once."""

    def __init__(self, plan: StepPlan, machine: Machine, times: StepTimes) -> None:
        self.plan, self.machine, self.times = plan, machine, times
        self._ops: dict[tuple[str, bool], tuple[tuple[BlockOp, ...], PricedOps]] = {}
        self._known: dict[tuple[str, int, int], tuple[Inner, ...]] = {}

    def inside(self, span: Span) -> tuple[Inner, ...]:
        """Blocks, each followed by its operations; nothing for what is no forward or whole backward of a chunk.

        Nothing either for a chunk that shares the GPU with another, so that its span is not as long as its solution.
        """
        if span.stream != "compute" or span.kind not in _KINDS or span.part < 0:
            return ()
        key = (span.kind, span.part, self._position(span.micro_batch))
        if key not in self._known:
            self._known[key] = tuple(self._chunk(*key))
        start, parts = span.start_s, self._known[key]
        whole = max((one.end_s for one in parts), default=0.0)
        if abs(whole - span.duration_s) > _ROUNDING * span.end_s:
            return ()
        return tuple(replace(one, start_s=start + one.start_s, end_s=start + one.end_s) for one in parts)

    def _position(self, micro: int) -> int:
        return POSITIONS - 1 if micro == self.plan.micro_batches - 1 else min(micro, 1)

    def _chunk(self, kind: str, part: int, position: int) -> Iterator[Inner]:
        """The inside of a chunk that starts at zero."""
        pp, backward = self.plan.mesh.pp, kind == "backward"
        contents = self.plan.contents[part % pp][part // pp]
        names = block_names(self.plan, contents, backward)
        shape = chunk_shape(self.plan, len(names), backward, position)
        solved = self.times.chunks[backward, names, shape]
        titles, issued = _titles(names, contents.first, backward), 0.0
        for index, (name, title) in enumerate(zip(names, titles)):
            entry = float(solved.starts[index, 0]) if shape.gathers else _entry(solved, index)
            yield Inner("compute", title, None, False, entry, float(solved.ends[index, 0]))
            yield from self._block(name, backward, entry, issued)
            issued += float(self.times.blocks[backward, name].host[0])

    def _block(self, name: str, backward: bool, entry: float, issued: float) -> Iterator[Inner]:
        """Operations of a block that is entered, and whose host begins, at given times."""
        if (name, backward) not in self._ops:
            ops = block_ops(self.plan, name, backward)
            self._ops[name, backward] = ops, price(ops, self.machine)
        ops, priced = self._ops[name, backward]
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
