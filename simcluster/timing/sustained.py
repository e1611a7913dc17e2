"""Sustained rate of GEMMs over the rate of isolated kernels, one factor for each GPU generation.

Microbenchmarks run short, alone and cool. In training the clock falls to what the power limit allows, and operands are
dense random numbers. One bounded factor for each generation stands for both; `calibration/fit_sustained.py` sets it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from simcluster.data import data_root
from simcluster.errors import InputError, Mark, Problem

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class SustainedRate:
    """A factor on the isolated GEMM rate, 0 to 1.

    sigma     relative standard deviation
    low, high bounds that a fit respects
    rows      published runs behind it, 0 for a prior
    """

    value: float
    sigma: float
    low: float
    high: float
    source: str
    date: str
    kind: str
    rows: int = 0

    @property
    def at_bound(self) -> bool:
        """True if a fit stopped at a bound: then the data ask for more than the factor may give."""
        return self.rows > 0 and not self.low * 1.001 < self.value < self.high * 0.999


def _path() -> Path:
    return data_root("calibration") / "software" / "fitted" / "sustained.yaml"


def _rate(raw: Mapping[str, Any], where: str) -> SustainedRate:
    try:
        rate = SustainedRate(**raw)
    except TypeError as error:
        advice = "write it with calibration/fit_sustained.py"
        raise InputError(Problem(f"{where}: {error}", advice, Mark(str(_path())))) from None
    if not rate.low <= rate.value <= rate.high:
        raise InputError(Problem(f"{where}: {rate.value} lies outside its bounds", "", Mark(str(_path()))))
    return rate


@cache
def load_sustained() -> tuple[SustainedRate, Mapping[str, SustainedRate]]:
    """The prior and the fitted factors by generation.

    >>> prior, fitted = load_sustained()
    >>> prior.low < prior.value < prior.high
    True
    """
    raw = yaml.load(_path().read_text(encoding="utf-8"), Loader=_LOADER)
    prior = _rate(raw["prior"], "prior")
    return prior, {name: _rate(entry, name) for name, entry in raw["generations"].items()}


def sustained_rate(generation: str) -> SustainedRate:
    """Factor of a GPU generation; the prior, with its spread, for one that has no fit.

    >>> sustained_rate("unheard-of").rows
    0
    """
    prior, fitted = load_sustained()
    return fitted.get(generation, replace(prior, rows=0))


@cache
def model_residual() -> float:
    """Relative standard deviation of step times that the terms above leave unexplained, from the fit rows.

    >>> 0 < model_residual() < 0.5
    True
    """
    raw = yaml.load(_path().read_text(encoding="utf-8"), Loader=_LOADER)
    return float(raw["residual"]["sigma"])
