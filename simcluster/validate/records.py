"""One published figure against its prediction."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RowResult:
    """A row of a table of published figures, predicted or skipped.

    published, predicted   in `unit`; None where there is none
    low, high              80 % interval of the prediction
    error                  predicted / published - 1
    floor                  what the naive floor predicts, None where no fit row is like it
    assumed                everything that the row left open, as "path = value: why"
    skipped_because        empty for a judged row
    kind                   dense or moe
    tokens                 tokens of a step, 0 if unknown
    """

    id: str = ""
    source: str = ""
    split: str = ""
    trust: str = ""
    gpu: str = ""
    n_gpus: int | None = None
    published: float | None = None
    predicted: float | None = None
    unit: str = "s"
    low: float | None = None
    high: float | None = None
    error: float | None = None
    grade: str = ""
    assumed: tuple[str, ...] = ()
    skipped_because: str = ""
    floor: float | None = None
    precision: str = ""
    kind: str = "dense"
    model: str = ""
    layers: int = 0
    tokens: float = 0.0

    @property
    def judged(self) -> bool:
        """Whether it has an error."""
        return self.error is not None

    @property
    def floor_error(self) -> float | None:
        """Error of the naive floor."""
        return None if self.floor is None or not self.published else self.floor / self.published - 1
