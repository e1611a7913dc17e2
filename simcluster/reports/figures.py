"""Numbers for tables: three significant digits, and one unit for all that stand in one column or row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Scale: TypeAlias = tuple[tuple[float, float, str], ...]  # from this size on, in units of, called; ascending

TIMES: Scale = (
    (0.0, 1e-9, "ns"),
    (1e-6, 1e-6, "us"),
    (1e-3, 1e-3, "ms"),
    (1.0, 1.0, "s"),
    (120.0, 60.0, "min"),
    (7200.0, 3600.0, "h"),
    (172800.0, 86400.0, "days"),
)
BINARY: Scale = ((0.0, 1.0, "B"), (2.0**10, 2.0**10, "KiB"), (2.0**20, 2.0**20, "MiB"), (2.0**30, 2.0**30, "GiB"))
COUNTS: Scale = ((0.0, 1.0, ""), (1e5, 1e3, "k"), (1e8, 1e6, "M"), (1e11, 1e9, "B"), (1e14, 1e12, "T"))
PERCENT: Scale = ((0.0, 0.01, "%"),)
PLAIN: Scale = ((0.0, 1.0, ""),)
WATTS: Scale = ((0.0, 1.0, "W"), (1e4, 1e3, "kW"), (1e7, 1e6, "MW"))
JOULES: Scale = ((0.0, 1e-3, "mJ"), (0.1, 1.0, "J"), (1e4, 1e3, "kJ"))
MONEY: Scale = ((0.0, 1.0, "USD"), (1e5, 1e3, "k USD"), (1e7, 1e6, "M USD"))
_PLACES = 4


def digits(value: float) -> str:
    """A number to three significant digits, at most four of them behind the point, never with an exponent below 1e6.

    >>> [digits(x) for x in (16.2028, 0.5598, 0.021585, 2022.4, 0, 0.00001234, -3.14159)]
    ['16.2', '0.560', '0.0216', '2,020', '0', '0.0000', '-3.14']
    """
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(float(f"{value:.3g}"))))
    if places < 0:
        return f"{round(value, places):,.0f}" if abs(value) < 999_500 else f"{value:.3g}"
    return f"{value:.{min(places, _PLACES)}f}"


def unit_of(values: Sequence[float], scale: Scale) -> tuple[float, str]:
    """Size and name of the unit that suits the largest of some values.

    >>> unit_of([0.02, 6.5], TIMES), unit_of([0.0], TIMES), unit_of([3 * 2.0**40], BINARY)
    ((1.0, 's'), (1.0, 's'), (1073741824.0, 'GiB'))
    """
    largest = max((abs(value) for value in values), default=0.0)
    if largest == 0:
        return (1.0, "s") if scale is TIMES else scale[-1][1:]
    fitting = [step[1:] for step in scale if largest >= step[0] * (1 - 5e-4)]
    return fitting[-1]


def in_one_unit(values: Sequence[float], scale: Scale) -> tuple[str, list[str]]:
    """Unit and texts of values that stand together.

    >>> in_one_unit([6.58, 0.0216, 0.0], TIMES)
    ('s', ['6.58', '0.0216', '0'])
    """
    size, name = unit_of(values, scale)
    return name, [digits(value / size) for value in values]


def change(relative: float) -> str:
    """A relative change with its sign, in percent.

    >>> change(0.02583), change(-0.5), change(0.0), change(5.0)
    ('+2.58%', '-50.0%', '0%', '+500%')
    """
    return f"{'+' if relative > 0 else ''}{digits(100 * relative)}%"
