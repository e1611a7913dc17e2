"""Evaluations and comparisons as plain data for JSON: SI units in key names, never NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import simcluster
from simcluster.evaluation import ENGINE, Evaluation
from simcluster.memory.report import MemoryReport
from simcluster.scenario import digest, to_dict
from simcluster.study import Comparison

SCHEMA_VERSION = "1"


def evaluation_record(evaluation: Evaluation, seconds: float | None = None) -> dict[str, Any]:
    """One evaluation; `seconds` is how long it took to compute."""
    resolved = evaluation.resolved
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": to_dict(resolved.scenario),
        "engine": ENGINE,
        "assumptions": [{"path": a.path, "value": _plain(a.value), "why": a.why} for a in resolved.assumptions],
        "not_modelled": list(resolved.unmodelled),
        "step": asdict(evaluation.step),
        "waterfall": [{"component": name, "time_s": time} for name, time in evaluation.waterfall.items()],
        "memory": memory_record(evaluation.memory),
        "confidence": {
            "grade": evaluation.confidence.grade,
            "low_s": evaluation.confidence.low_s,
            "high_s": evaluation.confidence.high_s,
        },
        "meta": {
            **({} if seconds is None else {"seconds": seconds}),
            "version": simcluster.__version__,
            "hash": digest(resolved.scenario),
        },
    }


def memory_record(report: MemoryReport) -> dict[str, Any]:
    """Peak memory of each stage."""
    return {
        "fits": bool(report.fits),
        "peak_bytes": float(report.peak_bytes),
        "capacity_bytes": float(report.capacity_bytes),
        "kinds": {name: float(size) for name, size in report.kinds.items()},
        "stages": [
            {
                "stage": stage.stage,
                "peak_bytes": float(stage.peak_bytes),
                "components": {name: float(size) for name, size in stage.components.items()},
            }
            for stage in report.stages
        ],
    }


def comparison_record(comparison: Comparison, seconds: float | None = None) -> dict[str, Any]:
    """A comparison."""
    return {
        "schema_version": SCHEMA_VERSION,
        "baseline": comparison.baseline.name,
        "candidates": [
            {
                "name": one.name,
                "evaluation": evaluation_record(one.evaluation),
                "delta": {metric: asdict(delta) for metric, delta in one.delta.items()},
            }
            for one in comparison.candidates
        ],
        "verdict": {
            **asdict(comparison.verdict),
            "flips_if": list(comparison.verdict.flips_if),
            "settle_with": list(comparison.verdict.settle_with),
        },
        "notes": list(comparison.notes),
        "meta": {**({} if seconds is None else {"seconds": seconds}), "version": simcluster.__version__},
    }


def to_json(record: Mapping[str, Any]) -> str:
    """JSON text, ASCII in any locale; a number that is not finite is a defect and raises ValueError."""
    return json.dumps(record, indent=2, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """Plain data for JSON from numpy scalars, tuples and the like."""
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value.item() if hasattr(value, "item") else str(value)
