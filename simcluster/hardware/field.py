"""One value of a catalogue entry: dimension, limits and meaning; and the units that only the catalogue needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from simcluster import units

Own: TypeAlias = Literal[
    "text",
    "degrees",
    "op_per_s",
    "rack_units",
    "per_s",
    "kg",
    "kg_per_joule",
    "m3_per_joule",
    "m3_per_s",
    "count_per_watt",
    "seconds_per_m",
    "metres",
    "watts_per_byte",
]
Dimension: TypeAlias = "units.Dimension | Own"

_PER_KWH = 1 / 3.6e6
_PER_DAY = 1 / units.DAY_S
OWN_UNITS: Mapping[str, Mapping[str, float]] = {
    "count": {"count": 1.0},
    "degrees": {"degC": 1.0},
    "op_per_s": {"TOP/s": 1e12},
    "rack_units": {"rack-unit": 1.0},
    "fraction": {"ratio": 1.0, "%": 0.01},
    "per_s": {
        "1/year": 1 / units.YEAR_S,
        "1/month": 1 / units.MONTH_S,
        "1/week": 1 / units.WEEK_S,
        "1/day": _PER_DAY,
        "1/1000-days": 1e-3 * _PER_DAY,
        "%/year": 0.01 / units.YEAR_S,
        "%/month": 0.01 / units.MONTH_S,
    },
    "kg": {"kgCO2e": 1.0, "tCO2e": 1e3},
    "kg_per_joule": {"gCO2e/kWh": 1e-3 * _PER_KWH},
    "m3_per_joule": {"L/kWh": 1e-3 * _PER_KWH},
    "m3_per_s": {"cfm": 4.719474432e-4},
    "count_per_watt": {"FTE/MW": 1e-6},
    "seconds_per_m": {"ns/m": 1e-9},
    "metres": {"m": 1.0},
    "watts_per_byte": {"kW/PB": 1e-12},
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value of an entry.

    dimension  fixes the SI unit of the value; "text" for words
    low, high  what is physically plausible, in SI units
    refers     kind whose id the text must be
    choices    the words that are allowed, empty: any
    """

    dimension: Dimension
    doc: str
    required: bool = False
    low: float = 0.0
    high: float = float("inf")
    refers: str = ""
    choices: tuple[str, ...] = ()


def si_factor(unit: str, dimension: Dimension) -> float:
    """SI size of one `unit`; ValueError if it is unknown or of another dimension.

    >>> si_factor("TFLOP/s", "flop_per_s"), si_factor("GiB", "bytes"), si_factor("degC", "degrees")
    (1000000000000.0, 1073741824.0, 1.0)
    """
    own = OWN_UNITS.get(dimension)
    if own is not None:
        if unit not in own:
            raise ValueError(f"{unit!r} is not a unit of {dimension}; write {' or '.join(own)}")
        return own[unit]
    return units.factor(unit, dimension)  # type: ignore[arg-type]


@lru_cache(maxsize=512)
def dimension_of(unit: str) -> Dimension:
    """Dimension that a unit belongs to; ValueError if none has it.

    >>> dimension_of("GB/s"), dimension_of("gCO2e/kWh"), dimension_of("USD/kW-month")
    ('bytes_per_s', 'kg_per_joule', 'usd_per_watt_s')
    """
    for own, known in OWN_UNITS.items():
        if unit in known:
            return own  # type: ignore[return-value]
    for dimension in get_args(units.Dimension):
        try:
            units.factor(unit, dimension)
        except ValueError:
            continue
        return dimension  # type: ignore[no-any-return]
    raise ValueError(f"{unit!r} is not a unit that is known; write one such as GB/s, W, USD, % or count")
