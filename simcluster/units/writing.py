"""Writes quantities with three significant digits, in the unit that reads best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeAlias

from simcluster.units.reading import BINARY, DAY_S, DECIMAL, HOUR_S, MINUTE_S, YEAR_S


def _significant(value: float) -> str:
    """Three significant digits without exponent, for 1e-4 <= |value| < 1e6."""
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


_Steps: TypeAlias = "list[tuple[float, float, str]]"  # from this size on, in units of, called; ascending


def _scaled(value: float, steps: _Steps) -> str:
    """Value to three digits in the last step that it reaches (the first one below that)."""
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be shown as a quantity")
    _, size, name = steps[0]
    for start, step, step_name in steps[1:]:
        if abs(value) >= start * (1 - 5e-4):  # 999.6 kB would be printed as 1000 kB
            size, name = step, step_name
    number = value / size
    short = 1e-4 <= abs(number) < 999_500 or number == 0
    return f"{_significant(float(f'{number:.3g}')) if short else f'{number:.3g}'}{name}"


def _steps(prefixes: Mapping[str, float], unit: str) -> _Steps:
    return [(size, size, unit.format(prefix)) for prefix, size in prefixes.items()]


_TIME_STEPS: _Steps = [
    (0, 1e-9, " ns"),
    (1e-6, 1e-6, " us"),
    (1e-3, 1e-3, " ms"),
    (1.0, 1.0, " s"),
    (2 * MINUTE_S, MINUTE_S, " min"),
    (2 * HOUR_S, HOUR_S, " h"),
    (2 * DAY_S, DAY_S, " days"),
    (2 * YEAR_S, YEAR_S, " years"),
]
_COUNT_PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "P": 1e15}
_BYTES = _steps(DECIMAL, " {}B")
_BINARY_BYTES = _steps({"": 1.0, **BINARY}, " {}B")
_BYTE_RATES = _steps(DECIMAL, " {}B/s")
_BIT_RATES = _steps(DECIMAL, " {}bit/s")
_POWERS = _steps(DECIMAL, " {}W")
_COUNTS = _steps(_COUNT_PREFIXES, "{}")
_MONEY = _steps(_COUNT_PREFIXES, "{} USD")


def format_seconds(value_s: float) -> str:
    """Time with three significant digits, in the unit that reads best.

    >>> format_seconds(0.01234), format_seconds(90), format_seconds(5400), format_seconds(86400 * 54)
    ('12.3 ms', '90 s', '90 min', '54 days')
    """
    return _scaled(value_s, _TIME_STEPS if value_s else [(0, 1.0, " s")])


def format_bytes(value_bytes: float, *, binary: bool = False) -> str:
    """Amount of data with three significant digits: GB = 1e9 bytes, GiB = 2^30.

    >>> format_bytes(80e9), format_bytes(80e9, binary=True), format_bytes(512)
    ('80 GB', '74.5 GiB', '512 B')
    """
    return _scaled(value_bytes, _BINARY_BYTES if binary else _BYTES)


def format_rate(value_bytes_per_s: float, *, bits: bool = False) -> str:
    """Data rate with three significant digits, in bytes or in bits per second.

    >>> format_rate(50e9), format_rate(50e9, bits=True)
    ('50 GB/s', '400 Gbit/s')
    """
    return _scaled(value_bytes_per_s * 8, _BIT_RATES) if bits else _scaled(value_bytes_per_s, _BYTE_RATES)


def format_power(value_w: float) -> str:
    """Power with three significant digits.

    >>> format_power(10200), format_power(700)
    ('10.2 kW', '700 W')
    """
    return _scaled(value_w, _POWERS)


def format_count(value: float) -> str:
    """Count with three significant digits: k, M, B (1e9), T (1e12).

    >>> format_count(1.4e12), format_count(6738415616), format_count(2048), format_count(12)
    ('1.4T', '6.74B', '2.05k', '12')
    """
    return _scaled(value, _COUNTS)


def format_percent(fraction: float) -> str:
    """Fraction as percent with three significant digits.

    >>> format_percent(0.4629), format_percent(0.2), format_percent(-0.071)
    ('46.3%', '20%', '-7.1%')
    """
    return _scaled(fraction * 100, [(0, 1.0, "%")])


def format_usd(value_usd: float) -> str:
    """Amount of money with three significant digits.

    >>> format_usd(12_345_678), format_usd(0.1234), format_usd(950)
    ('12.3M USD', '0.123 USD', '950 USD')
    """
    return _scaled(value_usd, _MONEY)
