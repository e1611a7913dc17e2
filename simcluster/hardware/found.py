"""A number that a look-up found, with the sentence and the source that the list of assumptions shows."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Row
from simcluster.hardware.quantity import Quantity

_OLD_MONTHS = 12
_Z80 = 1.2815515655446004  # half-width of an 80 % interval in standard deviations
_DATE = re.compile(r"(\d{4})(?:-(\d{2}|H[12])(?:-(\d{2}))?)?$")
_HALVES = {"H1": 6, "H2": 12}


@dataclass(frozen=True, slots=True)
class Found:
    """One value in SI units and why it is the one.

    why     one short sentence for the list of assumptions
    source  id of sources.yaml, or words
    date    of the value, such as 2026-09 or 2024..2026
    kind    datasheet, measured, estimate or derived
    spread  standard deviation of ln value, where sources give a range or differ; 0 where nobody says
    row     what it was read from: values of the same row are wrong together
    """

    value: float
    why: str
    source: str
    date: str
    kind: str
    spread: float = 0.0
    row: str = ""

    @classmethod
    def of(cls, quantity: Quantity, why: str, row: str = "") -> Found:
        """The number of a catalogue value with its provenance."""
        told, spread = quantity.provenance, range_spread(quantity.low, quantity.high)
        return cls(quantity.number, why, told.source, told.date, told.kind, spread, row)

    def times(self, factor: float, why: str, kind: str = "") -> Found:
        """The value times a factor, for another reason and, where given, as another kind of evidence.

        >>> Found(2.0, "two", "a sheet", "2026", "datasheet").times(3.0, "thrice", "derived").value
        6.0
        """
        return replace(self, value=self.value * factor, why=why, kind=kind or self.kind)


def range_spread(low: float | None, high: float | None) -> float:
    """Standard deviation of ln value that a range stands for, taken as 80 %; 0 without one.

    >>> round(range_spread(400e3, 520e3), 3), range_spread(None, 2.0)
    (0.102, 0.0)
    """
    return math.log(high / low) / (2 * _Z80) if low and high and high > low > 0 else 0.0


def fact(catalogue: Catalogue, kind: str, entry: str, name: str) -> Row:
    """Row of a file of facts.

    >>> str(fact(Catalogue.load(), "facilities", "pue", "hyperscale fleet").quantity)
    '1.1 ratio'
    """
    return catalogue.entry(kind, entry).row(name)


def found_fact(catalogue: Catalogue, kind: str, entry: str, name: str) -> Found:
    """Value of a row of facts; its name is the reason."""
    row = fact(catalogue, kind, entry, name)
    return Found.of(row.quantity, _sentence(name, row.quantity), name)


def date_key(date: str) -> tuple[int, int, int]:
    """Last day that a date stands for, as year, month, day; the end of a span counts. For sorting.

    >>> date_key("2026-09-17"), date_key("2024..2026-H1"), date_key("2025")
    ((2026, 9, 17), (2026, 6, 31), (2025, 12, 31))
    """
    match = _DATE.search(date)
    if match is None:
        return (0, 0, 0)
    year, month, day = match.groups()
    return int(year), int(_HALVES.get(month, month) or 12), int(day or 31)


def newest_rent(catalogue: Catalogue) -> tuple[int, int, int]:
    """Newest date of a rent in the catalogue: what "today" means for prices."""
    dates = [row.quantity.provenance.date for cloud in catalogue.entries("clouds") for row in cloud.table]
    return max((date_key(date) for date in dates), default=(0, 0, 0))


def age_note(catalogue: Catalogue, date: str) -> str:
    """Words for a price that is over a year older than the newest rent, else "".

    >>> age_note(Catalogue.load(), "2017..2018"), age_note(Catalogue.load(), "2026-05")
    ('an old price, 2018', '')
    """
    now, then = newest_rent(catalogue), date_key(date)
    months = 12 * (now[0] - then[0]) + now[1] - then[1]
    return f"an old price, {date.rsplit('..', maxsplit=1)[-1]}" if months > _OLD_MONTHS else ""


def joined(*parts: str) -> str:
    """The parts that say something, with semicolons between them."""
    return "; ".join(part for part in parts if part)


def _sentence(name: str, quantity: Quantity) -> str:
    unit = quantity.provenance.unit
    span = ""
    if quantity.low is not None and quantity.high is not None and not isinstance(quantity.value, str):
        scale = quantity.value / float(quantity.written) if quantity.written else 1.0
        span = f", {quantity.low / scale:.4g} to {quantity.high / scale:.4g} {unit}"
    return f"{name}{span}, {quantity.provenance.date}"
