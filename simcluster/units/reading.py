"""Reads quantities as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

Dimension: TypeAlias = Literal[
    "bytes",
    "bytes_per_s",
    "count",
    "flop",
    "flop_per_s",
    "fraction",
    "hertz",
    "joules",
    "seconds",
    "tokens",
    "usd",
    "usd_per_byte",
    "usd_per_byte_s",
    "usd_per_gpu",
    "usd_per_gpu_s",
    "usd_per_joule",
    "usd_per_node",
    "usd_per_s",
    "usd_per_watt",
    "usd_per_watt_s",
    "watts",
]

Exponents: TypeAlias = "tuple[tuple[str, int], ...]"  # sorted (base, power) pairs, zero powers left out

MINUTE_S = 60.0
HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
WEEK_S = 7 * DAY_S
YEAR_S = 365.25 * DAY_S
MONTH_S = YEAR_S / 12


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a dimension is made of, how people write it, and whether a bare number can be meant in SI."""

    bases: Exponents
    forms: str
    bare: bool = False


def _kind(forms: str, *, bare: bool = False, **powers: int) -> _Kind:
    return _Kind(tuple(sorted(powers.items())), forms, bare)


KINDS: Mapping[str, _Kind] = {
    "bytes": _kind("'80 GB', '80 GiB' or '7.68 TB'", byte=1),
    "bytes_per_s": _kind("'400 Gbit/s' or '50 GB/s'", byte=1, s=-1),
    "count": _kind("8, '12k', '7.5M' or '1.4T'", bare=True),
    "flop": _kind("'3.1e24 FLOP' or '3.1 YFLOP'", flop=1),
    "flop_per_s": _kind("'989 TFLOP/s'", flop=1, s=-1),
    "fraction": _kind("'20%' or 0.2", bare=True),
    "hertz": _kind("'1.98 GHz'", s=-1),
    "joules": _kind("'2 MWh' or '5 kJ'", joule=1),
    "seconds": _kind("'500 ms', '10 min', '12 h', '4 days', '14 weeks' or '4 years'", bare=True, s=1),
    "tokens": _kind("'4M tokens' or '1.4T'", bare=True, token=1),
    "usd": _kind("'250000 USD' or '1.2M USD'", bare=True, usd=1),
    "usd_per_byte": _kind("'0.09 USD/GB'", usd=1, byte=-1),
    "usd_per_byte_s": _kind("'0.023 USD/GB-month'", usd=1, byte=-1, s=-1),
    "usd_per_gpu": _kind("'28000 USD/GPU'", usd=1, gpu=-1),
    "usd_per_gpu_s": _kind("'2.5 USD/GPU-h'", usd=1, gpu=-1, s=-1),
    "usd_per_joule": _kind("'0.12 USD/kWh' or '120 USD/MWh'", usd=1, joule=-1),
    "usd_per_node": _kind("'300000 USD/node'", usd=1, node=-1),
    "usd_per_s": _kind("'12 USD/h' or '5000 USD/month'", usd=1, s=-1),
    "usd_per_watt": _kind("'12 USD/W' or '12000 USD/kW'", usd=1, watt=-1),
    "usd_per_watt_s": _kind("'130 USD/kW-month'", usd=1, watt=-1, s=-1),
    "watts": _kind("'10.2 kW' or '700 W'", bare=True, watt=1),
}

