"""The form of the JSON answer of `validate`, key by key; see `record_types`."""

from __future__ import annotations

from typing_extensions import TypedDict

from simcluster.reports.record_types import MetaRecord, described


@described
class RowRecord(TypedDict):
    """A row of a table of published figures, predicted or skipped; null where there is no figure."""

    id: str
    source: str
    split: str
    trust: str
    gpu: str
    n_gpus: int | None
    published: float | None
    """In `unit`."""
    predicted: float | None
    """In `unit`."""
    unit: str
    low: float | None
    """Lower end of the 80 % interval of the prediction."""
    high: float | None
    """Upper end of the 80 % interval of the prediction."""
    error: float | None
    """Predicted over published, minus 1."""
    grade: str
    assumed: list[str]
    """What the row left open, as "path = value: why"."""
    skipped_because: str | None
    """Null for a judged row."""
    floor: float | None
    """What the naive floor predicts, in `unit`."""
    precision: str
    kind: str
    """dense or moe."""
    model: str
    layers: int
    tokens: float
    """Tokens of a step, 0 where unknown."""


@described
class ErrorsRecord(TypedDict):
    """Figures of relative errors (predicted over published, minus 1); null where there is nothing to average."""

    count: int
    median_absolute_error: float | None
    mean_absolute_error: float | None
    p90_absolute_error: float | None
    mean_error: float | None
    """Signed: above zero, predictions are too slow on average."""
    coverage: float | None
    """Share of rows whose published figure lies in the 80 % interval."""
    median_half_width: float | None
    """Of the 80 % intervals, over the prediction."""


@described
class GroupRecord(ErrorsRecord):
    """Rows that share something, beside the naive floor on the same rows."""

    naive_floor: ErrorsRecord


@described
class SummaryRecord(GroupRecord):
    """All rows of a table."""

    skipped: dict[str, int]
    """Rows by reason."""
    order_accuracy: float | None
    """Share of pairs of layouts of one job put in the right order."""
    order_pairs: int
    by_gpu: dict[str, GroupRecord]
    by_source: dict[str, GroupRecord]
    by_split: dict[str, GroupRecord]
    by_trust: dict[str, GroupRecord]
    by_precision: dict[str, GroupRecord]
    by_kind: dict[str, GroupRecord]


@described
class ValidateRecord(TypedDict):
    """Answer of `validate`."""

    schema_version: str
    kind: str
    """training, memory, collectives, gemm, attention or diagnose."""
    rows: list[RowRecord]
    summary: SummaryRecord
    meta: MetaRecord
