"""Predicts published training runs, row by row, and never stops at one that cannot be predicted."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from simcluster.errors import InputError
from simcluster.evaluate import evaluate
from simcluster.formats.published import PublishedRow
from simcluster.formats.published_checks import published_step_time, skip_reason
from simcluster.hardware.catalogue import Catalogue
from simcluster.shapes import Assumption
from simcluster.validate.floor import Floor, GpuNames, shipped_floor
from simcluster.validate.records import RowResult
from simcluster.validate.scenario import find_gpu, scenario_of, unsupported

_BATCH = 16  # rows that a worker takes at once
_WORTH = 150  # rows below which starting another process costs more than it saves
_NOT_YET = re.compile(r"^(?:[\w.]+: )?(.*?) (?:is|are) not simulated yet$")
_NO_PROFILE = re.compile(r"no (kernel profile for GPU .*)$")
_SOFTWARE = "training.software."


def validate_training(
    rows: Sequence[PublishedRow], workers: int | None = None, hardware_db: Path | None = None
) -> list[RowResult]:
    """Every row predicted or skipped with a reason, in the order of the rows, the same with any number of workers.

    rows         as `read_published` gives them; the prediction of a row sees its facts alone
    workers      processes; 1 stays in this one, None takes as many as there are cores and rows to keep busy
    hardware_db  folder laid over the shipped catalogue

    >>> from simcluster.formats.published import parse_published
    >>> validate_training(parse_published("gpu,n_gpus,task\\nH100,8,lora\\n"), workers=1)[0].skipped_because
    'task'
    """
    return list(judged_rows(rows, workers, hardware_db))


def judged_rows(
    rows: Sequence[PublishedRow], workers: int | None = None, hardware_db: Path | None = None
) -> Iterator[RowResult]:
    """As `validate_training`, one result after the other as they are finished."""
    catalogue = _catalogue(hardware_db)
    floor = shipped_floor(gpu_names(catalogue))
    for row, result in zip(rows, _results(rows, workers or _processes(len(rows)), hardware_db)):
        yield replace(result, floor=floor.step_time_s(row.facts)) if result.judged else result


def _processes(rows: int) -> int:
    return max(1, min(os.cpu_count() or 1, rows // _WORTH))


def _results(rows: Sequence[PublishedRow], workers: int, hardware_db: Path | None) -> Iterator[RowResult]:
    if workers == 1:
        catalogue = _catalogue(hardware_db)
        yield from (judge_row(row, catalogue) for row in rows)
        return
    from joblib import Parallel, delayed  # here: a single process does without it

    batches = [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]
    pool = Parallel(n_jobs=workers, return_as="generator")
    for batch in pool(delayed(_judge_batch)(batch, hardware_db) for batch in batches):
        yield from batch


def _judge_batch(rows: Sequence[PublishedRow], hardware_db: Path | None) -> list[RowResult]:
    """In a worker: an interrupt of the terminal is for the parent process alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    catalogue = _catalogue(hardware_db)
    return [judge_row(row, catalogue) for row in rows]


@cache
def _catalogue(hardware_db: Path | None) -> Catalogue:
    return Catalogue.load(hardware_db)


def gpu_names(catalogue: Catalogue) -> GpuNames:
    """Names of a GPU text: as written, then the catalogue's id, so that other spellings find the same figures."""

    @cache
    def names(text: str, date: str) -> tuple[str, ...]:
        try:
            return (text.strip().casefold(), catalogue.gpu(text, date or None)[0].id)
        except InputError:
            return (text.strip().casefold(),)

    return names


def judge_row(row: PublishedRow, catalogue: Catalogue) -> RowResult:
    """One row against its prediction; whatever goes wrong is the reason why it is skipped."""
    start = _unjudged(row)
    try:
        reason = skip_reason(row) or _cannot(row, catalogue)
        return replace(start, skipped_because=reason) if reason else _judged(row, start, catalogue)
    except InputError as error:
        return replace(start, skipped_because=reason_of(error))
    except Exception as error:
        return replace(start, skipped_because=f"error: {type(error).__name__}: {error}")


def _unjudged(row: PublishedRow) -> RowResult:
    facts, result = row.facts, row.result
    return RowResult(
        id=result.id,
        source=result.source,
        split=result.split,
        trust=result.trust,
        gpu=facts.gpu,
        n_gpus=facts.n_gpus,
        assumed=_lines(facts.assumed),
        precision=facts.precision or "unknown",
        kind="moe" if facts.experts else "dense",
        model=facts.model_name,
        layers=facts.layers or 0,
        tokens=float(facts.global_batch or 0) * (facts.sequence_length or 0),
    )


def _cannot(row: PublishedRow, catalogue: Catalogue) -> str | None:
    missing = unsupported(row.facts)
    if missing:
        return f"unsupported: {missing}"
    return "unknown_gpu" if find_gpu(row.facts, catalogue) is None else None


def _judged(row: PublishedRow, start: RowResult, catalogue: Catalogue) -> RowResult:
    built = scenario_of(row.facts, catalogue)
    evaluation = evaluate(built.loaded, catalogue)
    seconds, confidence = float(evaluation.times.total[0]), evaluation.confidence
    found = published_step_time(row)
    published = found[0] if found else seconds
    return replace(
        start,
        published=published,
        predicted=seconds,
        low=confidence.low_s,
        high=confidence.high_s,
        error=seconds / published - 1,
        grade=confidence.grade,
        assumed=_lines([*built.assumed, *evaluation.resolved.assumptions]),
    )


def reason_of(error: InputError) -> str:
    """Why a row is skipped: what is not simulated, else the first thing that is wrong with it.

    >>> from simcluster.errors import Problem
    >>> reason_of(InputError([Problem("training.precision: precision fp8 is not simulated yet")]))
    'unsupported: precision fp8'
    >>> reason_of(InputError("training.parallelism: tp 3 does not divide 8"))
    'inconsistent_row: training.parallelism: tp 3 does not divide 8'
    """
    messages = [problem.message for problem in error.problems]
    missing = [found[1] for text in messages if (found := _NOT_YET.match(text) or _NO_PROFILE.search(text))]
    return f"unsupported: {', '.join(missing)}" if missing else f"inconsistent_row: {messages[0]}"


def _lines(assumptions: Sequence[Assumption]) -> tuple[str, ...]:
    """Assumptions as text, each path once; the many defaults of a software family make one line."""
    plain: dict[str, str] = {}
    family: dict[str, list[str]] = {}
    for one in assumptions:
        origin, _, evidence = one.why.partition(": ")
        if one.path.startswith(_SOFTWARE) and evidence.partition(",")[0] in ("documentation", "repository", "paper"):
            family.setdefault(origin, []).append(f"{one.path.removeprefix(_SOFTWARE)} {one.value}")
        else:
            plain.setdefault(f"{one.path} {one.value}", f"{one.path} = {one.value}: {one.why}")
    merged = (f"{_SOFTWARE}* as {origin} does: {', '.join(fields)}" for origin, fields in family.items())
    return (*plain.values(), *merged)
