from __future__ import annotations

import contextlib
import math

import pint
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster import units
from simcluster.units.reading import KINDS

PINT = pint.UnitRegistry()
PINT.define("USD = [currency]")

SIZES = st.floats(min_value=1e-3, max_value=1e17, allow_nan=False)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("400 Gbit/s", "bytes_per_s", 50e9),
        ("400G", "bytes_per_s", 50e9),
        ("1.6T", "bytes_per_s", 200e9),
        ("400Gb/s", "bytes_per_s", 50e9),
        ("400Gbps", "bytes_per_s", 50e9),
        ("20 GB/s", "bytes_per_s", 20e9),
        ("50 GBps", "bytes_per_s", 50e9),
        ("80GB", "bytes", 80e9),
        ("80 GiB", "bytes", 80 * 2**30),
        ("10 min", "seconds", 600),
        ("12 h", "seconds", 43200),
        ("4 days", "seconds", 345600),
        ("14 weeks", "seconds", 14 * 604800),
        ("4 years", "seconds", 4 * 365.25 * 86400),
        ("500 ms", "seconds", 0.5),
        (90, "seconds", 90),
        ("12 USD/h", "usd_per_s", 12 / 3600),
        ("$12/h", "usd_per_s", 12 / 3600),
        ("12 USD per hour", "usd_per_s", 12 / 3600),
        ("2.5 USD/GPU-h", "usd_per_gpu_s", 2.5 / 3600),
        ("2.5 USD/GPU/h", "usd_per_gpu_s", 2.5 / 3600),
        ("0.12 USD/kWh", "usd_per_joule", 0.12 / 3.6e6),
        ("130 USD/kW-month", "usd_per_watt_s", 130 / 1000 / (730.5 * 3600)),
        ("$1.2M", "usd", 1.2e6),
        ("10.2 kW", "watts", 10200),
        ("1.4T", "tokens", 1.4e12),
        ("4M tokens", "tokens", 4e6),
        ("4Mi tokens", "tokens", 4 * 2**20),
        ("2 trillion tokens", "tokens", 2e12),
        ("300B", "tokens", 300e9),
        ("11,636", "count", 11636),
        ("1_000", "count", 1000),
        ("5e8", "count", 5e8),
        ("20%", "fraction", 0.2),
        ("20 percent", "fraction", 0.2),
        (0.2, "fraction", 0.2),
        ("989 TFLOP/s", "flop_per_s", 989e12),
        ("989 TFLOPS", "flop_per_s", 989e12),
        (0, "bytes_per_s", 0),
    ],
)
def test_forms_that_people_write(text, dimension, value):
    assert units.parse(text, dimension) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "dimension", "said"),
    [
        ("400", "bytes_per_s", "has no unit"),
        (400, "bytes_per_s", "has no unit"),
        ("80", "bytes", "has no unit"),
        ("80 G", "bytes", "bytes or bits"),
        ("400 gb/s", "bytes_per_s", "bits or bytes"),
        ("400 Gbit", "bytes_per_s", "amount of data, not a data rate"),
        ("10 m", "seconds", "write min or months"),
        ("5 parsec", "seconds", "unknown unit 'parsec'"),
        ("130 USD/kW-month", "usd_per_joule", "not in usd per joule"),
        ("0.12 USD/kWh", "usd_per_watt_s", "not in usd per s watt"),
        ("12 USD", "usd_per_s", "amount of money"),
        ("", "seconds", "not a quantity"),
        ("fast", "seconds", "not a quantity"),
        (True, "count", "not a quantity"),
        (None, "count", "not a quantity"),
        ("1e999", "count", "not a finite number"),
        (float("nan"), "seconds", "not a finite number"),
        (10**400, "count", "not a finite number"),
        ("9" * 100, "count", "not a quantity"),
        ("4 s/", "seconds", "lacks a unit"),
    ],
)
def test_refused_with_the_accepted_forms(text, dimension, said):
    with pytest.raises(ValueError) as caught:
        units.parse(text, dimension)
    assert said in str(caught.value)
    if "finite" not in said:
        assert "write it like '" in str(caught.value) or "write it like 8" in str(caught.value)


