"""Times of the blocks of many layouts at once: their kernels and exchanges priced as arrays, then solved as columns.

What the engine does for one layout, with the same operators and the same prices, for the actual column alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simcluster.engine.maxplus import solve
from simcluster.parallel.mesh import group_shape
from simcluster.planner.job import Job
from simcluster.planner.space import Points
from simcluster.program.block import BlockOp, block_graph
from simcluster.program.plan import BLOCK_OF, LAYER_BLOCKS, StepPlan, block_ops
from simcluster.program.pricing import Machine
from simcluster.resolve.expert_parallel import expert_groups
from simcluster.resolve.layout import executed_architecture
from simcluster.resolve.plan import recompute_plan, step_plan
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario.training import Parallelism
from simcluster.shapes import FlashAttention, Gemm, GroupShape, Num, Streaming, Transfer
from simcluster.timing.attention import attention_time
from simcluster.timing.gemm import gemm_time
from simcluster.timing.streaming import streaming_time
from simcluster.workload.elements import Batch
from simcluster.workload.layers import layer_kinds

Floats = NDArray[np.float64]
Key = tuple[bool, str, "Cut", int]  # backward, block, cut, recompute mode
_WITH_EXPERTS = ("experts", "experts-window", "mtp")


@dataclass(frozen=True, slots=True)
class Cut:
    """What a block depends on but the micro-batch and what runs again."""

    tp: int
    cp: int
    ep: int
    etp: int
    sequence_parallel: bool


@dataclass(frozen=True, slots=True)
class Seconds:
    """Times of a block by micro-batch; see `engine.block.BlockTimes`."""

    device: Floats
    hosted: Floats
    host: Floats


_Same = tuple[Key, Floats, Floats, tuple[BlockOp, ...]]  # with device times and host issue of each operation


@dataclass(frozen=True, slots=True)
class _Task:
    """A block to be solved: its operations, with sizes as arrays over micro-batches."""

    ops: tuple[BlockOp, ...]
    groups: Mapping[str, GroupShape]


def cut_plan(job: Job, cut: Cut, micro_batches: NDArray[np.int64]) -> StepPlan:
    """The plan of a layout without a pipeline, with arrays over micro-batch sizes."""
    trail = Trail()
    arch = executed_architecture(job.arch, cut.tp, trail)
    dp = job.world // (cut.tp * cut.cp)
    layout = Layout(
        tp=cut.tp, pp=1, dp=dp, cp=cut.cp, virtual_stages=1, schedule="1f1b", group=None,
        sequence_parallel=cut.sequence_parallel, micro_batch=1, micro_batches=1, sequences=dp,
        sequence_length=job.sequence, recompute="none", strategy="none", shards=1,
        precision=job.training.precision, ep=cut.ep, etp=cut.etp,
        expert_imbalance=(job.training.expert_imbalance or 1.0) if cut.ep > 1 else 1.0,
    )  # fmt: skip
    family = job.context_family if cut.cp > 1 and job.context_family else job.family
    plan = step_plan(arch, job.cluster, family, layout, Parallelism())
    sizes = micro_batches.astype(float)
    exchange = replace(plan.exchange, bytes=plan.exchange.bytes * sizes)
    return replace(plan, batch=Batch(sizes, job.sequence, cut.cp), exchange=exchange)


class BlockTable:
    """Block times of all layouts; `times(pass, block, recompute)` as an array over the layouts."""

    def __init__(self, job: Job, machine: Machine, points: Points, recompute: NDArray[np.int64]) -> None:
        self.job, self.machine = job, machine
        self.sizes = np.unique(points.micro_batch)
        self.column = np.searchsorted(self.sizes, points.micro_batch)
        axes = (points.tp, points.cp, points.ep, points.etp, points.sequence_parallel)
        cuts = [Cut(tp, cp, ep, etp, split > 0) for tp, cp, ep, etp, split in zip(*(axis.tolist() for axis in axes))]
        self.cuts = list(dict.fromkeys(cuts))
        number = {cut: index for index, cut in enumerate(self.cuts)}
        self.cut = np.array([number[cut] for cut in cuts], dtype=np.int64)
        self.mode = recompute
        self.plans: dict[Cut, StepPlan] = {}
        self._tasks: dict[Key, _Task] = {}
        self._keys: dict[Key, Key] = {}
        self._build()
        self._solved = _solve_all(self._tasks, self.machine, len(self.sizes))

    def times(self, backward: bool, block: str) -> Seconds:
        """Times of a block in every layout."""
        result = np.zeros((3, len(self.cut)))
        modes = self.mode if backward else np.zeros_like(self.mode)
        for mode in np.unique(modes).tolist():
            for index, cut in enumerate(self.cuts):
                rows = np.flatnonzero((self.cut == index) & (modes == mode))
                if rows.size:
                    solved = self._solved[self._keys[backward, block, cut, mode]]
                    result[:, rows] = solved[:, self.column[rows]]
        return Seconds(*result)

    def _build(self) -> None:
        """Operations of every block, pass and mode; blocks that differ in nothing are built once."""
        for index, cut in enumerate(self.cuts):
            plan, groups = cut_plan(self.job, cut, self.sizes), self._groups(cut)
            self.plans[cut] = plan
            for block in self.blocks():
                self._put(False, block, cut, 0, plan, groups)
                for mode in np.unique(self.mode[self.cut == index]).tolist():
                    self._put(True, block, cut, mode, plan, groups)

    def _put(
        self, backward: bool, block: str, cut: Cut, mode: int, plan: StepPlan, groups: Mapping[str, GroupShape]
    ) -> None:
        """Only blocks with experts depend on where these are, only backwards of layers on what runs again."""
        layer = block in LAYER_BLOCKS or block == "mtp"
        same = cut if block in _WITH_EXPERTS else replace(cut, ep=1, etp=1)
        key = (backward, block, same, mode if backward and layer else 0)
        self._keys[backward, block, cut, mode] = key
        if key not in self._tasks:
            again = recompute_plan(self.job.recomputes[key[3]], plan.arch, self.job.family)
            self._tasks[key] = _Task(block_ops(replace(plan, recompute=again), block, backward), groups)

    def blocks(self) -> list[str]:
        """Names of the model's blocks."""
        arch = self.job.arch
        layers = [BLOCK_OF[kind] for kind in dict.fromkeys(layer_kinds(arch))]
        return ["embedding", *layers, "head", *(["mtp"] if arch.mtp_depth else [])]

    def _groups(self, cut: Cut) -> dict[str, GroupShape]:
        world, domain, node = self.job.world, self.job.cluster.node.scale_up_domain, self.job.node_gpus
        return {
            "tp": group_shape(cut.tp, 1, world, domain, node),
            "cp": group_shape(cut.cp, cut.tp, world, domain, node),
            **expert_groups(cut.ep, cut.etp, world, domain, node),
        }


