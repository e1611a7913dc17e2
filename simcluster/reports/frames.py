"""Evaluations and comparisons as pandas frames, in SI units, for notebooks and for tables of one's own.

pandas is imported with this module, so nothing that a command needs at its start imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from simcluster.analysis.timeline import timeline as spans_of
from simcluster.analysis.waterfall import MEANING
from simcluster.evaluation import Evaluation
from simcluster.reports.csv import flat, unit_of
from simcluster.reports.records import comparison_record, evaluation_record, memory_record
from simcluster.study import Comparison

_LONG = ("scenario", "assumptions", "not_modelled", "schema_version", "meta")  # parts with frames of their own, or none
_TIMELINE = ("stage", "stream", "kind", "micro_batch", "part", "start_s", "end_s")


def figures(evaluation: Evaluation) -> pd.DataFrame:
    """Every figure of an evaluation by its key in the JSON answer: value and unit (waterfall and memory included)."""
    return _keyed(evaluation_record(evaluation))


def part(evaluation: Evaluation, name: str) -> pd.DataFrame:
    """Figures of one part of the JSON answer, such as step, power, run or cost: value and unit by key.

    Raises KeyError with the names of the parts that there are.
    """
    record = evaluation_record(evaluation)
    if name not in record:
        raise KeyError(f"no part {name!r}; there are {', '.join(record)}")
    return _keyed({name: record[name]})  # type: ignore[literal-required]


def waterfall(evaluation: Evaluation) -> pd.DataFrame:
    """Where a step goes by cause, ideal time first: time_s, share of the step, what it is."""
    rows = evaluation.waterfall.items()
    frame: pd.DataFrame = pd.DataFrame(rows, columns=["component", "time_s"]).set_index("component")
    frame["share"] = frame["time_s"] / evaluation.step.time_s
    frame["meaning"] = [MEANING[cause] for cause in frame.index]
    return frame


def memory(evaluation: Evaluation) -> pd.DataFrame:
    """Bytes of a GPU at the peak: a row for each pipeline stage, a column for each component, the largest first.

    A row sums to the stage's peak; components that no stage has are left out.
    """
    stages = memory_record(evaluation.memory)["stages"]
    held = {stage["stage"]: stage["components"] for stage in stages}
    largest: dict[str, float] = {}
    for components in held.values():
        largest = {name: max(size, largest.get(name, 0.0)) for name, size in {**largest, **components}.items()}
    order = sorted((name for name, size in largest.items() if size > 0), key=lambda name: -largest[name])
    frame: pd.DataFrame = pd.DataFrame.from_dict(held, orient="index", columns=order).fillna(0.0).rename_axis("stage")
    return frame


def assumptions(evaluation: Evaluation) -> pd.DataFrame:
    """Values that nobody stated, by dotted path: value and why."""
    stated = evaluation_record(evaluation)["assumptions"]
    frame: pd.DataFrame = pd.DataFrame(stated, columns=["path", "value", "why"], dtype=object).set_index("path")
    return frame


def timeline(evaluation: Evaluation) -> pd.DataFrame:
    """The step as spans: a row for each, in seconds from its start. See `simcluster.analysis.timeline`."""
    resolved = evaluation.resolved
    spans = spans_of(resolved.plan, resolved.machine, evaluation.times)
    frame: pd.DataFrame = pd.DataFrame([asdict(span) for span in spans], columns=list(_TIMELINE))
    return frame


def candidates(comparison: Comparison) -> pd.DataFrame:
    """A row for each candidate, the baseline first; columns are the keys of the JSON answer (step.time_s, …)."""
    rows = {}
    for one in comparison_record(comparison)["candidates"]:
        record: Mapping[str, Any] = {**one["evaluation"], "delta": one["delta"]}
        rows[one["name"]] = dict(flat({key: value for key, value in record.items() if key not in _LONG}))
    return _by_candidate(rows)


def causes(comparison: Comparison) -> pd.DataFrame:
    """Where a step of each candidate goes: a row for each candidate, a column for each cause, seconds."""
    falls = {one.name: dict(one.evaluation.waterfall.items()) for one in comparison.candidates}
    every = max(falls.values(), key=len)
    return _by_candidate({name: {cause: fall.get(cause, 0.0) for cause in every} for name, fall in falls.items()})


def _by_candidate(rows: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    frame: pd.DataFrame = pd.DataFrame(list(rows.values()), index=list(rows)).rename_axis("candidate")
    return frame


def _keyed(record: Mapping[str, Any]) -> pd.DataFrame:
    """Value and unit of single values by dotted key."""
    shown = [(key, value, unit_of(key)) for key, value in flat({k: v for k, v in record.items() if k not in _LONG})]
    frame: pd.DataFrame = pd.DataFrame(shown, columns=["key", "value", "unit"], dtype=object).set_index("key")
    return frame
