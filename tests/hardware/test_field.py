from __future__ import annotations

import pint
import pytest

from simcluster.hardware.field import OWN_UNITS, dimension_of, si_factor

UNITS = pint.UnitRegistry()


@pytest.mark.parametrize(
    ("unit", "dimension", "pint_unit"),
    [
        ("cfm", "m3_per_s", "foot ** 3 / minute"),
        ("%/year", "per_s", "0.01 / julian_year"),
        ("1/1000-days", "per_s", "0.001 / day"),
        ("1/week", "per_s", "1 / week"),
        ("gCO2e/kWh", "kg_per_joule", "gram / kilowatt_hour"),
        ("L/kWh", "m3_per_joule", "liter / kilowatt_hour"),
        ("kW/PB", "watts_per_byte", "kilowatt / (1e15 * count)"),
        ("ns/m", "seconds_per_m", "nanosecond / meter"),
        ("tCO2e", "kg", "metric_ton"),
        ("FTE/MW", "count_per_watt", "1 / megawatt"),
    ],
)
def test_own_units_against_pint(unit: str, dimension: str, pint_unit: str) -> None:
    assert dimension_of(unit) == dimension
    size = UNITS(pint_unit)
    assert si_factor(unit, dimension) == pytest.approx(size.to_base_units().magnitude)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "dimension"),
    [
        ("USD/GPU-h", "usd_per_gpu_s"), ("USD/kWh", "usd_per_joule"), ("USD/kW-month", "usd_per_watt_s"),
        ("USD/TB", "usd_per_byte"), ("USD/GB-month", "usd_per_byte_s"), ("USD/W", "usd_per_watt"),
        ("USD/h", "usd_per_s"), ("MWh", "joules"),
        ("weeks", "seconds"), ("Gbit/s", "bytes_per_s"), ("%", "fraction"), ("count", "count"),
    ],
)  # fmt: skip
def test_a_unit_tells_its_dimension(unit: str, dimension: str) -> None:
    assert dimension_of(unit) == dimension
    assert si_factor(unit, dimension_of(unit)) > 0


def test_no_two_dimensions_share_an_own_unit() -> None:
    units = [unit for known in OWN_UNITS.values() for unit in known]
    assert len(units) == len(set(units))


def test_unknown_units() -> None:
    with pytest.raises(ValueError, match="is not a unit that is known"):
        dimension_of("furlong")
    with pytest.raises(ValueError, match="write cfm"):
        si_factor("W", "m3_per_s")
