"""Records as CSV."""

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.reports.csv import HEADER, flat, record_csv, unit_of, write
from simcluster.reports.records import comparison_record, evaluation_record, to_json

CELLS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), max_size=10)  # no control signs


def table(text):
    return list(csv.DictReader(io.StringIO(text, newline="")))


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4))
def test_any_text_comes_back(rows):
    header, *read = csv.reader(io.StringIO(write(("a", "b"), rows) + "\n", newline=""))
    assert header == ["a", "b"]
    assert [tuple(row) for row in read] == rows


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_figures_come_back_in_full(value):
    assert float(write(("a",), [(value,)]).splitlines()[1]) == value


def test_an_evaluation_says_what_json_says(run):
    evaluation = run()
    record = json.loads(to_json(evaluation_record(evaluation, 0.5, 3)))
    rows = table(record_csv(evaluation_record(evaluation, 0.5, 3)))
    assert tuple(rows[0]) == HEADER
    assert {row["candidate"] for row in rows} == {"base"}
    found = {row["key"]: row for row in rows}
    assert len(found) == len(rows)  # keys tell lines apart
    assert float(found["step.time_s"]["value"]) == record["step"]["time_s"]
    assert found["step.time_s"]["unit"] == "s"
    causes = [row for row in rows if row["key"].startswith("waterfall.")]
    assert sum(float(row["value"]) for row in causes) == pytest.approx(record["step"]["time_s"])
    assert found["memory.fits"]["value"] == "true"
    assert found["memory.stages.1.components.weights"]["unit"] == "B"
    assert float(found["memory.stages.1.peak_bytes"]["value"]) == record["memory"]["stages"][1]["peak_bytes"]
    first = record["assumptions"][0]
    assert found[f"assumptions.{first['path']}.why"]["value"] == first["why"]
    assert (found["meta.seconds"]["value"], found["meta.seconds"]["unit"]) == ("0.5", "s")


def test_a_comparison_has_its_candidates_below_each_other(pair):
    record = comparison_record(pair)
    rows = table(record_csv(record))
    assert list(dict.fromkeys(row["candidate"] for row in rows)) == ["", "base", "slow"]
    found = {(row["candidate"], row["key"]): row for row in rows}
    assert found["", "verdict.choice"]["value"] == "base"
    delta = record["candidates"][1]["delta"]["step_time_s"]
    assert float(found["slow", "delta.step_time_s.low"]["value"]) == delta["low"]
    assert found["slow", "delta.step_time_s.relative"]["unit"] == ""
    assert found["slow", "delta.s_per_million_tokens.value"]["unit"] == "s per million tokens"


def test_items_without_a_name_go_by_number():
    assert list(flat({"a": [{"count": 1}, {"count": 2}], "b": [1, 2], "c": None, "d": []})) == [
        ("a.0.count", 1), ("a.1.count", 2), ("b", (1, 2)), ("c", None), ("d", ()),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("power.gpu_average_w", "W"), ("cost.usd_per_million_tokens", "USD per million tokens"),
        ("run.wall_days_p10", "days"), ("power.energy_per_token_j", "J"), ("cost.total_usd", "USD"),
        ("confidence.low_s", "s"), ("run.goodput", ""), ("scenario.cluster.nodes", ""), ("memory.peak_bytes", "B"),
    ],
)  # fmt: skip
def test_units_follow_the_key(key, unit):
    assert unit_of(key) == unit
