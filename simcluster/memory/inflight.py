"""Activation sets in flight: micro-batches whose forward has run on a stage and whose backward has not.

| schedule | peak on stage i of p, in units of the stage's layers |
|---|---|
| none, or one stage | 1 |
| gpipe | m |
| 1f1b | min(m, p - i) |
| 1f1b-overlapped | as interleaved with v chunks, one forward more: 2(p - i - 1) + (v - 1)p + 2 |
| interleaved, v chunks | min(m·v, 2(p - i - 1) + (v - 1)p + 1)/v |
| breadth-first | m |
| zb-h1 | min(m, p), when memory is freed by the weight gradient |
| zb-h2 | min(m, 2p - 1) |
| dualpipe | min(m, p + 1), of one direction's layers; a device holds the layers of both |

Sources: Huang et al. 2019 (GPipe), Narayanan et al. 2021 (1F1B, interleaved), Lamy-Poirier 2022 (breadth-first), Qi et
al. 2024 (zero bubble), DeepSeek-AI 2024 (DualPipe).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from simcluster.memory.arrays import plain, total
from simcluster.memory.names import look_up
from simcluster.shapes import Num

Peak: TypeAlias = Callable[[Num, Num, Num, int], "tuple[Num, ...]"]  # stage, pp, micro-batches, chunks


def _gpipe(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:  # noqa: ARG001
    return (np.where(np.equal(pp, 1), 1, micro_batches),) * chunks


def _none(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    return (np.minimum(micro_batches, 1) + 0 * np.asarray(stage) * pp,) * chunks


def _one_f_one_b(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    if chunks > 1:
        return _interleaved(stage, pp, micro_batches, chunks)
    return (np.minimum(micro_batches, np.subtract(pp, stage)),)


def _overlapped(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    return _interleaved(stage, pp, micro_batches, chunks, more=1)


def _interleaved(stage: Num, pp: Num, micro_batches: Num, chunks: int, more: int = 0) -> tuple[Num, ...]:
    """Forwards run in groups of p micro-batches, chunk after chunk; the peak comes with the first n of them."""
    first = 2 * (np.subtract(pp, stage) - 1) + (chunks - 1) * pp + 1 + more
    n = np.minimum(np.multiply(micro_batches, chunks), first)
    rounds, rest = np.divmod(n, np.multiply(pp, chunks))
    group = np.minimum(pp, np.subtract(micro_batches, rounds * pp))  # the last group may be short
    return tuple(rounds * pp + np.clip(rest - j * group, 0, group) for j in range(chunks))


def _zb_h1(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    return (np.minimum(micro_batches, pp) + 0 * np.asarray(stage),) * chunks


def _zb_h2(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    return (np.minimum(micro_batches, 2 * np.asarray(pp) - 1) + 0 * np.asarray(stage),) * chunks


def _dualpipe(stage: Num, pp: Num, micro_batches: Num, chunks: int) -> tuple[Num, ...]:
    both = np.minimum(micro_batches, np.where(np.equal(pp, 1), 1, np.add(pp, 1))) + 0 * np.asarray(stage)
    return (both / chunks,) * chunks


SCHEDULES: Mapping[str, Peak] = MappingProxyType(
    {
        "none": _none,
        "gpipe": _gpipe,
        "breadth-first": _gpipe,
        "1f1b": _one_f_one_b,
        "1f1b-overlapped": _overlapped,
        "zb-h1": _zb_h1,
        "zb-h2": _zb_h2,
        "dualpipe": _dualpipe,
    }
)


def chunk_sets(schedule: str, stage: Num, pp: Num, micro_batches: Num, chunks: int = 1) -> tuple[Num, ...]:
    """Sets in flight of each chunk that a stage holds, at the stage's peak.

    stage [0 .. pp-1], pp and micro_batches [>= 1] broadcast; chunks is the number of virtual stages that the stage
    holds (2 for dualpipe). For interleaved 1F1B with chunks of unequal layers
    this is the composition at the end of the warm-up. Raises InputError for an unknown schedule.

    >>> chunk_sets("1f1b", 0, 4, 8, 2)
    (7.0, 4.0)
    """
    peaks = look_up(SCHEDULES, schedule, "training.parallelism.schedule")(stage, pp, micro_batches, chunks)
    return tuple(plain(peak) for peak in peaks)


def in_flight_sets(schedule: str, stage: Num, pp: Num, micro_batches: Num, virtual_stages: int = 1) -> Num:
    """Sets in flight at the peak, in units of the layers of a stage; under dualpipe with 1, of one direction's layers.

    >>> [in_flight_sets("1f1b", stage, 4, 8) for stage in range(4)]
    [4.0, 3.0, 2.0, 1.0]
    >>> [in_flight_sets("1f1b", stage, 4, 8, virtual_stages=2) * 2 for stage in range(4)]
    [11.0, 9.0, 7.0, 5.0]
    """
    return total(chunk_sets(schedule, stage, pp, micro_batches, virtual_stages)) / virtual_stages


def head_sets(schedule: str, pp: Num, micro_batches: Num) -> Num:
    """Micro-batches whose loss is in flight: all where every forward runs first, two where they overlap, else one.

    >>> head_sets("gpipe", 4, 8), head_sets("1f1b", 4, 8)
    (8.0, 1.0)
    """
    last = np.subtract(pp, 1)
    kept = {"breadth-first": "gpipe", "gpipe": "gpipe", "1f1b-overlapped": "1f1b-overlapped"}
    return chunk_sets(kept.get(schedule, "1f1b"), last, pp, micro_batches)[0]
