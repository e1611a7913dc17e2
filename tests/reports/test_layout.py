"""Signs, width and colour of a page; columns of text."""

import io
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.layout import Page, aligned, text_width

CELLS = st.text(st.characters(codec="ascii", exclude_categories=("Cc", "Zs")), max_size=12)


class Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch):
    """`terminal()` makes the standard output a terminal of 72 columns, without a word about colour."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((72, 20)))

    def make(encoding: str = "utf-8") -> None:
        monkeypatch.setattr(sys, "stdout", Terminal(io.BytesIO(), encoding))

    return make


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
    "".join((page.bar, page.dash, page.star, page.same, page.arrow)).encode(encoding)


def test_files_and_lost_outputs(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdout", None)
    assert Page.for_output().bar == "#"
    assert Page.for_output(tmp_path / "a.txt").bar == "█"


def test_a_terminal_sets_width_and_colour(terminal, tmp_path):
    terminal()
    assert (Page.for_output().width, Page.for_output().colour) == (72, False)
    assert Page.for_output(colour="auto").colour
    file = tmp_path / "a.txt"
    assert (Page.for_output(file).width, Page.for_output(file, "auto").colour) == (None, False)
    terminal("ascii")
    assert (Page.for_output().width, Page.for_output().bar) == (72, "#")


def test_a_pipe_has_neither(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "utf-8"))
    monkeypatch.setenv("COLUMNS", "40")
    assert (Page.for_output().width, Page.for_output(colour="auto").colour) == (None, False)
    assert Page.for_output(colour="always").colour


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colour_can_be_refused_and_demanded(terminal, monkeypatch, name, value):
    terminal()
    monkeypatch.setenv(name, value)
    assert [Page.for_output(colour=word).colour for word in ("auto", "always", "never")] == [False, True, False]
    monkeypatch.setenv(name, "")
    assert [Page.for_output(colour=word).colour for word in ("auto", "always", "never")] == [True, True, False]


def test_wide_and_combining_characters():
    assert [text_width(text) for text in ("abc", "模型", "e\u0301", "größe")] == [3, 4, 1, 5]
