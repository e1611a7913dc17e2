"""Evaluations and comparisons as plain data for JSON: SI units in key names, never NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

import simcluster
from simcluster.evaluation import ENGINE, Evaluation
from simcluster.memory.report import MemoryReport
from simcluster.reports.record_types import (
    CandidateRecord,
    CompareRecord,
    DeltaRecord,
    MemoryRecord,
    MetaRecord,
    SimulateRecord,
    StepRecord,
)
from simcluster.scenario import digest, to_dict
from simcluster.study import Candidate, Comparison

SCHEMA_VERSION = "1"


def evaluation_record(evaluation: Evaluation, seconds: float | None = None, seed: int | None = None) -> SimulateRecord:
    """One evaluation; `seconds` is how long it took to compute."""
    resolved, confidence = evaluation.resolved, evaluation.confidence
    return {
        "schema_version": SCHEMA_VERSION,
        "scenario": to_dict(resolved.scenario),
        "engine": ENGINE,
        "assumptions": [{"path": a.path, "value": _plain(a.value), "why": a.why} for a in resolved.assumptions],
        "not_modelled": list(resolved.unmodelled),
        "step": cast("StepRecord", asdict(evaluation.step)),
        "waterfall": [{"component": name, "time_s": time} for name, time in evaluation.waterfall.items()],
        "memory": memory_record(evaluation.memory),
        "confidence": {"grade": confidence.grade, "low_s": confidence.low_s, "high_s": confidence.high_s},
        "meta": meta_record(seconds, seed, digest(resolved.scenario)),
    }


def meta_record(seconds: float | None = None, seed: int | None = None, hash_: str | None = None) -> MetaRecord:
    """How an answer was made; what is None is left out.

    >>> sorted(meta_record(0.1, seed=3))
    ['seconds', 'seed', 'version']
    """
    meta: MetaRecord = {"version": simcluster.__version__}
    if seconds is not None:
        meta = {"seconds": seconds, **meta}
    if hash_ is not None:
        meta["hash"] = hash_
    if seed is not None:
        meta["seed"] = seed
    return meta


def memory_record(report: MemoryReport) -> MemoryRecord:
    """Peak memory of each stage."""
    return {
        "fits": bool(report.fits),
        "peak_bytes": float(report.peak_bytes),
        "capacity_bytes": float(report.capacity_bytes),
        "kinds": {
            "allocated": float(report.kinds["allocated"]),
            "reserved": float(report.kinds["reserved"]),
            "device": float(report.kinds["device"]),
        },
        "stages": [
            {
                "stage": stage.stage,
                "peak_bytes": float(stage.peak_bytes),
                "components": {name: float(size) for name, size in stage.components.items()},
            }
            for stage in report.stages
        ],
    }


def comparison_record(comparison: Comparison, seconds: float | None = None, seed: int | None = None) -> CompareRecord:
    """A comparison."""
    verdict = comparison.verdict
    return {
        "schema_version": SCHEMA_VERSION,
        "baseline": comparison.baseline.name,
        "candidates": [_candidate(one) for one in comparison.candidates],
        "verdict": {
            "choice": verdict.choice,
            "sentence": verdict.sentence,
            "why": verdict.why,
            "flips_if": list(verdict.flips_if),
            "settle_with": list(verdict.settle_with),
            "better_lever": verdict.better_lever,
        },
        "notes": list(comparison.notes),
        "meta": meta_record(seconds, seed),
    }


def _candidate(one: Candidate) -> CandidateRecord:
    return {
        "name": one.name,
        "evaluation": evaluation_record(one.evaluation),
        "delta": {metric: cast("DeltaRecord", asdict(delta)) for metric, delta in one.delta.items()},
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
