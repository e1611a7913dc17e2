"""Errors of many rows in a few figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simcluster.validate.records import RowResult

APART = 0.05  # tokens/s of two rows that differ by less say nothing about an order


@dataclass(frozen=True, slots=True)
class Errors:
    """Figures of relative errors (predicted / published - 1); None where there is nothing to compute them from.

    mean_error          signed: above zero, predictions are too slow on average
    coverage            share of rows whose published figure lies in the 80 % interval
    median_half_width   median of (high - low) / (2 predicted)
    """

    count: int
    median_absolute_error: float | None = None
    mean_absolute_error: float | None = None
    p90_absolute_error: float | None = None
    mean_error: float | None = None
    coverage: float | None = None
    median_half_width: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Rows that share something, beside the floor of the same rows."""

    errors: Errors
    naive_floor: Errors


@dataclass(frozen=True, slots=True)
class Summary:
    """All rows of a table.

    skipped          rows by reason
    order_accuracy   share of pairs put in the right order, a tie counts half; see `order_accuracy`
    order_pairs      pairs that it rests on
    """

    errors: Errors
    naive_floor: Errors
    skipped: Mapping[str, int]
    order_accuracy: float | None
    order_pairs: int
    by_gpu: Mapping[str, Group]
    by_source: Mapping[str, Group]
    by_split: Mapping[str, Group]
    by_trust: Mapping[str, Group]
    by_precision: Mapping[str, Group]
    by_kind: Mapping[str, Group]


def summarise(results: Sequence[RowResult]) -> Summary:
    """The summary of predicted and skipped rows.

    >>> row = RowResult(published=1.0, predicted=1.1, low=0.9, high=1.3, error=0.1)
    >>> summary = summarise([row, RowResult(skipped_because="task")])
    >>> summary.errors.count, summary.errors.coverage, summary.skipped
    (1, 1.0, {'task': 1})
    """
    judged = [row for row in results if row.judged]
    accuracy, pairs = order_accuracy(judged)
    return Summary(
        errors=errors_of(judged),
        naive_floor=floor_errors(judged),
        skipped=_skipped(results),
        order_accuracy=accuracy,
        order_pairs=pairs,
        by_gpu=_groups(judged, lambda row: row.gpu),
        by_source=_groups(judged, lambda row: row.source),
        by_split=_groups(judged, lambda row: row.split),
        by_trust=_groups(judged, lambda row: row.trust),
        by_precision=_groups(judged, lambda row: row.precision),
        by_kind=_groups(judged, lambda row: row.kind),
    )


def errors_of(judged: Sequence[RowResult]) -> Errors:
    """Figures of the predictions."""
    bands = [
        (row.low <= row.published <= row.high, (row.high - row.low) / (2 * row.predicted))
        for row in judged
        if row.low is not None and row.high is not None and row.published is not None and row.predicted
    ]
    coverage = float(np.mean([inside for inside, _ in bands])) if bands else None
    width = float(np.median([half for _, half in bands])) if bands else None
    return _figures([row.error for row in judged if row.error is not None], coverage, width)


def floor_errors(judged: Sequence[RowResult]) -> Errors:
    """Figures of the naive floor on the same rows; rows that it does not know are left out of its count."""
    return _figures([row.floor_error for row in judged if row.floor_error is not None])


def _figures(errors: Sequence[float], coverage: float | None = None, half_width: float | None = None) -> Errors:
    if not errors:
        return Errors(0)
    signed = np.asarray(errors)
    size = np.abs(signed)
    return Errors(
        count=len(signed),
        median_absolute_error=float(np.median(size)),
        mean_absolute_error=float(size.mean()),
        p90_absolute_error=float(np.quantile(size, 0.9)),
        mean_error=float(signed.mean()),
        coverage=coverage,
        median_half_width=half_width,
    )


def _skipped(results: Iterable[RowResult]) -> dict[str, int]:
    """Rows by reason, most frequent first; what differs from row to row is cut off."""
    counts: dict[str, int] = {}
    for row in results:
        reason = row.skipped_because
        if reason:
            name = reason if reason.startswith("unsupported") else reason.partition(":")[0]
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _groups(judged: Sequence[RowResult], name: Callable[[RowResult], str]) -> dict[str, Group]:
    """Groups by name, the largest first."""
    members: dict[str, list[RowResult]] = {}
    for row in judged:
        members.setdefault(name(row) or "not stated", []).append(row)
    ordered = sorted(members.items(), key=lambda item: (-len(item[1]), item[0]))
    return {key: Group(errors_of(rows), floor_errors(rows)) for key, rows in ordered}


def order_accuracy(judged: Iterable[RowResult]) -> tuple[float | None, int]:
    """Share of pairs in the right order and their number.

    A pair is two rows of one source, model, number of layers, GPUs and GPU whose published tokens/s differ by 5 % or
    more: would the faster layout have been chosen?
    """
    groups: dict[tuple[str, str, int, int | None, str], list[tuple[float, float]]] = {}
    for row in judged:
        if row.published and row.predicted and row.tokens:
            key = (row.source, row.model, row.layers, row.n_gpus, row.gpu)
            groups.setdefault(key, []).append((row.tokens / row.published, row.tokens / row.predicted))
    right, pairs = 0.0, 0
    for rates in groups.values():
        found, count = _right_pairs(np.asarray(rates))
        right, pairs = right + found, pairs + count
    return (right / pairs if pairs else None), pairs


def _right_pairs(rates: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> tuple[float, int]:
    """Pairs in the right order and pairs in all; `rates` (rows, 2) published and predicted tokens/s."""
    first, second = np.triu_indices(len(rates), 1)
    published, predicted = np.log(rates[first] / rates[second]).T
    told = np.abs(published) >= np.log1p(APART) - 1e-12
    agree = np.sign(published[told]) * np.sign(predicted[told])
    return float(np.sum((agree + 1) / 2)), int(told.sum())
