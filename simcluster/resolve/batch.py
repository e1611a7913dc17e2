"""Settles sequence length, global batch and micro-batch, and checks that they fit the data-parallel ranks."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.scenario.findings import accumulation_finding, batch_finding
from simcluster.scenario.training import BatchTokens, Training
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily

_DEFAULT_SEQUENCE = 4096
DEFAULT_BATCH_TOKENS = 4_000_000
_BATCH, _MICRO, _TIMES = "training.global_batch", "training.micro_batch", "training.gradient_accumulation"
_MOST_PARTS = 10_000  # micro-batches tried
BATCH_ROUNDING = 0.25  # of a batch stated in tokens; more is another batch than the one that was asked for


@dataclass(frozen=True, slots=True)
class SettledBatch:
    """sequences of a step over all replicas, and of a micro-batch; micro_batches that one replica runs."""

    sequences: int
    micro_batch: int
    micro_batches: int


def settle_length(scenario: Scenario, arch: Architecture, trail: Trail) -> int:
    """Tokens of a sequence, as stated or the model's own."""
    stated = scenario.training.sequence_length
    if stated:
        return stated
    length = min(arch.max_sequence or _DEFAULT_SEQUENCE, _DEFAULT_SEQUENCE)
    trail.assume("training.sequence_length", length, "the model's own length, at most 4,096")
    return length


def settle_batch(
    training: Training, sequence: int, dp: int, pp: int, family: SoftwareFamily, trail: Trail
) -> SettledBatch | None:
    """Batch and micro-batch; None with what does not fit noted.

    What is absent follows from the rest: the batch from accumulation, the micro-batch from accumulation or as the
    software does.
    """
    sequences = _sequences(training, sequence, dp, trail)
    if sequences is None:
        return None
    micro = _micro_batch(training, sequences, dp, pp, family, trail)
    finding = batch_finding(sequences, micro, dp)
    times = training.gradient_accumulation
    if finding is None and times is not None:
        finding = accumulation_finding(sequences, micro, times, dp)
    if finding is not None:
        trail.problem(finding.path, finding.message, finding.advice)
        return None
    return SettledBatch(sequences, micro, sequences // (dp * micro))


def _sequences(training: Training, sequence: int, dp: int, trail: Trail) -> int | None:
    batch, times = training.global_batch, training.gradient_accumulation
    micro = training.micro_batch if isinstance(training.micro_batch, int) else 1
    if isinstance(batch, int):
        return batch
    if isinstance(batch, BatchTokens):
        return _sequences_of(batch.tokens, sequence, micro, dp, trail)
    if times is not None:
        sequences = micro * times * dp
        trail.assume(_BATCH, sequences, f"micro_batch {micro} x gradient_accumulation {times} x dp {dp}")
        return sequences
    sequences = max(1, round(DEFAULT_BATCH_TOKENS / sequence / dp / micro)) * dp * micro
    trail.assume(_BATCH, sequences, "about 4M tokens a step, a whole number of sequences a replica")
    return sequences


def _sequences_of(tokens: int, sequence: int, micro: int, dp: int, trail: Trail) -> int | None:
    """The nearest whole number of micro-batches on each replica."""
    whole = dp * micro
    sequences = max(1, (2 * tokens + whole * sequence) // (2 * whole * sequence)) * whole
    if abs(sequences * sequence - tokens) > BATCH_ROUNDING * tokens:
        message = f"{tokens} tokens are {tokens / sequence:.6g} sequences of {sequence}"
        factors = f"micro_batch {micro} x dp {dp} = {whole} sequences"
        advice = f"at least {whole * sequence} tokens, or fewer replicas (raise tp, pp or cp)"
        trail.problem(_BATCH, f"{message}, less than {factors}", advice)
        return None
    if sequences * sequence != tokens:
        why = f"{tokens} tokens in sequences of {sequence}, the nearest multiple of micro_batch {micro} x dp {dp}"
        trail.assume(f"{_BATCH}.sequences", sequences, why)
    return sequences


def _micro_batch(training: Training, sequences: int, dp: int, pp: int, family: SoftwareFamily, trail: Trail) -> int:
    stated, times = training.micro_batch, training.gradient_accumulation
    if isinstance(stated, int):
        return stated
    if times is not None:
        size = max(1, sequences // (dp * times))
        trail.assume(_MICRO, size, f"{sequences} sequences / (dp {dp} x gradient_accumulation {times})")
        return size
    each = max(1, sequences // dp)
    if training.global_batch is None or sequences % dp:
        trail.assume(_MICRO, 1, "not stated, nor is the batch")
        return 1
    parts = (count for count in range(pp, pp + _MOST_PARTS) if each % count == 0)
    size = {"one": 1, "per-stage": each // next(parts, each), "whole": each}[family.default_micro_batch]
    how = {
        "one": "one sequence",
        "per-stage": f"{each} sequences of a replica in pp {pp} parts",
        "whole": "all at once",
    }
    trail.assume(_MICRO, size, f"not stated: {how[family.default_micro_batch]}, as {family.id} does")
    return size
