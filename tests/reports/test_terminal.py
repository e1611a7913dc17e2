"""Blocks as text."""

import re

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.blocks import Cell, Column, Points, Table, Words
from simcluster.reports.layout import Page
from simcluster.reports.terminal import clean, render

WIDE = Table(
    (Column("what"), Column("s", "point"), Column("", shown="roomy"), Column("means")),
    (
        ("ideal", "12.5", "#####", "as fast as the datasheet says that it could be"),
        ("data_parallel", "0.0216", "#", "gradient reduction that nothing hides"),
        ("", "0", "", ""),
    ),
)


def test_points_meet():
    lines = render([WIDE], Page()).splitlines()
    assert lines[1].index(".") == lines[2].index(".")
    assert lines[3].index("0") == lines[1].index(".") - 1


@pytest.mark.parametrize("width", [None, 120, 80, 60, 50])
def test_nothing_is_lost_at_any_width(width):
    text = render([WIDE], Page(width=width))
    if width is not None:
        assert max(map(len, text.splitlines())) <= width
    words = {word for row in WIDE.rows for cell in (row[0], row[1], row[3]) for word in cell.split()}
    assert words <= set(text.split())


def test_a_bar_gives_way_first():
    needed = max(len(line) for line in render([WIDE], Page()).splitlines())
    assert "#####" in render([WIDE], Page(width=needed))
    narrow = render([WIDE], Page(width=needed - 1))
    assert "#" not in narrow
    assert len(narrow.splitlines()) == 4  # no cell had to be wrapped


def test_many_columns_go_below_each_other():
    names = [f"candidate-{index}" for index in range(6)]
    table = Table((Column("figure"), *(Column(name, "right") for name in names)), (("GPUs", *("1234567",) * 6),))
    text = render([table], Page(width=40))
    parts = text.split("\n\n")
    assert len(parts) > 1
    assert all("figure" in part for part in parts)
    assert all(re.search(r"^GPUs ", part, re.MULTILINE) for part in parts)
    assert text.count("1234567") == 6
    assert max(map(len, text.splitlines())) <= 40


def test_a_pipe_gets_whole_lines():
    sentence = "word " * 60
    assert render([Words((sentence,))], Page()).count("\n") == 0
    assert max(map(len, render([Words((sentence,))], Page(width=70)).splitlines())) <= 70


def test_lists_hang():
    text = render([Points("Open:", ("one two three four five six seven eight",))], Page(width=24))
    assert text.splitlines() == ["Open:", "  * one two three four", "    five six seven eight"]


STYLED = [
    Words(("Take b.", "Why: because."), "strong"),
    Table((Column("a"), Column("b", "right")), (("x", Cell("+ 1", "bad")), ("y", Cell("- 1", "good")))),
]


def test_colour_decorates_and_says_nothing_else():
    plain, coloured = render(STYLED, Page()), render(STYLED, Page(colour=True))
    assert "\x1b" not in plain
    assert coloured.count("\x1b[31m") == coloured.count("\x1b[32m") == 1
    assert click.unstyle(coloured) == plain


@given(st.text(max_size=40), st.booleans())
def test_names_steer_neither_terminal_nor_layout(name, colour):
    blocks = [Words((name,)), Table((Column(name), Column("n")), ((name, "1"), ("x", name)))]
    text = click.unstyle(render(blocks, Page(colour=colour)))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert len(text.split("\n")) == 5
    assert "\n" not in clean(name)


def test_wide_characters_keep_columns_straight():
    table = Table((Column("模型"), Column("n")), (("ab", "1"), ("größe", "2")))
    assert render([table], Page()).splitlines() == ["模型   n", "ab     1", "größe  2"]
