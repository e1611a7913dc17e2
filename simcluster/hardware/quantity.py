"""A catalogue value with everything that is known about it: SI number, as written, range, provenance, conflicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from simcluster.shapes import Provenance

KINDS_OF_EVIDENCE = ("datasheet", "measured", "estimate", "derived")
CONFIDENCES = ("high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Quantity:
    """One value of an entry.

    value        SI number, or text
    written      number or text as the file has it, in `provenance.unit`
    provenance   unit, source, date, kind, note
    low, high    range in SI units, where the source gives one
    conflicts    what other sources say; never mixed into `value`
    confidence   high, medium or low, "" where nobody judged it

    >>> q = Quantity(7e2, 700, Provenance("W", "h100-sheet", "2022", "datasheet"))
    >>> str(q), q.is_prior
    ('700 W', False)
    """

    value: float | str
    written: float | str
    provenance: Provenance
    low: float | None = None
    high: float | None = None
    conflicts: tuple[Quantity, ...] = ()
    confidence: str = ""

    def __str__(self) -> str:
        unit = "" if self.provenance.unit == "count" else self.provenance.unit
        written = self.written if isinstance(self.written, str) else f"{self.written:.10g}"
        return f"{written} {unit}".rstrip()

    @property
    def number(self) -> float:
        """The SI number; TypeError for text."""
        if isinstance(self.value, str):
            raise TypeError(f"{self.value!r} is text, not a number")
        return self.value

    @property
    def is_prior(self) -> bool:
        """True if nothing but an estimate backs the value (grade D)."""
        return self.provenance.kind == "estimate"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, value in SI units."""
        source = self.provenance
        plain: dict[str, Any] = {
            "value": self.value,
            "written": str(self),
            "unit": source.unit,
            "source": source.source,
            "date": source.date,
            "kind": source.kind,
        }
        optional: dict[str, Any] = {"note": source.note or None, "low": self.low, "high": self.high}
        optional |= {"confidence": self.confidence or None}
        plain.update({key: value for key, value in optional.items() if value is not None})
        if self.conflicts:
            plain["conflicts"] = [other.to_dict() for other in self.conflicts]
        return plain
