"""Evaluations and comparisons as plain data for JSON: SI units in key names, never NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, cast

import simcluster
from simcluster.analysis.critical_path import CriticalStep
from simcluster.evaluation import CostResult, Evaluation, PowerResult, StragglerResult
from simcluster.memory.report import MemoryReport
from simcluster.reports.record_types import (
    BreakEvenRecord,
    CandidateRecord,
    CompareRecord,
    CostRecord,
    CriticalRecord,
    DeltaRecord,
    MemoryRecord,
    MetaRecord,
    PowerRecord,
    RunRecord,
    SimulateRecord,
    StepRecord,
    StragglersRecord,
)
from simcluster.reports.slow_nodes import remedy_seconds
from simcluster.scenario import digest, to_dict
from simcluster.study import Candidate, Comparison
from simcluster.units import DAY_S

SCHEMA_VERSION = "1"


def evaluation_record(evaluation: Evaluation, seconds: float | None = None, seed: int | None = None) -> SimulateRecord:
    """One evaluation; `seconds` is how long it took to compute."""
    resolved, confidence = evaluation.resolved, evaluation.confidence
    record: SimulateRecord = {
        "schema_version": SCHEMA_VERSION,
        "scenario": to_dict(resolved.scenario),
        "engine": evaluation.engine,
        "assumptions": [{"path": a.path, "value": _plain(a.value), "why": a.why} for a in evaluation.assumptions],
        "not_modelled": list(evaluation.unmodelled),
        "step": cast("StepRecord", asdict(evaluation.step)),
        "waterfall": [{"component": name, "time_s": time} for name, time in evaluation.waterfall.items()],
        "critical_path": critical_record(evaluation.critical),
        "memory": memory_record(evaluation.memory),
        "power": power_record(evaluation.power),
        "run": run_record(evaluation),
        "confidence": {"grade": confidence.grade, "low_s": confidence.low_s, "high_s": confidence.high_s},
        "meta": meta_record(seconds, seed, digest(resolved.scenario)),
    }
    if evaluation.stragglers is not None:
        record["stragglers"] = stragglers_record(evaluation.stragglers)
    if evaluation.cost is not None:
        record["cost"] = cost_record(evaluation, evaluation.cost)
    return record


def critical_record(critical: CriticalStep) -> CriticalRecord:
    """The critical path."""
    return {
        "total_s": critical.total_s,
        "sentence": critical.sentence(),
        "advice": critical.advice(),
        "parts": [
            {
                "part": one.what if one.stage < 0 else f"{one.what} of stage {one.stage}",
                "what": one.what,
                "stage": one.stage,
                "time_s": one.seconds,
                "share": one.share,
                "gain_s": one.gain_s,
            }
            for one in critical.parts
        ],
    }


def stragglers_record(found: StragglerResult) -> StragglersRecord:
    """Nodes of unlike speed."""
    record: StragglersRecord = {
        "healthy_s": found.healthy_s,
        "mean_s": found.mean_s,
        "p50_s": found.p50_s,
        "p90_s": found.p90_s,
        "p99_s": found.p99_s,
        "drawn": list(found.drawn),
        "nodes": [
            {
                "node": one.name,
                "number": one.cost.node,
                "stages": list(one.position.stages),
                "replicas": list(one.position.replicas),
                "factor": one.cost.factor,
                "alone_s": one.cost.alone_s,
                "gives_back_s": one.cost.gives_back_s,
            }
            for one in found.nodes
        ],
        "stages": [
            {"stages": list(one.stages), "nodes": one.nodes, "factor": one.factor, "step_s": one.step_s}
            for one in found.stages
        ],
        "remedies": {},
    }
    if found.remedies is not None:
        record["now_s"] = found.remedies.now_s
        record["replaced_s"] = list(found.replaced_s)
        record["remedies"] = remedy_seconds(found.remedies)
    if found.layers is not None:
        layers = found.layers
        record["layers"] = {"layers": list(layers.layers), "step_s": layers.step_s, "fits": layers.fits}
    return record


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


def power_record(power: PowerResult) -> PowerRecord:
    """Watts and joules."""
    record: PowerRecord = {
        "gpu_average_w": power.gpu_average_w,
        "node_average_w": power.node_average_w,
        "it_average_w": power.it_average_w,
        "facility_average_w": power.facility_average_w,
        "it_nameplate_w": power.it_nameplate_w,
        "energy_per_token_j": power.energy_per_token_j,
        "swing_w": power.swing_w,
        "phases": {name.removesuffix("_s"): float(seconds) for name, seconds in asdict(power.phases).items()},
    }
    if power.run_kwh is not None:
        record["run_kwh"] = power.run_kwh
    return record


def run_record(evaluation: Evaluation) -> RunRecord:
    """Goodput, interruptions, days."""
    run, cost = evaluation.run, evaluation.cost
    record: RunRecord = {
        "goodput": run.goodput,
        "mtbf_s": run.mtbf_s,
        "interruptions_per_day": sum(run.interruptions_per_s.values()) * DAY_S,
        "checkpoint_interval_s": run.interval_s,
        "spares": evaluation.means.run.spares,
        "ledger": dict(run.shares),
    }
    if run.wall_s is not None and run.wall_s_p10 is not None and run.wall_s_p90 is not None:
        record["wall_days"] = run.wall_s / DAY_S
        record["wall_days_p10"] = run.wall_s_p10 / DAY_S
        record["wall_days_p90"] = run.wall_s_p90 / DAY_S
        record["expected_interruptions"] = run.expected_interruptions or 0.0
        record["interruptions_by_cause"] = dict(run.interruptions or {})
    if cost is not None and cost.starts_after_s:
        record["starts_after_days"] = cost.starts_after_s / DAY_S
    return record


def cost_record(evaluation: Evaluation, cost: CostResult) -> CostRecord:
    """Money."""
    hour, (low, high) = cost.per_gpu_hour, evaluation.token_cost_band
    record: CostRecord = {
        "acquire": cost.acquire,
        "usd_per_gpu_hour": float(hour.provisioned_usd),
        "usd_per_gpu_hour_used": float(hour.used_usd),
        "usd_per_gpu_hour_useful": float(hour.useful_usd),
        "usd_per_million_tokens": cost.usd_per_million_tokens,
        "usd_per_million_tokens_p10": low,
        "usd_per_million_tokens_p90": high,
        "capital_usd": cost.capital_usd,
        "commitment_usd": cost.commitment_usd,
        "hours": cost.hours,
        "monthly_usd": dict(cost.monthly_usd),
        "break_even": cast("BreakEvenRecord", asdict(cost.break_even)) if cost.break_even else None,
    }
    if cost.total_usd is not None and cost.alone_usd is not None:
        record["total_usd"] = cost.total_usd
        record["total_usd_alone"] = cost.alone_usd
    return record


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
