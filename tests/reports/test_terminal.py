"""Pages for reading."""

import re

import pytest

from simcluster.reports import terminal
from simcluster.reports.layout import Page
from simcluster.scenario import load_mapping, to_dict
from simcluster.study import compare

ASCII = Page(bar="#", dash="-")


@pytest.fixture(scope="module")
def pair(run, catalogue):
    def loaded(name, **cluster):
        plain = to_dict(run().resolved.scenario)
        return name, load_mapping({**plain, "name": name, "cluster": {**plain["cluster"], **cluster}})

    return compare([loaded("one"), loaded("two", fabric="tcp-10")], catalogue)


def test_headline_states_job_speed_and_memory(run):
    evaluation = run()
    job, speed, memory = terminal.headline(evaluation, ASCII).splitlines()
    assert job == ("base: inline on 16 GPUs (2 x dgx-a100-80gb, ib-hdr-200), tp 2 pp 2 dp 4, 16 micro-batches of 1")
    assert "80% interval" in speed
    assert "grade" in speed
    assert "MFU" in speed
    assert memory.startswith("It fits in memory: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [({}, "It fits in memory"), ({"training": {"sequence_length": 262144, "global_batch": 8}}, "It does not fit")],
)
def test_memory_sentence(run, change, words):
    assert terminal.memory_sentence(run(change)).startswith(words)


def test_waterfall_shares_are_those_of_the_step(run):
    evaluation = run()
    rows = terminal.waterfall_table(evaluation, ASCII).splitlines()
    shares = [float(re.search(r"([0-9.e-]+)%", row)[1]) for row in rows[1:]]
    assert sum(shares[:-1]) == pytest.approx(100, abs=0.5)
    assert shares[-1] == 100
    assert rows[1].startswith("ideal")
    assert rows[-1].startswith("step")
    for row, share in zip(rows[1:-1], shares):
        assert row.count("#") == round(24 * share / 100)


def test_rounding_is_not_shown_as_a_loss(run):
    """Without a pipeline the bubble is a difference of equal sums."""
    for change in ({"training": {"parallelism": {"tp": tp, "pp": 1}}} for tp in (1, 2, 4, 8)):
        table = terminal.waterfall_table(run(change), ASCII)
        assert re.search(r"^pipeline_bubble +0 s +0% ", table, re.MULTILINE)


def test_memory_table_adds_up(run):
    rows = terminal.memory_table(run()).splitlines()[1:]
    sizes = {row.rsplit(maxsplit=1)[0].strip(): float(row.split()[-1]) for row in rows}
    parts = sum(size for name, size in sizes.items() if not name.startswith("total"))
    assert parts == pytest.approx(sizes["total (device)"], abs=0.01 * len(sizes))


def test_coverage_counts_and_names(run):
    text = terminal.coverage(run({"training": {"software": {"family": "nobody-knows", "date": "2024-06"}}}), ASCII)
    stated, assumed = map(int, re.match(r"(\d+) inputs stated, (\d+) assumed", text).groups())
    assert stated == 19  # single values of the base scenario, without the family that none knows
    assert assumed > 20
    assert "training.software.family = generic: 'nobody-knows' matches no known framework" in text
    text = terminal.coverage(run({"facility": {"pue": 1.3}, "cluster": {"spares": 1}}), ASCII)
    assert "stated without effect so far: facility, cluster.spares" in text


def test_compare_page_marks_what_grew(pair):
    page = terminal.compare_page(pair, ASCII)
    assert page.splitlines()[0].startswith("Take one: ")
    causes = terminal.causes_table(pair, ASCII).splitlines()
    assert causes[0].split() == ["where", "a", "step", "goes", "one", "two"]
    marks = {row.split()[0]: row for row in causes[1:]}
    assert re.search(r"= [0-9.]+ (ms|s|us)$", marks["ideal"])
    assert re.search(r"\+ [0-9.]+ (ms|s|us)$", marks["pipeline_messages"])


def test_figures_are_those_of_the_evaluations(pair):
    table = terminal.figures_table(pair, ASCII)
    row = next(line for line in table.splitlines() if line.startswith("against the first"))
    relative = pair.candidates[1].delta["step_time_s"].relative
    assert row.split()[-2] == "="
    assert float(row.split()[-1].strip("+%")) == pytest.approx(100 * relative, rel=0.01)


def test_pages_are_ascii_when_they_must_be(run, pair):
    assert terminal.simulate_page(run(), ASCII).isascii()
    assert terminal.compare_page(pair, ASCII).isascii()
