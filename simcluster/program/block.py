"""A block: the kernels and exchanges of one layer (or embedding, or head) in one pass, and what waits for what.

Two streams run it: compute, and the tensor-parallel exchange. An exchange waits for the kernel that made its input;
a kernel waits for the exchange that brings its input. Overlap is nothing but a missing edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder, TaskGraph
from simcluster.shapes import Gemm, Num, Operator, Transfer
from simcluster.workload.operators import Element, Kernel

COMPUTE, EXCHANGE = 0, 1


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """How tensor-parallel exchanges are done.

    bytes            the whole activation of a micro-batch (the gathered size)
    sequence_parallel  gather and scatter around the linears instead of an all-reduce
    bulk_overlap     in backward, exchanges of a column linear run beside its weight gradient
    chunks           > 1: exchange and GEMM are cut into that many pieces that overlap piece by piece
    """

    tp: int
    bytes: Num
    sequence_parallel: bool
    bulk_overlap: bool = True
    chunks: int = 1


@dataclass(frozen=True, slots=True)
class BlockOp:
    """One operation of a block: what it does, on which stream, after which others, and why it is there.

    share      part of the operator's time that this op takes (an exchange in q chunks: 1/q each)
    recompute  runs only because activations were not kept
    """

    operator: Operator
    stream: int
    after: tuple[int, ...]
    share: float = 1.0
    recompute: bool = False


class _Weaver:
    """Strings operations together; `ready` is what the next operation on the data path waits for."""

    def __init__(self, exchange: ExchangePlan) -> None:
        self.exchange = exchange
        self.ops: list[BlockOp] = []
        self.ready: tuple[int, ...] = ()

    def _add(self, operator: Operator, stream: int, after: tuple[int, ...], share: float, recompute: bool) -> int:
        self.ops.append(BlockOp(operator, stream, after, share, recompute))
        return len(self.ops) - 1

    def kernels(self, kernels: Sequence[Kernel], recompute: bool = False) -> None:
        for kernel in kernels:
            self.ready = (self._add(kernel, COMPUTE, self.ready, 1.0, recompute),)

    def transfer(self, name: str, gather: bool, recompute: bool, after: tuple[int, ...] | None = None) -> int:
        return self._add(self._transfer(name, gather), EXCHANGE, self.ready if after is None else after, 1.0, recompute)

    def _transfer(self, name: str, gather: bool) -> Transfer:
        if not self.exchange.sequence_parallel:
            return Transfer(name, "all_reduce", self.exchange.bytes, "tp")
        return Transfer(name, "all_gather" if gather else "reduce_scatter", self.exchange.bytes, "tp")

    def gather_then(self, name: str, kernels: Sequence[Kernel], recompute: bool) -> None:
        """An all-gather whose result the first kernel reads; by pieces if the exchange is chunked."""
        pieces = self.exchange.chunks
        first = kernels[0]
        if pieces == 1 or not isinstance(first, Gemm):
            self.ready = (self.transfer(name, gather=True, recompute=recompute),)
            self.kernels(kernels, recompute)
            return
        piece = replace(first, m=first.m / pieces)
        entry, move = self.ready, self._transfer(name, gather=True)
        arrived: tuple[int, ...] = entry
        done: list[int] = []
        for index in range(pieces):  # the first piece is the rank's own and is there at once
            if index:
                arrived = (self._add(move, EXCHANGE, entry, 1.0 / (pieces - 1), recompute),)
            done.append(self._add(piece, COMPUTE, arrived, 1.0, recompute))
        self.ready = (done[-1],)
        self.kernels(kernels[1:], recompute)

    def then_reduce(self, name: str, kernels: Sequence[Kernel], recompute: bool) -> tuple[int, ...]:
        """Kernels whose last result is reduced over the group, by pieces if the exchange is chunked.

        What follows waits for the reduction; returns the last kernel, for work that need not wait.
        """
        pieces = self.exchange.chunks
        last = kernels[-1]
        if pieces == 1 or not isinstance(last, Gemm):
            self.kernels(kernels, recompute)
            computed = self.ready
            self.ready = (self.transfer(name, gather=False, recompute=recompute),)
            return computed
        self.kernels(kernels[:-1], recompute)
        piece, move = replace(last, m=last.m / pieces), self._transfer(name, gather=False)
        computed = self.ready
        for _ in range(pieces):
            computed = (self._add(piece, COMPUTE, computed, 1.0, recompute),)
            self.ready = (self._add(move, EXCHANGE, computed, 1.0 / pieces, recompute),)
        return computed


def _forward(weaver: _Weaver, elements: Sequence[Element], recompute: bool) -> None:
    plan = weaver.exchange
    for element in elements:
        if plan.tp == 1 or element.exchange == "none" or not element.forward:
            weaver.kernels(element.forward, recompute)
        elif element.exchange == "row":
            weaver.then_reduce(f"{element.name}_reduce", element.forward, recompute)
        elif plan.sequence_parallel:
            weaver.gather_then(f"{element.name}_gather", element.forward, recompute)
        else:
            weaver.kernels(element.forward, recompute)


def _backward_column(weaver: _Weaver, element: Element) -> None:
    """Input gradient, its reduction, and the weight gradient, which needs the gathered input again."""
    plan, entry = weaver.exchange, weaver.ready
    again: tuple[int, ...] = ()
    if plan.sequence_parallel and element.wgrad:
        again = (weaver.transfer(f"{element.name}_regather", gather=True, recompute=False, after=entry),)
        weaver.ready = entry if plan.bulk_overlap else again
    computed = weaver.then_reduce(f"{element.name}_grad_reduce", element.dgrad, recompute=False)
    reduced = weaver.ready
    weaver.ready = (*again, *(computed if plan.bulk_overlap else reduced))
    weaver.kernels(element.wgrad)
    weaver.ready = tuple(dict.fromkeys((*weaver.ready, *reduced)))


def _backward(weaver: _Weaver, elements: Sequence[Element], dropped: frozenset[str]) -> None:
    plan = weaver.exchange
    for element in reversed(elements):
        if element.part in dropped:  # its forward was not kept: run it again before its backward
            weaver.kernels(element.forward, recompute=True)
        if plan.tp == 1 or element.exchange == "none":
            weaver.kernels((*element.dgrad, *element.wgrad))
        elif element.exchange == "column":
            _backward_column(weaver, element)
        elif plan.sequence_parallel and (element.dgrad or element.wgrad):
            kernels = (*element.dgrad, *element.wgrad)
            weaver.gather_then(f"{element.name}_grad_gather", kernels, recompute=False)
        else:
            weaver.kernels((*element.dgrad, *element.wgrad))


def forward_block(elements: Sequence[Element], exchange: ExchangePlan) -> tuple[BlockOp, ...]:
    """Operations of a block's forward pass in issue order."""
    weaver = _Weaver(exchange)
    _forward(weaver, elements, recompute=False)
    return tuple(weaver.ops)


