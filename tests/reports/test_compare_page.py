"""The page of a comparison."""

import pytest

from simcluster.reports import compare_page
from simcluster.reports.blocks import Table, cell_text
from simcluster.reports.compare_rows import Row
from simcluster.reports.layout import Page
from simcluster.reports.terminal import render


def rows_of(table):
    """{label without its mark: (mark, other cells)}."""
    found = {}
    for row in table.rows:
        label, *cells = map(cell_text, row)
        mark = label[0] if label[1:2] == " " else ""
        found[label[2:] if mark else label] = (mark, *cells)
    return found


def test_the_verdict_comes_first(pair, ascii_page):
    lines = render(compare_page.compare_blocks(pair, ascii_page), ascii_page).splitlines()
    assert lines[0].startswith("Take base: ")
    assert lines[0] == pair.verdict.sentence


def test_inputs_that_differ_and_no_others(pair, ascii_page):
    rows = rows_of(compare_page.inputs_block(pair, ascii_page))
    assert rows["cluster.fabric"][:4] == ("~", "ib-hdr-200", "->", "tcp-10")
    assert "network card" in rows
    one, two = (dict(one.evaluation.resolved.values) for one in pair.candidates)
    differing = {path for path in {*one, *two} if one.get(path, (None,))[0] != two.get(path, (None,))[0]}
    assert set(rows) - {"network card"} == differing


def test_numbers_that_differ_have_their_percent(versus, ascii_page):
    changes = ["cluster.nodes=4", "training.micro_batch=2", "training.software.overrides.bucket_bytes=1e9"]
    rows = rows_of(compare_page.inputs_block(versus({"big": changes}), ascii_page))
    assert rows["cluster.nodes"] == ("~", "2", "->", "4", "+100%")
    assert rows["training.micro_batch"] == ("~", "1", "->", "2", "+100%")
    assert rows["training.parallelism.dp"] == ("~", "4 *", "->", "8 *", "+100%")
    assert rows["training.software.bucket_bytes"] == ("~", "160 MB *", "->", "1 GB", "+525%")


def test_what_only_the_first_has_is_marked(versus, ascii_page):
    long = "cluster.fabric={protocol: roce, link: 200 Gbit/s, links_per_node: 8}"
    rows = rows_of(compare_page.inputs_block(versus({"inline": [long]}), ascii_page))
    assert rows["cluster.fabric"] == ("-", "ib-hdr-200", "->", "")
    assert all(len(cells) == 4 for cells in rows.values())  # nothing to say of changes: no such column
    assert rows["cluster.fabric.links_per_node"][0] == "+"


def test_alike_candidates(versus, ascii_page):
    same = versus({"again": []})
    assert compare_page.inputs_block(same, ascii_page).lines == ("No input differs.",)
    for table in (compare_page.results_table(same, ascii_page), compare_page.causes_table(same, ascii_page)):
        assert {mark for mark, *_ in rows_of(table).values()} <= {"=", " "}


def test_results_are_those_of_the_evaluations(pair, ascii_page):
    rows = rows_of(compare_page.results_table(pair, ascii_page))
    one, two = (one.evaluation.step for one in pair.candidates)
    label = next(label for label in rows if label.startswith("step time"))
    mark, old, arrow, new, gain = rows[label]
    size = {"ms": 1e-3, "s": 1.0}[label.split()[-1]]
    assert (mark, arrow) == ("+", "->")
    assert float(old.replace(",", "")) * size == pytest.approx(one.time_s, rel=6e-3)
    assert float(new.replace(",", "")) * size == pytest.approx(two.time_s, rel=6e-3)
    assert float(gain.strip("+%").replace(",", "")) == pytest.approx(100 * (two.time_s / one.time_s - 1), rel=6e-3)
    rate = next(label for label in rows if label.startswith("tokens/s/GPU"))
    assert rows[rate][0] == "-"
    assert rows["GPUs"] == ("=", "16", "->", "16", "")
    low, high = (pair.candidates[1].delta["step_time_s"].low, pair.candidates[1].delta["step_time_s"].high)
    shown = rows["difference, 80%"][3]
    ends = [float(part.strip("+%").replace(",", "")) for part in shown.partition(",  ")[0].split(" - ")[:1]]
    assert ends[0] == pytest.approx(100 * low / one.time_s, rel=6e-3)
    assert high > low > 0
    assert "faster: 0%" in shown


def test_changes_of_causes_sum_to_that_of_the_step(pair, ascii_page):
    rows = rows_of(compare_page.causes_table(pair, ascii_page))
    gains = [cells[-1] for cells in rows.values()]
    total = sum(float(gain.strip("%").replace(",", "")) for gain in gains if gain != "=")
    one, two = (one.evaluation.step.time_s for one in pair.candidates)
    assert total == pytest.approx(100 * (two / one - 1), rel=1e-2, abs=0.2)
    assert rows["ideal"][0] == "="


def test_three_stand_side_by_side_with_marks(three, ascii_page):
    inputs = compare_page.inputs_block(three, ascii_page)
    assert [column.header for column in inputs.columns] == ["inputs that differ", "base", "slow", "big"]
    rows = {row[0]: list(map(cell_text, row[1:])) for row in inputs.rows}
    assert rows["cluster.fabric"] == ["ib-hdr-200", "~ tcp-10", "  ib-hdr-200"]
    assert rows["cluster.nodes"] == ["2", "  2", "~ 4"]
    results = {
        row[0].split(",")[0]: list(map(cell_text, row[1:]))
        for row in compare_page.results_table(three, ascii_page).rows
    }
    assert results["step time"][1].startswith("+ ")
    assert results["GPUs"] == ["16", "= 16", "~ 32"]


def test_better_and_worse_are_coloured_and_the_rest_is_not(pair, ascii_page):
    table = compare_page.results_table(pair, ascii_page)
    styles = {cell_text(row[0]).split(",")[0]: row[0].style for row in table.rows}
    assert styles["+ step time"] == styles["- tokens/s/GPU"] == "bad"
    assert styles["= GPUs"] == styles["= peak memory"] == ""


def test_every_mark_is_in_the_legend(three, ascii_page):
    text = render(compare_page.compare_blocks(three, ascii_page), ascii_page)
    legend = text.split("\n\n")[-1]
    for sign in ("~ changed", "+ more or added", "- less or removed", "= the same", "* assumed", "d datasheet"):
        assert sign in legend
    assert text.count(" inputs stated; ") == 3


def test_pages_are_ascii_when_they_must_be_and_fit(pair, three, ascii_page):
    for comparison in (pair, three):
        assert render(compare_page.compare_blocks(comparison, ascii_page), ascii_page).isascii()
        narrow = render(compare_page.compare_blocks(comparison, Page()), Page(width=80))
        assert max(map(len, narrow.splitlines())) <= 80
        tables = [block for block in compare_page.compare_blocks(comparison, Page()) if isinstance(block, Table)]
        assert len(tables) == 3


def test_what_hardly_differs_is_called_the_same_but_its_change_is_told(pair, ascii_page):
    row = Row("step time, s", ["21.1", "21.1"], [0.0, -5e-5])
    assert compare_page.result_mark(ascii_page)(row, 1) == "="
    table = compare_page.side_by_side("results", [row], pair, ascii_page, compare_page.result_mark(ascii_page))
    assert rows_of(table)["step time, s"] == ("=", "21.1", "->", "21.1", "-0.0050%")
