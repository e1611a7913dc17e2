"""What verdicts share: the record, how sure a difference is, what to measure, what would gain more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from simcluster.analysis.uncertainty import Z80, ErrorTerm
from simcluster.analysis.waterfall import CAUSES, MEANING
from simcluster.evaluation import Evaluation
from simcluster.units import format_percent

CLEAR = 0.9  # probability at which a difference is called one
ALIKE = 0.01  # relative difference below which designs are called alike
_LEVERS = {
    "kernel_inefficiency": "larger micro-batches or wider layers per GPU (less tensor parallelism), better kernels",
    "memory_bound": "fused kernels, CUDA graphs, a larger micro-batch",
    "recompute": "less recompute where memory allows",
    "tensor_parallel": "less tensor parallelism, or overlapping its exchanges",
    "pipeline_bubble": "more micro-batches, virtual stages, or fewer stages",
    "pipeline_imbalance": "a stage layout that counts embedding and head",
    "pipeline_messages": "overlapping the messages between stages",
    "expert_context_parallel": "experts and context inside a node, or overlapping their exchanges",
    "offload": "states on the GPUs where memory allows (more ranks that share them), more nodes, or larger batches",
    "data_parallel": "overlapping the gradient exchange, a faster fabric, or a larger batch",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision in words.

    choice        name of the candidate, None when none is clearly better
    sentence      which, by how much, how sure
    why           what makes the difference
    flips_if      what would reverse it
    settle_with   what to measure to be sure
    better_lever  what would gain more than choosing between the candidates
    """

    choice: str | None
    sentence: str
    why: str
    flips_if: tuple[str, ...]
    settle_with: tuple[str, ...]
    better_lever: str


def gain_band(ratio: float, own: Sequence[ErrorTerm], others: Sequence[ErrorTerm]) -> tuple[float, float, float]:
    """80 % interval of a gain, and how likely it is above zero.

    ratio        the better figure over the other, as a gain: 1.2 is 20 % more
    own, others  what both figures rest on

    The ratio of two log-normal values is log-normal; evidence of both enters with the difference of its parts.

    >>> low, high, sure = gain_band(1.2, [ErrorTerm("a", 1.0, 0.1)], [ErrorTerm("a", 1.0, 0.1)])
    >>> round(low, 9), round(high, 9), sure
    (0.2, 0.2, 1.0)
    """
    gain, spread = math.log(ratio), math.hypot(*unshared(others, own).values())
    low, high = (math.expm1(gain + side * Z80 * spread) for side in (-1, 1))
    sure = 0.5 * (1 + math.erf(gain / spread / math.sqrt(2))) if spread else float(gain > 0)
    return low, high, sure


def unshared(own: Sequence[ErrorTerm], others: Sequence[ErrorTerm]) -> dict[str, float]:
    """Spread of ln(own figure / the other's) by evidence, with the sign of whom it moves."""
    parts: dict[str, float] = {}
    for sign, terms in ((1, own), (-1, others)):
        for term in terms:
            parts[term.evidence] = parts.get(term.evidence, 0.0) + sign * term.share * term.sigma
    return parts


def measure(own: Sequence[ErrorTerm], others: Sequence[ErrorTerm]) -> tuple[str, ...]:
    """What narrows a comparison most: the evidence with the largest unshared error; nothing if all is shared.

    >>> measure([ErrorTerm("gemm:b200-sxm", 1.0, 0.1)], []), measure([], [])
    (('GEMM microbenchmarks on b200-sxm',), ())
    """
    shares = unshared(own, others)
    evidence = max(shares, key=lambda name: abs(shares[name]), default="")
    if not shares.get(evidence):
        return ()
    kind, _, where = evidence.partition(":")
    what = {
        "failures": f"how often such machines fail (here rates of {where})",
        "preemptions": "how often spot machines of this kind are taken away",
        "gemm": f"GEMM microbenchmarks on {where}",
        "attention": f"attention microbenchmarks on {where}",
        "memory": f"a stream benchmark on {where}",
        "collectives": f"nccl-tests on {where}",
        "price": f"quotes ({where})",
    }
    return (what.get(kind, "step times of a short run of each"),)


def lever(evaluation: Evaluation) -> str:
    """The largest loss of a step and what lowers it."""
    seconds = dict(zip(CAUSES[:-1], evaluation.waterfall.seconds))
    cause = max(seconds, key=lambda name: seconds[name])
    share = format_percent(seconds[cause] / evaluation.step.time_s)
    return f"{MEANING[cause]} take {share} of the step: {_LEVERS[cause]}"