def _solve_all(tasks: Mapping[Key, _Task], machine: Machine, columns: int) -> dict[Key, Floats]:
    """(3, micro-batches) device, hosted and host seconds of each task."""
    every = [op for task in tasks.values() for op in task.ops]
    groups = [task.groups for task in tasks.values() for _ in task.ops]
    seconds = _priced(every, groups, machine, columns)
    start = 0
    alike: dict[Any, list[_Same]] = {}
    for key, task in tasks.items():
        own = seconds[start : start + len(task.ops)]
        start += len(task.ops)
        host = np.array([float(getattr(op.operator, "kernels", 1)) for op in task.ops]) * machine.host_issue_s
        structure = tuple((op.stream, op.after) for op in task.ops)
        alike.setdefault(structure, []).append((key, own, np.cumsum(host), task.ops))
    found: dict[Key, Floats] = {}
    for several in alike.values():
        found |= _solved(several, columns)
    return found


def _solved(several: Sequence[_Same], columns: int) -> dict[Key, Floats]:
    """Blocks of one structure, as columns of one solution."""
    ops = several[0][3]
    if not ops:
        return {key: np.zeros((3, columns)) for key, *_ in several}
    device = np.hstack([own for _, own, _, _ in several])
    issued = np.hstack([np.repeat(host[:, None], columns, axis=1) for _, _, host, _ in several])
    lags = np.hstack([np.zeros_like(issued), issued])
    ends = solve(block_graph(ops), np.tile(device, 2), lags).max(axis=0).reshape(2, len(several), columns)
    return {
        key: np.stack([ends[0, index], ends[1, index], np.full(columns, host[-1])])
        for index, (key, _, host, _) in enumerate(several)
    }


