"""What a look-up found: its number, its doubt, its age and the sentence that says why."""

from __future__ import annotations

import datetime
import math
import re
from pathlib import Path
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.field import dimension_of, si_factor
from simcluster.hardware.found import (
    Found,
    age_note,
    date_key,
    fact,
    found_fact,
    joined,
    newest_rent,
    range_spread,
)
from simcluster.hardware.quantity import Quantity
from simcluster.shapes import Provenance

TOLD = Provenance("USD", "a sheet", "2026-05", "datasheet")
QUOTE = Quantity(450e3, 450e3, TOLD, low=400e3, high=520e3)

FACTS = """
id: made-up
type: facts
sources:
  q: {source: a survey, date: "2025", kind: measured}
  guess: {source: a guess, date: "2025", kind: estimate}
table:
  - {name: "of percents", value: 20, unit: "%", low: 15, high: 30, from: q}
  - {name: "of weeks", unit: weeks, low: 30, high: 50, from: guess}
  - {name: "without a range", value: 1.25, unit: ratio, from: q}
"""
FOLDERS = ("facilities", "prices", "reliability", "storage")
RENT = """
id: market
type: cloud
sources: {{q: {{source: an index, date: "{date}", kind: measured}}}}
table: [{{instance: new, gpu: h100-80gb-sxm, gpus: 1, term: spot, value: 1.0, unit: USD/GPU-h, from: q}}]
"""


# --- a value with its provenance ------------------------------------------------------------------------------------


def test_a_catalogue_value_brings_its_source_and_its_range() -> None:
    found = Found.of(QUOTE, "a quote", "node-price")
    assert (found.value, found.why, found.row) == (450e3, "a quote", "node-price")
    assert (found.source, found.date, found.kind) == ("a sheet", "2026-05", "datasheet")
    assert found.spread == pytest.approx(0.102, abs=5e-4)  # ln(520/400)/2.563


def test_text_is_no_number() -> None:
    with pytest.raises(TypeError, match="text"):
        Found.of(Quantity("nvlink5", "nvlink5", TOLD), "a link")


@given(st.floats(1e-6, 1e6))
def test_a_multiple_is_as_doubtful_and_comes_from_the_same_row(factor: float) -> None:
    found = Found.of(QUOTE, "a quote", "node-price").times(factor, "so many")
    assert found == Found(450e3 * factor, "so many", "a sheet", "2026-05", "datasheet", found.spread, "node-price")
    assert found.spread == Found.of(QUOTE, "").spread
    assert found.times(1.0, "by size", "derived").kind == "derived"


@given(st.floats(1e-6, 1e9), st.floats(1e-3, 2.0))
def test_a_range_is_the_middle_four_fifths_of_a_log_normal_value(middle: float, sigma: float) -> None:
    side = math.exp(NormalDist().inv_cdf(0.9) * sigma)
    assert range_spread(middle / side, middle * side) == pytest.approx(sigma, rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high"), [(None, None), (None, 2.0), (1.0, None), (2.0, 2.0), (3.0, 2.0), (0.0, 1.0), (-1.0, 1.0), (-2, -1)]
)
def test_no_range_has_no_spread(low: float | None, high: float | None) -> None:
    assert range_spread(low, high) == 0.0


# --- facts ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """A catalogue with three made-up facts."""
    folder: Path = tmp_path_factory.mktemp("facts")
    (folder / "facilities").mkdir()
    (folder / "facilities" / "made-up.yaml").write_text(FACTS, encoding="utf-8")
    return Catalogue.load(folder)


def test_a_fact_says_its_name_its_range_as_written_and_its_date(facts: Catalogue) -> None:
    """The value is in SI units, the sentence in those of the file."""
    share = found_fact(facts, "facilities", "made-up", "of percents")
    assert share.value == pytest.approx(0.2)
    assert share.why == "of percents, 15 to 30 %, 2025"
    assert (share.source, share.date, share.kind, share.row) == ("a survey", "2025", "measured", "of percents")
    assert share.spread == pytest.approx(math.log(2) / 2.5631, rel=1e-4)


def test_a_range_alone_stands_for_its_middle(facts: Catalogue) -> None:
    weeks = found_fact(facts, "facilities", "made-up", "of weeks")
    assert weeks.value == pytest.approx(40 * 7 * 86400.0)
    assert (weeks.why, weeks.kind) == ("of weeks, 30 to 50 weeks, 2025", "estimate")


