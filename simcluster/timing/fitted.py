"""Values of software families that no document gives and that published runs can tell: fitted, bounded, few.

So far one: the host's cost of issuing a kernel (Python, autograd, recompute bookkeeping), by family.
`calibration/fit_families.py` writes them; a scenario's own overrides come after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class FittedValue:
    """A fitted value with its relative spread, the bounds that the fit respected, and the runs behind it."""

    value: float
    sigma: float
    low: float
    high: float
    rows: int
    source: str
    date: str
    kind: str

    @property
    def at_bound(self) -> bool:
        """True if the fit stopped at a bound: the data ask for more than the parameter may give."""
        return not self.low * 1.001 < self.value < self.high * 0.999


def fitted_path() -> Path:
    """File that holds the values."""
    return data_root("calibration") / "software" / "fitted" / "families.yaml"


@cache
def _families() -> Mapping[str, Mapping[str, FittedValue]]:
    path = fitted_path()
    if not path.is_file():
        return {}
    raw: dict[str, dict[str, dict[str, Any]]] = yaml.load(path.read_text(encoding="utf-8"), Loader=_LOADER) or {}
    try:
        return {
            family: {name: FittedValue(**entry) for name, entry in fields.items()} for family, fields in raw.items()
        }
    except (TypeError, AttributeError) as error:
        raise InputError(Problem(str(error), "write it with calibration/fit_families.py", Mark(str(path)))) from None


def fitted_fields(family: str) -> Mapping[str, FittedValue]:
    """Fitted fields of a software family; empty for one that no run could tell.

    >>> fitted_fields("unheard-of")
    {}
    """
    return _families().get(family, {})
