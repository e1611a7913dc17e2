"""Prices the operations of a block on one machine: device time, host time, evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.program.block import BlockOp
from simcluster.shapes import (
    CollectiveKind,
    Estimate,
    FlashAttention,
    Gemm,
    GroupShape,
    NetworkRates,
    Operator,
    Streaming,
    Transfer,
)
from simcluster.timing.attention import attention_time
from simcluster.timing.collective_profile import CollectiveProfile
from simcluster.timing.collectives import collective_time
from simcluster.timing.gemm import gemm_time
from simcluster.timing.profile import KernelProfile
from simcluster.timing.streaming import streaming_time

Floats = NDArray[np.float64]
CLASSES = ("gemm", "attention", "memory", "tensor", "expert_context")  # what a second of an op was spent on
GEMM, ATTENTION, MEMORY, TENSOR, EXPERT_CONTEXT = range(5)


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a block runs.

    gemm_rate       sustained over isolated rate of large GEMMs (power-limited clocks, real data), 0 to 1
    host_issue_s    host time to issue one kernel
    groups          shape of the group behind each mesh axis that transfers name
    """

    kernels: KernelProfile
    collectives: CollectiveProfile
    network: NetworkRates
    groups: Mapping[str, GroupShape]
    gemm_rate: float
    gemm_rate_sigma: float
    host_issue_s: float

    def transfer(self, kind: CollectiveKind, size: float | Floats, group: GroupShape) -> Estimate:
        """Time of a collective or message of `size` bytes over a group."""
        return collective_time(self.collectives, self.network, kind, size, group)


@dataclass(frozen=True, slots=True)
class PricedOps:
    """Times of a block's ops, arrays over ops.

    seconds     device time
    host_s      host time to issue
    grade       index into shapes.GRADES
    sigma       relative standard deviation
    kind        index into CLASSES
    """

    seconds: Floats
    host_s: Floats
    grade: NDArray[np.int64]
    sigma: Floats
    kind: NDArray[np.int64]


def _columns(rows: Sequence[tuple[float, ...]]) -> list[Floats]:
    return [np.asarray(column, dtype=float) for column in zip(*rows)]


def _gemms(machine: Machine, ops: Sequence[Gemm]) -> Estimate:
    m, n, k, batch = _columns([(float(op.m), float(op.n), float(op.k), float(op.batch)) for op in ops])
    first = ops[0]
    priced = gemm_time(
        machine.kernels, m, n, k, batch=batch, dtype=first.dtype, accumulate=first.accumulate, layout=first.layout
    )
    sigma = np.hypot(priced.sigma, machine.gemm_rate_sigma)
    return Estimate(priced.seconds / machine.gemm_rate, priced.grade, sigma, priced.bound)


def _attentions(machine: Machine, ops: Sequence[FlashAttention]) -> Estimate:
    op = ops[0]
    shape = (op.batch, op.heads, op.kv_heads, op.seq_q, op.seq_k, op.head_dim, op.causal)
    return attention_time(machine.kernels, *shape, op.direction, op.kernel, op.dtype)


def _streams(machine: Machine, ops: Sequence[Streaming]) -> Estimate:
    size, kernels = _columns([(float(op.bytes), float(op.kernels)) for op in ops])
    return streaming_time(machine.kernels, size, kernels)


def _transfers(machine: Machine, ops: Sequence[Transfer]) -> Estimate:
    op = ops[0]
    return machine.transfer(op.kind, np.asarray([float(o.bytes) for o in ops]), machine.groups[op.group])


_PRICERS: Mapping[type, tuple[int, Callable[..., Estimate]]] = {
    Gemm: (GEMM, _gemms),
    FlashAttention: (ATTENTION, _attentions),
    Streaming: (MEMORY, _streams),
    Transfer: (TENSOR, _transfers),
}


def _batch_key(operator: Operator) -> tuple[object, ...]:
    """Operators with the same key are priced in one call."""
    if isinstance(operator, Gemm):
        return (Gemm, operator.dtype, operator.accumulate, operator.layout)
    if isinstance(operator, FlashAttention):
        return (FlashAttention, operator)
    if isinstance(operator, Transfer):
        return (Transfer, operator.kind, operator.group)
    return (Streaming,)


def price(ops: Sequence[BlockOp], machine: Machine) -> PricedOps:
    """Prices all ops, similar operators in one vectorised call."""
    count = len(ops)
    seconds, sigma = np.zeros(count), np.zeros(count)
    grade, kind = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    batches: dict[tuple[object, ...], list[int]] = {}
    for index, op in enumerate(ops):
        batches.setdefault(_batch_key(op.operator), []).append(index)
    for indices in batches.values():
        first = ops[indices[0]].operator
        label, pricer = _PRICERS[type(first)]
        estimate = pricer(machine, [ops[i].operator for i in indices])
        seconds[indices], sigma[indices] = estimate.seconds, estimate.sigma
        if isinstance(first, Transfer) and first.group != "tp":
            label = EXPERT_CONTEXT
        grade[indices], kind[indices] = estimate.grade, label
    share = np.array([op.share for op in ops])
    kernels = np.array([float(getattr(op.operator, "kernels", 1)) for op in ops])
    return PricedOps(seconds * share, kernels * machine.host_issue_s, grade, sigma, kind)