def _priced(
    ops: Sequence[BlockOp], groups: Sequence[Mapping[str, GroupShape]], machine: Machine, columns: int
) -> Floats:
    """Seconds of each operation: (ops, micro-batches); similar ones in one call."""
    batches: dict[Any, list[int]] = {}
    for index, op in enumerate(ops):
        batches.setdefault(_alike(op.operator, groups[index]), []).append(index)
    share: Floats = np.array([op.share for op in ops])
    seconds: Floats = np.zeros((len(ops), columns))
    for key, rows in batches.items():
        operators = [ops[row].operator for row in rows]
        seconds[rows] = _PRICERS[type(operators[0])](machine, operators, columns, key)
    return np.asarray(seconds * share[:, None])


def _alike(operator: Any, groups: Mapping[str, GroupShape]) -> tuple[Any, ...]:
    if isinstance(operator, Gemm):
        return (Gemm, operator.dtype, operator.accumulate, operator.layout)
    if isinstance(operator, Transfer):
        return (Transfer, operator.kind, groups[operator.group])
    if isinstance(operator, FlashAttention):
        same = (operator.causal, operator.head_dim, operator.direction, operator.kernel, operator.dtype)
        return (FlashAttention, *same)
    return (Streaming,)


def _sizes(operators: Sequence[Any], names: Iterable[str], columns: int) -> list[Floats]:
    """Sizes of operators by name: (operators, micro-batches)."""
    return [
        np.stack([np.broadcast_to(np.asarray(getattr(one, name), dtype=float), columns) for one in operators])
        for name in names
    ]


def _gemms(machine: Machine, ops: Sequence[Gemm], columns: int, _key: Any) -> Floats:
    first = ops[0]

    def time(m: Floats, n: Floats, k: Floats, batch: Floats) -> Num:
        how = {"dtype": first.dtype, "accumulate": first.accumulate, "layout": first.layout}
        return gemm_time(machine.kernels, m, n, k, batch=batch, **how).seconds  # type: ignore[arg-type]

    return _distinct(time, *_sizes(ops, ("m", "n", "k", "batch"), columns)) / machine.gemm_rate


def _distinct(time: Callable[..., Num], *sizes: Floats) -> Floats:
    """Each distinct shape is priced once."""
    table = np.stack([size.ravel() for size in sizes], axis=1)
    shapes, where = np.unique(table, axis=0, return_inverse=True)
    return np.asarray(time(*shapes.T), dtype=float)[where.ravel()].reshape(sizes[0].shape)


def _attentions(machine: Machine, ops: Sequence[FlashAttention], columns: int, _key: Any) -> Floats:
    op = ops[0]

    def time(batch: Floats, heads: Floats, kv_heads: Floats, seq_q: Floats, seq_k: Floats) -> Num:
        sizes = (batch, heads, kv_heads, seq_q, seq_k, op.head_dim)
        return attention_time(machine.kernels, *sizes, op.causal, op.direction, op.kernel, op.dtype).seconds

    return _distinct(time, *_sizes(ops, ("batch", "heads", "kv_heads", "seq_q", "seq_k"), columns))


def _streams(machine: Machine, ops: Sequence[Streaming], columns: int, _key: Any) -> Floats:
    size, kernels = _sizes(ops, ("bytes", "kernels"), columns)
    return np.asarray(streaming_time(machine.kernels, size, kernels).seconds)


def _transfers(machine: Machine, ops: Sequence[Transfer], columns: int, key: Any) -> Floats:
    (size,) = _sizes(ops, ("bytes",), columns)
    return np.asarray(machine.transfer(ops[0].kind, size, key[2]).seconds)


_PRICERS: Mapping[type, Any] = {
    Gemm: _gemms,
    FlashAttention: _attentions,
    Streaming: _streams,
    Transfer: _transfers,
}