@pytest.mark.parametrize(
    ("unit", "dimension", "in_pint", "si"),
    [
        ("GB/s", "bytes_per_s", "gigabyte/second", "byte/second"),
        ("Gbit/s", "bytes_per_s", "gigabit/second", "byte/second"),
        ("TiB", "bytes", "tebibyte", "byte"),
        ("MB", "bytes", "megabyte", "byte"),
        ("month", "seconds", "month", "second"),
        ("week", "seconds", "week", "second"),
        ("years", "seconds", "year", "second"),
        ("us", "seconds", "microsecond", "second"),
        ("MWh", "joules", "megawatt_hour", "joule"),
        ("kW", "watts", "kilowatt", "watt"),
        ("GHz", "hertz", "gigahertz", "1/second"),
        ("USD/kWh", "usd_per_joule", "USD/(kilowatt*hour)", "USD/joule"),
        ("USD/kW-month", "usd_per_watt_s", "USD/(kilowatt*month)", "USD/(watt*second)"),
        ("USD/GB-month", "usd_per_byte_s", "USD/(gigabyte*month)", "USD/(byte*second)"),
        ("USD/h", "usd_per_s", "USD/hour", "USD/second"),
    ],
)
def test_factors_agree_with_pint(unit, dimension, in_pint, si):
    assert units.factor(unit, dimension) == pytest.approx(PINT.Quantity(1.0, in_pint).to(si).magnitude, rel=1e-12)


def test_factor_says_which_units_are_taken():
    with pytest.raises(ValueError, match=r"'GB' is an amount of data, not a data rate; units like '400 Gbit/s'"):
        units.factor("GB", "bytes_per_s")


def test_bare_numbers_can_be_allowed_and_forbidden():
    assert units.parse(50e9, "bytes_per_s", bare=True) == 50e9
    with pytest.raises(ValueError, match="14 has no unit"):
        units.parse(14, "seconds", bare=False)


@given(SIZES)
def test_formats_read_back(value):
    half_digit = 5.1e-3
    pairs = [
        (units.format_seconds(value), "seconds"),
        (units.format_bytes(value), "bytes"),
        (units.format_bytes(value, binary=True), "bytes"),
        (units.format_rate(value), "bytes_per_s"),
        (units.format_rate(value, bits=True), "bytes_per_s"),
        (units.format_power(value), "watts"),
        (units.format_count(value), "count"),
        (units.format_usd(value), "usd"),
        (units.format_percent(value), "fraction"),
    ]
    for text, dimension in pairs:
        assert units.parse(text, dimension) == pytest.approx(value, rel=half_digit), text


@given(SIZES, st.sampled_from(["format_seconds", "format_bytes", "format_rate", "format_count", "format_usd"]))
def test_formats_keep_sign_and_stay_short(value, name):
    formatter = getattr(units, name)
    assert formatter(-value) == "-" + formatter(value)
    assert len(formatter(value)) <= 14


@given(st.text(max_size=30), st.sampled_from(sorted(KINDS)))
def test_any_text_gives_a_number_or_a_value_error(text, dimension):
    with contextlib.suppress(ValueError):
        assert math.isfinite(units.parse(text, dimension))


def test_rounding_moves_to_the_next_prefix():
    assert units.format_count(999_700) == "1M"
    assert units.format_bytes(999.9e9) == "1 TB"
    assert units.format_seconds(0.9999) == "1 s"
    assert units.format_seconds(0) == "0 s"
    assert units.format_bytes(0) == "0 B"
    with pytest.raises(ValueError, match="cannot be shown"):
        units.format_bytes(math.inf)
