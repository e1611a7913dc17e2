"""A scenario's evaluation: step, memory, power, run and cost, and how sure all this is."""

from __future__ import annotations

from simcluster.evaluation.cost import BreakEven, CostResult
from simcluster.evaluation.evaluated import Engine, Evaluation, evaluate
from simcluster.evaluation.power import PowerResult
from simcluster.evaluation.step import StepResult
from simcluster.evaluation.stragglers import StragglerResult

__all__ = [
    "BreakEven",
    "CostResult",
    "Engine",
    "Evaluation",
    "PowerResult",
    "StepResult",
    "StragglerResult",
    "evaluate",
]
