"""Blocks as Markdown."""

import re

from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.blocks import Column, Points, Table, Words
from simcluster.reports.markdown import escaped, render


def test_page():
    table = Table(
        (Column("what"), Column("old", "right"), Column("", shown="text"), Column("new"), Column("bar", shown="roomy")),
        (("a|b", "1", "->", "2", "##"),),
    )
    assert render("x", [Words(("Take *b*.", "Why."), "strong"), Points("Open:", ("one", "two")), table]).split(
        "\n"
    ) == [
        "# x", "", r"**Take \*b\*.**", "", "Why.", "", "Open:", "", "- one", "- two", "",
        "| what | old | new |", "| --- | ---: | --- |", r"| a\|b | 1 | 2 |",
    ]  # fmt: skip


@given(st.text(max_size=20), st.text(max_size=20))
def test_cells_cannot_break_a_table(one, two):
    table = Table((Column(one), Column(two)), ((one, two),))
    lines = render("t", [table]).split("\n")[2:]
    assert len(lines) == 3
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3


def test_words_inside_names_stay_as_they_are():
    assert escaped("kernel_inefficiency") == "kernel_inefficiency"
    assert escaped("_x_ ~1~ `c` [l](u)") == r"\_x\_ \~1\~ \`c\` \[l\](u)"