DECIMAL = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21, "Y": 1e24}
_SMALL = {"m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6, "n": 1e-9}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
_SCALES = {
    **{key: value for key, value in DECIMAL.items() if key},
    **BINARY,
    "K": 1e3,
    "B": 1e9,
    "thousand": 1e3,
    "million": 1e6,
    "billion": 1e9,
    "trillion": 1e12,
}

_Units: TypeAlias = "dict[str, tuple[float, dict[str, int]]]"


def _prefixed(prefixes: Mapping[str, float], names: str, factor: float, bases: dict[str, int]) -> _Units:
    return {prefix + name: (factor * scale, bases) for prefix, scale in prefixes.items() for name in names.split()}


def _named(names: str, factor: float, bases: dict[str, int]) -> _Units:
    return dict.fromkeys(names.split(), (factor, bases))


def _table() -> _Units:
    second, byte, joule, watt = {"s": 1}, {"byte": 1}, {"joule": 1}, {"watt": 1}
    byte_prefixes = {**DECIMAL, **BINARY, "K": 1e3}
    return {
        **_prefixed(byte_prefixes, "B Byte Bytes byte bytes", 1.0, byte),
        **_prefixed(byte_prefixes, "b bit bits", 0.125, byte),
        **_prefixed(byte_prefixes, "bps", 0.125, {"byte": 1, "s": -1}),
        **_prefixed(byte_prefixes, "Bps", 1.0, {"byte": 1, "s": -1}),
        **_prefixed({**_SMALL, "": 1.0}, "s", 1.0, second),
        **_named("sec secs second seconds", 1.0, second),
        **_named("min mins minute minutes", MINUTE_S, second),
        **_named("h hr hrs hour hours", HOUR_S, second),
        **_named("d day days", DAY_S, second),
        **_named("week weeks wk", WEEK_S, second),
        **_named("month months mo", MONTH_S, second),
        **_named("year years yr y", YEAR_S, second),
        **_prefixed({**DECIMAL, "m": 1e-3}, "W", 1.0, watt),
        **_named("watt watts", 1.0, watt),
        **_prefixed(DECIMAL, "Wh W-h", HOUR_S, joule),
        **_prefixed(DECIMAL, "J", 1.0, joule),
        **_prefixed(DECIMAL, "FLOP FLOPs flop", 1.0, {"flop": 1}),
        **_prefixed(DECIMAL, "FLOPS", 1.0, {"flop": 1, "s": -1}),
        **_prefixed({"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9}, "Hz", 1.0, {"s": -1}),
        **_named("USD usd $ dollar dollars", 1.0, {"usd": 1}),
        **_named("token tokens tok", 1.0, {"token": 1}),
        **_named("GPU GPUs gpu gpus", 1.0, {"gpu": 1}),
        **_named("node nodes", 1.0, {"node": 1}),
        **_named("% percent", 0.01, {}),
    }


_TABLE: Mapping[str, tuple[float, dict[str, int]]] = _table()
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,4})?"
_QUANTITY = re.compile(rf"\s*(?P<usd>\$)?\s*(?P<number>{_NUMBER})\s*(?P<unit>.*?)\s*\Z", re.DOTALL)
_TEXT_LIMIT = 80


def parse(text: str | float, dimension: Dimension, *, bare: bool | None = None) -> float:
    """Value of a quantity in SI units.

    text       what the user wrote; a number where the field's SI unit is the natural one
    dimension  what it must be; fixes the SI unit of the result (fractions: 1)
    bare       accept a number without unit as SI; None: as is usual for the dimension (times, powers, USD, counts,
               fractions: yes; bytes, rates and prices: no). 0 needs no unit anywhere.

    Raises ValueError that says what was wrong and which forms are taken.

    >>> parse("400 Gbit/s", "bytes_per_s"), parse("400G", "bytes_per_s"), parse("80 GiB", "bytes")
    (50000000000.0, 50000000000.0, 85899345920.0)
    >>> parse("14 weeks", "seconds"), parse("20%", "fraction"), parse("4M tokens", "tokens")
    (8467200.0, 0.2, 4000000.0)
    >>> parse("400", "bytes_per_s")
    Traceback (most recent call last):
    ValueError: '400' has no unit; write it like '400 Gbit/s' or '50 GB/s'
    >>> parse("400 Gbit", "bytes_per_s")
    Traceback (most recent call last):
    ValueError: '400 Gbit' is an amount of data, not a data rate; write it like '400 Gbit/s' or '50 GB/s'
    """
    kind = KINDS[dimension]
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"{_shown(text)} is not a quantity; write it like {kind.forms}")  # noqa: TRY004
    if not isinstance(text, str):
        return _bare(float(text) if abs(text) < 1e300 else math.inf, text, dimension, bare)
    match = _QUANTITY.match(text) if len(text) <= _TEXT_LIMIT else None
    if match is None:
        raise ValueError(f"{_shown(text)} is not a quantity; write it like {kind.forms}")
    value = float(match["number"].replace(",", "").replace("_", ""))
    unit = match["unit"]
    if match["usd"]:  # $12/h, $1.2M
        unit = f"USD{unit}" if unit.startswith("/") else f"{unit} USD".strip()
    if not unit:
        return _bare(value, text, dimension, bare)
    try:
        factor = _factor(unit, dimension)
    except ValueError as error:
        raise ValueError(f"{_shown(text)} {error}; write it like {kind.forms}") from None
    return _finite(value * factor, text)


