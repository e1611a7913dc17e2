"""A block: the kernels and exchanges of one layer (or embedding, or head) in one pass, and what waits for what.

Two streams run it: compute, and the exchanges of tensor, context and expert parallelism. An exchange waits for the
kernel that made its input; a kernel waits for the exchange that brings its input. Overlap is but a missing edge.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial

import numpy as np

from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder, TaskGraph
from simcluster.shapes import Gemm, Num, Operator, Transfer
from simcluster.workload.elements import Element, Kernel

COMPUTE, EXCHANGE = 0, 1
_SHARED = "shared_"  # elements of experts that see every token


@dataclass(frozen=True, slots=True)
class ExchangePlan:
    """How exchanges inside a layer are done.

    tp, cp, ep, etp  degrees; an axis of 1 exchanges nothing
    bytes            the whole activation of a micro-batch (the gathered size), `hidden` values a token
    sequence_parallel  gather and scatter around the linears instead of an all-reduce
    bulk_overlap     in backward, exchanges of a column linear run beside its weight gradient
    chunks           > 1: tp exchange and GEMM are cut into that many pieces that overlap piece by piece
    context          "p2p" (ring), "all-gather" or "all-to-all"
    expert_copies    bytes that cross between ranks over those of one copy for each chosen expert (deduplication)
    shared_beside    shared experts run while tokens travel to the others and back, instead of behind them
    """

    tp: int
    bytes: Num
    sequence_parallel: bool
    bulk_overlap: bool = True
    chunks: int = 1
    hidden: int = 0
    cp: int = 1
    context: str = "p2p"
    ep: int = 1
    etp: int = 1
    expert_copies: float = 1.0
    shared_beside: bool = False


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

    def kernels(self, kernels: Sequence[Kernel], recompute: bool = False, share: float = 1.0) -> None:
        for kernel in kernels:
            self.ready = (self._add(kernel, COMPUTE, self.ready, share, recompute),)

    def move(self, transfer: Transfer, recompute: bool, after: tuple[int, ...] | None = None) -> int:
        """A transfer that waits for `after` (default: what is ready); what follows does not wait for it yet."""
        return self._add(transfer, EXCHANGE, self.ready if after is None else after, 1.0, recompute)

    def blocking(self, transfer: Transfer, recompute: bool) -> None:
        """A transfer that all that follows waits for."""
        self.ready = (self.move(transfer, recompute),)

    def tensor(self, element: Element, suffix: str, gather: bool) -> Transfer:
        """The tp exchange at the edge of an element."""
        share = element.width / self.exchange.hidden if self.exchange.hidden and np.all(element.width) else 1.0
        size = self.exchange.bytes * share
        name = f"{element.name}_{suffix}"
        if not self.exchange.sequence_parallel:
            return Transfer(name, "all_reduce", size, "tp")
        return Transfer(name, "all_gather" if gather else "reduce_scatter", size, "tp")

    def gather_then(self, move: Transfer, kernels: Sequence[Kernel], recompute: bool) -> None:
        """An all-gather whose result the first kernel reads; by pieces if the exchange is chunked."""
        pieces = self.exchange.chunks
        first = kernels[0]
        if pieces == 1 or not isinstance(first, Gemm):
            self.blocking(move, recompute)
            self.kernels(kernels, recompute)
            return
        piece = replace(first, m=first.m / pieces)
        entry = self.ready
        arrived: tuple[int, ...] = entry
        done: list[int] = []
        for index in range(pieces):  # the first piece is the rank's own and is there at once
            if index:
                arrived = (self._add(move, EXCHANGE, entry, 1.0 / (pieces - 1), recompute),)
            done.append(self._add(piece, COMPUTE, arrived, 1.0, recompute))
        self.ready = (done[-1],)
        self.kernels(kernels[1:], recompute)

    def then_reduce(self, move: Transfer, kernels: Sequence[Kernel], recompute: bool) -> tuple[int, ...]:
        """Kernels whose last result is reduced over the group, by pieces if the exchange is chunked.

        What follows waits for the reduction; returns the last kernel, for work that need not wait.
        """
        pieces = self.exchange.chunks
        last = kernels[-1]
        if pieces == 1 or not isinstance(last, Gemm):
            self.kernels(kernels, recompute)
            computed = self.ready
            self.blocking(move, recompute)
            return computed
        self.kernels(kernels[:-1], recompute)
        piece = replace(last, m=last.m / pieces)
        computed = self.ready
        for _ in range(pieces):
            computed = (self._add(piece, COMPUTE, computed, 1.0, recompute),)
            self.ready = (self._add(move, EXCHANGE, computed, 1.0 / pieces, recompute),)
        return computed

    def ring(self, element: Element, kernels: Sequence[Kernel], size: Num, recompute: bool) -> None:
        """Attention in cp steps: the next block of keys travels while this one is used."""
        entry = arrived = self.ready
        done: tuple[int, ...] = ()
        for step in range(self.exchange.cp):
            self.ready = tuple(dict.fromkeys((*arrived, *done)))
            self.kernels(kernels, recompute)
            done = self.ready
            if step + 1 < self.exchange.cp:
                hop = Transfer(f"{element.name}_ring", "sendrecv", size, "cp")
                arrived = (self.move(hop, recompute, after=entry),)
        self.ready = tuple(dict.fromkeys((*done, *arrived)))


def _context(weaver: _Weaver, element: Element, kernels: Sequence[Kernel], back: bool, recompute: bool) -> None:
    """Attention whose keys and values lie on other ranks."""
    size = element.bytes_back if back else element.bytes
    plan = weaver.exchange
    if plan.context == "p2p":
        weaver.ring(element, kernels, size, recompute)
        return
    if plan.context == "all-to-all":
        half = Transfer(f"{element.name}_heads", "alltoall", element.bytes / 2, "cp")
        weaver.blocking(half, recompute)
        weaver.kernels(kernels, recompute)
        weaver.blocking(replace(half, name=f"{element.name}_tokens"), recompute)
        return
    gathered = Transfer(f"{element.name}_gather_keys", "all_gather", element.bytes * plan.cp, "cp")
    weaver.blocking(gathered, recompute)
    weaver.kernels(kernels, recompute)
    if back:
        weaver.blocking(replace(gathered, name=f"{element.name}_scatter_keys", kind="reduce_scatter"), recompute)


def _experts(
    weaver: _Weaver,
    element: Element,
    kernels: Sequence[Kernel],
    first: bool,
    recompute: bool,
    beside: _Beside | None = None,
) -> None:
    """Kernels of experts, tokens travelling before (`first`) or after them; over etp they are gathered or summed.

    What runs `beside` the exchange needs none of its tokens: before it the kernels' own, after it what follows waits
    for both.
    """
    plan = weaver.exchange
    size = element.bytes
    travel = Transfer(f"{element.name}_{element.exchange}", "alltoall", size * plan.expert_copies, "ep")
    spread = Transfer(f"{element.name}_etp", "all_gather" if first else "reduce_scatter", size * plan.etp, "etp")
    moves = [one for one, degree in ((travel, plan.ep), (spread, plan.etp)) if degree > 1]
    if first:
        _travel(weaver, moves, recompute, beside)
    weaver.kernels(kernels, recompute)
    if not first:
        _travel(weaver, moves[::-1], recompute, beside)


def _travel(weaver: _Weaver, moves: Sequence[Transfer], recompute: bool, beside: _Beside | None) -> None:
    """Transfers one after the other, and what runs beside them."""
    entry = weaver.ready
    for one in moves:
        weaver.blocking(one, recompute)
    if beside is not None:
        arrived = weaver.ready
        weaver.ready = tuple(dict.fromkeys((*entry, *beside.done)))
        beside.run()
        beside.done = weaver.ready
        weaver.ready = tuple(dict.fromkeys((*arrived, *beside.done))) if beside.last else arrived


@dataclass
class _Beside:
    """Work beside an exchange of tokens: `run` adds it; `done` is its last operation so far; no more after `last`."""

    run: Callable[[], None]
    done: tuple[int, ...] = ()
    last: bool = False


def _apart(plan: ExchangePlan, elements: Sequence[Element]) -> tuple[Sequence[Element], tuple[Element, ...]]:
    """Elements in the order of the data, and the shared experts that run beside the exchanges of the others."""
    if not (plan.shared_beside and plan.ep > 1 and any(one.exchange == "dispatch" for one in elements)):
        return elements, ()
    shared = tuple(one for one in elements if one.name.startswith(_SHARED))
    return tuple(one for one in elements if one not in shared), shared


def _halves(shared: Sequence[Element]) -> tuple[Sequence[Element], Sequence[Element]]:
    """What runs beside the first exchange, and beside the second: the last linear of shared experts apart."""
    return shared[:-1], shared[-1:]


def _forward(weaver: _Weaver, elements: Sequence[Element], recompute: bool) -> None:
    plan = weaver.exchange
    elements, shared = _apart(plan, elements)
    early, late = _halves(shared)
    beside = _Beside(lambda: _forward(weaver, early, recompute)) if shared else None
    for element in elements:
        if element.exchange == "context":
            _context(weaver, element, element.forward, back=False, recompute=recompute)
        elif element.exchange in ("dispatch", "combine"):
            if beside is not None and element.exchange == "combine":
                beside.run, beside.last = partial(_forward, weaver, late, recompute), True
            _experts(weaver, element, element.forward, element.exchange == "dispatch", recompute, beside)
        elif plan.tp == 1 or element.exchange == "none" or not element.forward:
            weaver.kernels(element.forward, recompute)
        elif element.exchange == "row":
            weaver.then_reduce(weaver.tensor(element, "reduce", gather=False), element.forward, recompute)
        elif plan.sequence_parallel:
            weaver.gather_then(weaver.tensor(element, "gather", gather=True), element.forward, recompute)
        else:
            weaver.kernels(element.forward, recompute)


def _backward_column(weaver: _Weaver, element: Element) -> None:
    """Input gradient, its reduction, and the weight gradient, which needs the gathered input again."""
    plan, entry = weaver.exchange, weaver.ready
    again: tuple[int, ...] = ()
    if plan.sequence_parallel and element.wgrad:
        again = (weaver.move(weaver.tensor(element, "regather", gather=True), recompute=False, after=entry),)
        weaver.ready = entry if plan.bulk_overlap else again
    reduce = weaver.tensor(element, "grad_reduce", gather=False)
    computed = weaver.then_reduce(reduce, element.dgrad, recompute=False)
    reduced = weaver.ready
    weaver.ready = (*again, *(computed if plan.bulk_overlap else reduced))
    weaver.kernels(element.wgrad)
    weaver.ready = tuple(dict.fromkeys((*weaver.ready, *reduced)))


def _backward_element(weaver: _Weaver, element: Element, beside: _Beside | None = None) -> None:
    plan = weaver.exchange
    kernels = (*element.dgrad, *element.wgrad)
    if element.exchange == "context":
        _context(weaver, element, element.dgrad, back=True, recompute=False)
    elif element.exchange in ("dispatch", "combine"):
        _experts(weaver, element, kernels, element.exchange == "combine", recompute=False, beside=beside)
    elif plan.tp == 1 or element.exchange == "none":
        weaver.kernels(kernels)
    elif element.exchange == "column":
        _backward_column(weaver, element)
    elif plan.sequence_parallel and kernels:
        weaver.gather_then(weaver.tensor(element, "grad_gather", gather=True), kernels, recompute=False)
    else:
        weaver.kernels(kernels)


def _backward(weaver: _Weaver, elements: Sequence[Element], dropped: Mapping[str, float]) -> None:
    elements, shared = _apart(weaver.exchange, elements)
    early, late = _halves(shared)  # of the forward: backward takes the last linear first
    beside = _Beside(lambda: _backward(weaver, late, dropped)) if shared else None
    for element in reversed(elements):
        share = dropped.get(element.part, dropped.get(element.name, 0.0))
        if share and element.exchange in ("dispatch", "combine"):  # what experts read has to travel again
            _experts(weaver, element, element.forward, element.exchange == "dispatch", recompute=True)
        elif share:  # its forward was not kept: run it again before its backward
            weaver.kernels(element.forward, recompute=True, share=share)
        if beside is not None and element.exchange == "dispatch":
            beside.run, beside.last = partial(_backward, weaver, early, dropped), True
        _backward_element(weaver, element, beside)


def forward_block(elements: Sequence[Element], exchange: ExchangePlan) -> tuple[BlockOp, ...]:
    """Operations of a block's forward pass in issue order."""
    weaver = _Weaver(exchange)
    _forward(weaver, elements, recompute=False)
    return tuple(weaver.ops)


def backward_block(
    elements: Sequence[Element],
    exchange: ExchangePlan,
    dropped: Mapping[str, float] | None = None,
    again: Sequence[Element] = (),
) -> tuple[BlockOp, ...]:
    """Operations of a block's backward pass in issue order.

    `dropped` names the parts (or elements) whose activations were not kept, with the share of their work that runs
    again (selective recompute); the forward of `again` runs first, exchanges included (full recompute).
    """
    weaver = _Weaver(exchange)
    if again:
        _forward(weaver, again, recompute=True)
    _backward(weaver, elements, {} if again else dropped or {})
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
