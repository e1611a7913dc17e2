"""Columns and characters."""

import io
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.layout import Page, aligned

CELLS = st.text(st.characters(codec="ascii", exclude_categories=("Cc", "Zs")), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=6), st.sets(st.integers(0, 2)))
def test_columns_begin_or_end_together(rows, right):
    text = aligned(rows, tuple(right)).split("\n")
    assert len(text) == len(rows)
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for line, row in zip(text, rows):
        assert line == line.rstrip()
        padded = line.ljust(sum(widths) + 4)
        start = 0
        for column, width in enumerate(widths):
            cell = padded[start : start + width]
            assert cell.strip() == row[column]
            assert cell == (row[column].rjust(width) if column in right else row[column].ljust(width))
            start += width + 2


@pytest.mark.parametrize(
    ("encoding", "bar"), [("utf-8", "█"), ("UTF8", "█"), ("ascii", "#"), ("latin-1", "#"), ("cp1252", "#")]
)
def test_characters_follow_the_output(monkeypatch, encoding, bar):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding))
    page = Page.for_output()
    assert page.bar == bar
    "".join((page.bar, page.dash, page.star, page.same)).encode(encoding)


def test_files_and_lost_outputs(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdout", None)
    assert Page.for_output().bar == "#"
    assert Page.for_output(tmp_path / "a.txt").bar == "█"
