from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.hardware.alias import Alias, fold, is_when

DATES = st.dates().map(lambda d: d.isoformat())


@pytest.mark.parametrize(
    ("when", "date", "holds"),
    [
        ("<2022-05", "2022-04-30", True),
        ("<2022-05", "2022-05", False),
        ("2022-05..2022-12", "2022-05-01", True),
        ("2022-05..2022-12", "2022-12-31", True),
        ("2022-05..2022-12", "2023-01-01", False),
        (">=2023", "2023-01-01", True),
        (">=2023", "2022-12-31", False),
        (">=2023", None, False),
        ("", None, True),
    ],
)
def test_dates(when: str, date: str | None, holds: bool) -> None:
    assert Alias("x", when=when).holds(date) is holds


@given(DATES)
def test_three_ranges_cover_every_date_once(date: str) -> None:
    ranges = ("<2022-05", "2022-05..2022-12", ">=2023")
    assert sum(Alias("Megatron-LM", when=when).holds(date) for when in ranges) == 1


def test_case_and_blanks_do_not_matter() -> None:
    assert fold(" NDR400 IB ") == Alias("ndr400 ib").key


def test_shape_of_when() -> None:
    assert is_when("2022-05..2022-12")
    assert not is_when("2022-5..2022-12")
