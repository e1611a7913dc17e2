"""Other names of an entry, some of them bound to a date or to a number of cards."""

from __future__ import annotations

import re
from dataclasses import dataclass

_DATE = r"\d{4}(?:-\d{2}){0,2}"
_WHEN = re.compile(rf"(?:<|>=)\s*{_DATE}|{_DATE}\s*\.\.\s*{_DATE}")


@dataclass(frozen=True, slots=True)
class Alias:
    """A name that people use for an entry; looked up without regard to case.

    when      dates for which it holds: "<2022-05", "2022-05..2022-12" (both ends in), ">=2023"; empty: always
    assumed   the name does not settle the entry, this is its usual reading
    nics      cards per node that the name states, 0 if it states none

    >>> Alias("Big", when="2022-05..2022-12").holds("2022-12-31"), Alias("Big", when=">=2023").holds("2022")
    (True, False)
    """

    name: str
    when: str = ""
    assumed: bool = False
    nics: int = 0

    @property
    def key(self) -> str:
        """The form that is compared."""
        return fold(self.name)

    def holds(self, date: str | None) -> bool:
        """Whether the alias means its entry on `date` (ISO, may be cut short); an undated question needs no `when`."""
        if not self.when:
            return True
        if not date:
            return False
        if self.when.startswith("<"):
            return date < self.when[1:].strip()
        if self.when.startswith(">="):
            return date >= self.when[2:].strip()
        first, last = (part.strip() for part in self.when.split(".."))
        return first <= date and (date < last or date.startswith(last))


def fold(name: str) -> str:
    """Form in which names are compared: case and outer blanks do not matter.

    >>> fold(" DGX-H100 ")
    'dgx-h100'
    """
    return name.strip().casefold()


def is_when(text: str) -> bool:
    """Whether `text` is a legal range of dates.

    >>> is_when("<2022-05"), is_when("before 2022")
    (True, False)
    """
    return bool(_WHEN.fullmatch(text))