def backward_block(
    elements: Sequence[Element], exchange: ExchangePlan, dropped: frozenset[str] = frozenset(), again: bool = False
) -> tuple[BlockOp, ...]:
    """Operations of a block's backward pass in issue order.

    `dropped` names the parts whose activations were not kept (selective recompute); `again` runs the whole forward
    first (full recompute), exchanges included.
    """
    weaver = _Weaver(exchange)
    if again:
        _forward(weaver, elements, recompute=True)
    _backward(weaver, elements, frozenset() if again else dropped)
    return tuple(weaver.ops)


@lru_cache(maxsize=512)
def _graph(structure: tuple[tuple[int, tuple[int, ...]], ...]) -> TaskGraph:
    builder, last = GraphBuilder(), [SOURCE, SOURCE]
    for row, (stream, after) in enumerate(structure):
        waits = dict.fromkeys((*after, *([last[stream]] if last[stream] != SOURCE else [])))
        builder.add(row, stream, [(SOURCE, row), *((task, NO_LAG) for task in waits)])
        last[stream] = row
    return builder.finish()


def block_graph(ops: Sequence[BlockOp]) -> TaskGraph:
    """The block's task graph: row i of the duration table is op i, row i of the lag table when the host has issued it.

    Operations of one stream run in issue order.
    """
    return _graph(tuple((op.stream, op.after) for op in ops))
