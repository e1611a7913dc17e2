"""Predicts published training runs, row by row, and never stops at one that cannot be predicted."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from simcluster.errors import InputError, Mark
from simcluster.evaluation import evaluate
from simcluster.formats.published import PublishedResult, PublishedRow
from simcluster.formats.published_checks import published_step_time, skip_reason
from simcluster.formats.published_facts import PublishedFacts
from simcluster.hardware.catalogue import Catalogue
from simcluster.shapes import Assumption
from simcluster.validate.floor import GpuNames, shipped_floor
from simcluster.validate.records import RowResult
from simcluster.validate.scenario import find_gpu, scenario_of, unsupported

_BATCH = 16  # rows that a worker takes at once
_WORTH = 150  # rows below which starting another process costs more than it saves
_NOT_YET = re.compile(r"^(?:[\w.]+: )?(.*?) (?:is|are) not simulated yet$")
_NO_PROFILE = re.compile(r"no (kernel profile for GPU .*)$")
_SOFTWARE = "training.software."
SOFTWARE_DEFAULTS = "training.software as in"  # begins the line with the defaults of a family
_EVIDENCE = ("documentation", "repository", "paper", "estimate")  # kinds of source of a family's values


def validate_training(
    rows: Sequence[PublishedRow], workers: int | None = None, hardware_db: Path | None = None
) -> list[RowResult]:
    r"""Every row predicted or skipped with a reason, in the order of the rows, the same with any number of workers.

    rows         as `read_published` gives them; the prediction of a row sees its facts alone
    workers      processes; 1 stays in this one, None takes as many as there are cores and rows to keep busy
    hardware_db  folder laid over the shipped catalogue

    >>> from simcluster.formats.published import parse_published
    >>> validate_training(parse_published("gpu,n_gpus,task\nH100,8,lora\n"), workers=1)[0].skipped_because
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
    parent = os.getpid()
    for batch in pool(delayed(_judge_batch)(batch, hardware_db, parent) for batch in batches):
        yield from batch


def _judge_batch(rows: Sequence[PublishedRow], hardware_db: Path | None, parent: int) -> list[RowResult]:
    """Rows of a worker; an interrupt from the terminal is for the parent process alone."""
    if os.getpid() != parent:
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
    """One row against its prediction; whatever goes wrong is the reason why it is skipped.

    A row that prints no throughput, or two that contradict each other, is predicted without being judged.
    """
    start = _unjudged(row)
    try:
        reason = _cannot(row.facts, catalogue)
        if reason:
            return replace(start, skipped_because=skip_reason(row) or reason)
        return _compared(_predicted(row.facts, start, catalogue), row)
    except InputError as error:
        return replace(start, skipped_because=skip_reason(row) or reason_of(error))
    except Exception as error:
        return replace(start, skipped_because=f"error: {type(error).__name__}: {error}")


def _unjudged(row: PublishedRow) -> RowResult:
    facts, result = row.facts, row.result
    printed = published_step_time(row)
    return RowResult(
        id=result.id,
        source=result.source,
        split=result.split,
        trust=result.trust,
        gpu=facts.gpu,
        n_gpus=facts.n_gpus,
        published=printed[0] if printed else None,
        assumed=_lines(facts.assumed),
        precision=facts.precision or "unknown",
        kind="moe" if facts.experts else "dense",
        model=facts.model_name,
        layers=facts.layers or 0,
        tokens=float(facts.global_batch or 0) * (facts.sequence_length or 0),
    )


def _cannot(facts: PublishedFacts, catalogue: Catalogue) -> str | None:
    """Why the facts of a row do not make a prediction."""
    reason = skip_reason(PublishedRow(facts, PublishedResult(step_time_s=1.0), Mark("")))
    if reason is not None:
        return reason
    missing = unsupported(facts)
    if missing is not None:
        return f"unsupported: {missing}"
    return "unknown_gpu" if find_gpu(facts, catalogue) is None else None


def _predicted(facts: PublishedFacts, start: RowResult, catalogue: Catalogue) -> RowResult:
    built = scenario_of(facts, catalogue)
    evaluation = evaluate(built.loaded, catalogue)
    confidence = evaluation.confidence
    return replace(
        start,
        predicted=float(evaluation.times.total[0]),
        low=confidence.low_s,
        high=confidence.high_s,
        grade=confidence.grade,
        assumed=_lines([*built.assumed, *evaluation.resolved.assumptions]),
    )


def _compared(predicted: RowResult, row: PublishedRow) -> RowResult:
    reason = skip_reason(row)
    if reason is not None or not predicted.published or predicted.predicted is None:
        return replace(predicted, skipped_because=reason or "no_throughput")
    return replace(predicted, error=predicted.predicted / predicted.published - 1)


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
    """Assumptions as text, each path once; those of one reason share a line, so do a software family's defaults."""
    reasons: dict[str, list[str]] = {}
    defaults: dict[str, list[str]] = {}
    for one in {one.path: one for one in assumptions}.values():  # what was settled last holds
        origin, _, evidence = one.why.partition(": ")
        if one.path.startswith(_SOFTWARE) and evidence.partition(",")[0] in _EVIDENCE:
            defaults.setdefault(origin, []).append(f"{one.path.removeprefix(_SOFTWARE)} = {one.value}")
        else:
            reasons.setdefault(one.why, []).append(f"{one.path} = {one.value}")
    plain = [f"{', '.join(values)}: {why}" for why, values in reasons.items()]
    return (*plain, *(f"{SOFTWARE_DEFAULTS} {origin}: {', '.join(values)}" for origin, values in defaults.items()))
