"""Where a step's time goes: successive idealisation from the whole model down to peak arithmetic.

Each entry is the time that a step loses to one cause once the causes above it are gone; entries are never negative and
sum to the step time exactly. The order is fixed (outermost cause first), so a cost that hides behind an earlier one
shows up only when that one is gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CAUSES = (
    "offload",
    "data_parallel",
    "expert_context_parallel",
    "pipeline_messages",
    "pipeline_imbalance",
    "pipeline_bubble",
    "tensor_parallel",
    "recompute",
    "memory_bound",
    "kernel_inefficiency",
    "ideal",
)

MEANING = {
    "ideal": "model FLOPs at the GPU's peak rate",
    "kernel_inefficiency": "GEMM and attention kernels below peak",
    "memory_bound": "norms, activations, softmax, loss, optimizer, kernel launches",
    "recompute": "activations computed again",
    "tensor_parallel": "exposed exchanges of tensor parallelism",
    "pipeline_bubble": "stages that wait for the pipeline to fill and drain",
    "pipeline_imbalance": "stages that wait for a longer one",
    "pipeline_messages": "exposed messages between stages",
    "expert_context_parallel": "exposed exchanges of experts and of context",
    "offload": "exposed copies to and from the host, updates of the states there",
    "data_parallel": "exposed gradient reduction, parameter gathers, gradient norm",
}


@dataclass(frozen=True, slots=True)
class Waterfall:
    """Seconds by cause, in the order of CAUSES; they sum to the step time."""

    seconds: tuple[float, ...]

    @property
    def total_s(self) -> float:
        """Step time."""
        return self.seconds[0] + float(np.sum(self.seconds[1:]))

    def items(self) -> list[tuple[str, float]]:
        """(cause, seconds), ideal time first; offload only of a step that has it."""
        causes = list(zip(CAUSES, self.seconds))[::-1]
        return causes if self.seconds[0] else causes[:-1]


def waterfall(step_s: Floats, stage_compute_s: Floats, optimizer_s: Floats, ideal_s: float) -> Waterfall:
    """Splits a step.

    Parameters: `step_s` (6,) step time as simulated, then without what moves to and from the host, without
    data-parallel traffic, without expert and context exchanges, without messages, with equal stages; `stage_compute_s`
    (stages, 4) time in chunks without expert and context exchanges, then without tp exchanges, without recompute,
    without memory-bound kernels and launches; `optimizer_s` (stages,); `ideal_s` model FLOPs over peak.

    >>> w = waterfall(np.array([39.6, 39.6, 39.6, 39.6, 39.0, 33.0]), np.full((4, 4), 24.0), np.zeros(4), 12.0)
    >>> [round(x, 9) for x in w.seconds]
    [0.0, 0.0, 0.0, 0.6, 6.0, 9.0, 0.0, 0.0, 0.0, 12.0, 12.0]
    """
    busy = stage_compute_s.mean(axis=0)
    levels = [*step_s, busy[0] + optimizer_s.mean(), busy[1] + optimizer_s.mean(), busy[2] + optimizer_s.mean()]
    levels += [busy[3], ideal_s]
    # An idealisation that does not shorten the step (equal stages may not) hands its share to the next cause.
    falling = np.minimum.accumulate(np.asarray(levels))
    falling[-1] = min(ideal_s, falling[-1])
    losses = falling[:-1] - falling[1:]
    return Waterfall((*losses.tolist(), float(falling[-1])))