def test_a_fact_without_a_range_says_none(facts: Catalogue) -> None:
    plain = found_fact(facts, "facilities", "made-up", "without a range")
    assert (plain.value, plain.why, plain.spread) == (1.25, "without a range, 2025", 0.0)


def test_a_row_is_found_by_its_name(facts: Catalogue) -> None:
    row = fact(facts, "facilities", "made-up", "without a range")
    assert (row.name, row.quantity.number) == ("without a range", 1.25)
    with pytest.raises(KeyError):
        fact(facts, "facilities", "made-up", "nobody wrote this")


def test_every_fact_of_the_catalogue_is_told_in_its_own_unit(catalogue: Catalogue) -> None:
    """The range of the sentence, read back, is that of the row."""
    tables = [(kind, entry) for kind in FOLDERS for entry in catalogue.entries(kind) if entry.type == "facts"]
    ranges = [(kind, entry.id, row) for kind, entry in tables for row in entry.table if row.name and row.quantity.high]
    assert len(ranges) > 50
    for kind, id_, row in ranges:
        said = found_fact(catalogue, kind, id_, row.name).why.removeprefix(f"{row.name}, ")
        low, high, unit = re.match(r"(\S+) to (\S+) (.*), [^,]+$", said).groups()
        size = si_factor(unit, dimension_of(unit))
        assert float(low) * size == pytest.approx(row.quantity.low, rel=1e-3)
        assert float(high) * size == pytest.approx(row.quantity.high, rel=1e-3)


# --- dates ----------------------------------------------------------------------------------------------------------

DATES = st.dates(datetime.date(1990, 1, 1), datetime.date(2099, 12, 31))


@given(DATES, DATES)
def test_dates_sort_as_the_calendar_does(one: datetime.date, other: datetime.date) -> None:
    assert (date_key(str(one)) < date_key(str(other))) == (one < other)


@given(DATES)
def test_a_month_a_half_and_a_year_stand_for_their_last_day(day: datetime.date) -> None:
    year, month, half = f"{day:%Y}", f"{day:%Y-%m}", f"{day:%Y}-H{1 if day.month <= 6 else 2}"
    assert date_key(str(day)) <= date_key(month) <= date_key(half) <= date_key(year)
    following = day.replace(year=day.year + 1, month=1, day=1)
    assert date_key(year) < date_key(str(following))
    assert date_key(f"{day.year}-H1") < date_key(f"{day.year}-07-01")
    assert date_key(f"{day.year}-H2") == date_key(year)


@given(DATES, DATES)
def test_the_end_of_a_span_counts(start: datetime.date, end: datetime.date) -> None:
    assert date_key(f"{start}..{end:%Y-%m}") == date_key(f"{end:%Y-%m}")


@pytest.mark.parametrize("text", ["", "undated", "2026 or so", "2026-", "26"])
def test_what_is_no_date_is_older_than_any(text: str) -> None:
    assert date_key(text) == (0, 0, 0) < date_key("1900-01-01")


def test_today_is_the_newest_rent(catalogue: Catalogue, tmp_path: Path) -> None:
    """No file of a cloud holds a later date; a later quotation of one's own moves it."""
    year, month, _ = newest_rent(catalogue)
    assert all(
        date_key(row.quantity.provenance.date) <= newest_rent(catalogue)
        for cloud in catalogue.entries("clouds")
        for row in cloud.table
    )
    (tmp_path / "clouds").mkdir()
    (tmp_path / "clouds" / "market.yaml").write_text(RENT.format(date=f"{year + 1}-{month:02}-15"), encoding="utf-8")
    assert newest_rent(Catalogue.load(tmp_path)) == (year + 1, month, 15)


def test_a_price_is_old_when_it_is_more_than_a_year_behind(catalogue: Catalogue) -> None:
    year, month, _ = newest_rent(catalogue)
    before = f"{year - 1 - (month == 1)}-{(month - 2) % 12 + 1:02}"
    assert age_note(catalogue, f"{year - 1}-{month:02}") == ""
    assert age_note(catalogue, before) == f"an old price, {before}"
    assert age_note(catalogue, f"2015..{before}") == f"an old price, {before}"
    assert age_note(catalogue, f"2015..{year}") == ""
    assert age_note(catalogue, f"{year + 3}") == ""


def test_only_parts_that_say_something_are_joined() -> None:
    assert joined("a quote", "", "an old price, 2018") == "a quote; an old price, 2018"
    assert joined() == joined("", "") == ""
