"""Batches that a number of replicas can run: micro-batch, micro-batches and sequences of a step."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simcluster.planner.choices import powers_of_two
from simcluster.resolve.batch import BATCH_ROUNDING, DEFAULT_BATCH_TOKENS
from simcluster.scenario.findings import accumulation_finding, batch_finding
from simcluster.scenario.training import BatchTokens, Training


@dataclass(frozen=True, slots=True)
class Batches:
    """Micro-batch sizes: how many were tried, what serves, and why the others do not.

    sizes   rows of micro_batch, micro_batches, sequences
    """

    size: int
    sizes: NDArray[np.int64]
    rejected: Counter[str]

    def at_most(self, micro_batches: int) -> Batches:
        """Those of no more micro-batches, which is as many as are simulated one by one."""
        few = self.sizes[:, 1] <= micro_batches
        return Batches(self.size, self.sizes[few], self.rejected + Counter({"batch": int((~few).sum())}))


def batches(
    training: Training, sequence: int, dp: int, group: int, most: int, rounding: float = BATCH_ROUNDING
) -> Batches:
    """Batches over `dp` replicas whose micro-batches come in groups of `group`, with micro-batches of at most `most`.

    `rounding` is how far a batch may be from the tokens that are wanted, as a fraction of them.

    >>> batches(Training(global_batch=64), 4096, 8, 4, 64).sizes.tolist()
    [[1, 8, 64], [2, 4, 64]]
    """
    stated = training.micro_batch
    tried = [stated] if isinstance(stated, int) else powers_of_two(most)
    rows, rejected = [], Counter[str]()
    for micro in tried:
        sequences = _sequences(training, sequence, micro, dp, group, rounding)
        if _broken(training, sequences, micro, dp):
            rejected["batch"] += 1
        elif sequences // (dp * micro) % group:
            rejected["interleaving"] += 1
        else:
            rows.append((micro, sequences // (dp * micro), sequences))
    return Batches(len(tried), np.array(rows, dtype=np.int64).reshape(-1, 3), rejected)


def _sequences(training: Training, sequence: int, micro: int, dp: int, group: int, rounding: float) -> int:
    """Sequences of a step as stated, or the nearest multiple of whole groups to the tokens wanted; 0: none is near."""
    batch, times = training.global_batch, training.gradient_accumulation
    if isinstance(batch, int):
        return batch
    if batch is None and times is not None:
        return micro * times * dp
    tokens = batch.tokens if isinstance(batch, BatchTokens) else DEFAULT_BATCH_TOKENS
    whole = dp * micro * (1 if isinstance(batch, BatchTokens) else group)
    sequences = max(1, (2 * tokens + whole * sequence) // (2 * whole * sequence)) * whole
    return sequences if abs(sequences * sequence - tokens) <= rounding * tokens else 0


def _broken(training: Training, sequences: int, micro: int, dp: int) -> bool:
    times = training.gradient_accumulation
    if not sequences or batch_finding(sequences, micro, dp):
        return True
    return times is not None and accumulation_finding(sequences, micro, times, dp) is not None
