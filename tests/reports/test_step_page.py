"""The page of one step."""

import pytest

from simcluster.reports import step_page
from simcluster.reports.layout import Page
from simcluster.reports.terminal import render


def test_headline_states_job_speed_and_memory(run, ascii_page):
    job, speed, memory = step_page.headline(run(), ascii_page)
    assert job == ("base: inline on 16 GPUs (2 x dgx-a100-80gb, ib-hdr-200), tp 2 pp 2 dp 4, 16 micro-batches of 1")
    for words in ("80% interval", "grade", "MFU", "tokens/s"):
        assert words in speed
    assert memory.startswith("It fits in memory: ")


def test_further_degrees_are_named(run):
    layout = {"parallelism": {"tp": 2, "pp": 1, "cp": 2}, "global_batch": 64}
    assert step_page.layout_words(run({"training": layout})).startswith("tp 2 pp 1 dp 4 cp 2, ")


@pytest.mark.parametrize(
    ("change", "words"),
    [({}, "It fits in memory"), ({"training": {"sequence_length": 262144, "global_batch": 8}}, "It does not fit")],
)
def test_memory_sentence(run, change, words):
    assert step_page.memory_sentence(run(change)).startswith(words)


def test_waterfall_shares_are_those_of_the_step(run, ascii_page):
    evaluation = run()
    rows = step_page.waterfall_table(evaluation, ascii_page).rows
    shares = [float(row[2]) for row in rows]
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.5)
    assert shares[-1] == 100
    assert [row[0] for row in rows] == [*dict(evaluation.waterfall.items()), "step"]
    for row, share in zip(rows[:-1], shares):
        assert row[3] == "#" * round(24 * share / 100)


def test_times_of_a_table_have_one_unit(run, ascii_page):
    evaluation = run()
    table = step_page.waterfall_table(evaluation, ascii_page)
    size = {"ms": 1e-3, "s": 1.0}[table.columns[1].header]
    assert float(table.rows[-1][1].replace(",", "")) * size == pytest.approx(evaluation.step.time_s, rel=6e-3)
    assert sum(float(row[1]) for row in table.rows[:-1]) * size == pytest.approx(evaluation.step.time_s, rel=1e-2)


def test_rounding_is_not_shown_as_a_loss(run, ascii_page):
    """Without a pipeline the bubble is a difference of equal sums."""
    for change in ({"training": {"parallelism": {"tp": tp, "pp": 1}}} for tp in (1, 2, 4, 8)):
        rows = {row[0]: row for row in step_page.waterfall_table(run(change), ascii_page).rows}
        assert rows["pipeline_bubble"][1:3] == ("0", "0")


def test_memory_table_adds_up(run):
    rows = step_page.memory_table(run()).rows
    sizes = {name: float(size) for name, size in rows}
    parts = sum(size for name, size in sizes.items() if not name.startswith("total"))
    assert parts == pytest.approx(sizes["total (device)"], abs=0.01 * len(sizes))


def test_the_page_is_ascii_when_it_must_be_and_fits(run, ascii_page):
    evaluation = run()
    assert render(step_page.simulate_blocks(evaluation, ascii_page), ascii_page).isascii()
    narrow = render(step_page.simulate_blocks(evaluation, Page()), Page(width=80))
    assert max(map(len, narrow.splitlines())) <= 80