def factor(unit: str, dimension: Dimension) -> float:
    """SI size of one `unit`, for tables that hold number and unit apart.

    Raises ValueError when the unit is unknown or of another dimension.

    >>> factor("GB/s", "bytes_per_s"), factor("kW", "watts"), factor("USD/GPU-h", "usd_per_gpu_s") * 3600
    (1000000000.0, 1000.0, 1.0)
    """
    try:
        return _factor(unit.strip(), dimension)
    except ValueError as error:
        raise ValueError(f"{unit!r} {error}; units like {KINDS[dimension].forms} are taken") from None


def _bare(value: float, text: str | float, dimension: Dimension, bare: bool | None) -> float:
    kind = KINDS[dimension]
    allowed = kind.bare if bare is None else bare
    if not allowed and value != 0:
        raise ValueError(f"{_shown(text)} has no unit; write it like {kind.forms}")
    return _finite(value, text)


def _finite(value: float, text: object) -> float:
    if not math.isfinite(value):
        raise ValueError(f"{_shown(text)} is not a finite number")
    return value


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= _TEXT_LIMIT else f"{shown[:_TEXT_LIMIT]}…"


@lru_cache(maxsize=4096)
def _factor(unit: str, dimension: Dimension) -> float:
    scale, bases = _expression(unit, dimension)
    wanted = KINDS[dimension].bases
    found = tuple(sorted((base, power) for base, power in bases.items() if power))
    if found == wanted or (dimension in ("tokens", "usd") and not found):
        return scale
    raise ValueError(f"is {_described(found)}, not {_described(wanted)}")


def _expression(unit: str, dimension: Dimension) -> tuple[float, dict[str, int]]:
    """Factor and exponents of an expression such as 'M tokens', 'GB/s' or 'USD per kW-month'."""
    words = unit.split()
    if words[0] == "G" and len(words) == 1 and dimension == "bytes":
        raise ValueError("does not say bytes or bits")
    scale = 1.0
    if words[0] in _SCALES and (len(words) > 1 or dimension in ("count", "tokens", "usd")):
        scale = _SCALES[words[0]]
        words = words[1:]
    elif len(words) == 1 and words[0] in ("M", "G", "T") and dimension == "bytes_per_s":
        return DECIMAL[words[0]] / 8, {"byte": 1, "s": -1}  # "400G": a link's speed is said in bits
    text = re.sub(r"\s*/\s*", "/", " ".join("/" if word == "per" else word for word in words))
    bases: dict[str, int] = {}
    if not text:
        return scale, bases
    for index, part in enumerate(text.split("/")):
        sign = -1 if index else 1
        for atom in _atoms(part, dimension):
            size, powers = _atom(atom)
            scale *= size**sign
            for base, power in powers.items():
                bases[base] = bases.get(base, 0) + sign * power
    return scale, bases


def _atoms(part: str, dimension: Dimension) -> list[str]:
    if part in _TABLE:
        return [part]
    if not part:
        raise ValueError("lacks a unit beside '/'")
    ambiguous = re.fullmatch(r"[kmgtp]i?(b|bps)", part)
    if ambiguous and dimension in ("bytes", "bytes_per_s"):
        raise ValueError(f"does not say bits or bytes ({part!r}): lower-case prefix")
    return [atom for atom in re.split(r"[-*·\s]", part) if atom]


def _atom(name: str) -> tuple[float, dict[str, int]]:
    if name not in _TABLE:
        hint = {"m": " (write min or months)", "M": " (write months, or a unit after M)"}.get(name, "")
        raise ValueError(f"has the unknown unit {name!r}{hint}")
    return _TABLE[name]


_NAMES: Mapping[Exponents, str] = {
    (): "a plain number",
    (("byte", 1),): "an amount of data",
    (("byte", 1), ("s", -1)): "a data rate",
    (("flop", 1),): "an amount of work",
    (("flop", 1), ("s", -1)): "a compute rate",
    (("joule", 1),): "an energy",
    (("s", -1),): "a frequency",
    (("s", 1),): "a time",
    (("token", 1),): "a number of tokens",
    (("usd", 1),): "an amount of money",
    (("watt", 1),): "a power",
}


def _described(bases: Exponents) -> str:
    if bases in _NAMES:
        return _NAMES[bases]
    top = " ".join(base if power == 1 else f"{base}^{power}" for base, power in bases if power > 0)
    bottom = " ".join(base if power == -1 else f"{base}^{-power}" for base, power in bases if power < 0)
    return f"in {top or '1'} per {bottom}" if bottom else f"in {top}"
