from __future__ import annotations

import re
from pathlib import Path

import pytest

from simcluster import units
from simcluster.data import data_root
from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry
from simcluster.hardware.reading import entry_of
from simcluster.yamlmarks import read_text

SOURCES = 'sources: {s: {source: our own list, date: "2026-11", kind: measured, confidence: high}}\n'
HEAD = "id: x\ntype: facts\n" + SOURCES + "table:\n"


def facts(*rows: str) -> Entry:
    return entry_of(read_text(HEAD + "".join(f"  - {{{row}}}\n" for row in rows), "x.yaml"), "facilities")


def problems(*rows: str) -> str:
    with pytest.raises(InputError) as caught:
        facts(*rows)
    return str(caught.value)


def test_the_unit_of_a_row_tells_its_dimension() -> None:
    entry = facts(
        "name: a, value: 12, unit: USD/kWh, from: s", "name: b, low: 1, high: 3, unit: weeks, from: s",
        "name: c, value: none yet, from: s",
    )  # fmt: skip
    assert entry.row("a").quantity.number == pytest.approx(12 / 3.6e6)
    assert entry.row("b").quantity.number == 2 * units.WEEK_S
    assert entry.row("c").quantity.value == "none yet"
    with pytest.raises(KeyError):
        entry.row("d")


def test_a_row_may_have_its_own_date_and_confidence() -> None:
    entry = facts(
        "name: a, value: 1, unit: count, from: s",
        'name: b, value: 1, unit: count, from: s, date: "2024..2025", confidence: low',
    )
    told = [(row.quantity.provenance.date, row.quantity.confidence) for row in entry.table]
    assert told == [("2026-11", "high"), ("2024..2025", "low")]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("name: a, value: 1, unit: count", "x.yaml:5:5: a has no source"),
        ("name: a, value: 1, from: s", "a has no unit"),
        ("name: a, value: 1, unit: furlong, from: s", "is not a unit that is known"),
        ("value: 1, unit: count, from: s", "name is missing"),
        ("name: a, unit: count, from: s", "a must be a number, not None"),
        ("name: a, low: 1, unit: count, from: s", "a must be a number, not None"),
        ("name: a, value: 1, unit: count, from: s, colour: red", "unknown key 'colour'"),
        ("name: a, value: 1, unit: count, from: s, date: lately", "date 'lately' is not a date"),
        ("name: a, value: 1, unit: count, from: s, confidence: sure", "confidence 'sure' is not one of high"),
        ("name: a, value: 1, unit: count, from: s, gpus: many", "gpus must be a number"),
        ("name: a, value: 1, unit: count, from: s, row: [1]", "row must be text"),
        ("name: a, value: 1, unit: W, from: s, conflicts: [{value: 1, unit: GB, from: s}]", "'GB' "),
    ],
)
def test_a_row_that_cannot_be_traced_does_not_load(row: str, words: str) -> None:
    assert words in problems(row)


@pytest.mark.parametrize("field", ["source: our own list, ", 'date: "2026-11", ', "kind: measured, "])
def test_a_table_needs_source_date_and_kind(field: str) -> None:
    text = (HEAD + "  - {name: a, value: 1, unit: count, from: s}\n").replace(field, "")
    with pytest.raises(InputError, match=f"{field.split(':')[0]} is missing"):
        entry_of(read_text(text, "x.yaml"), "facilities")


def test_names_are_given_once() -> None:
    row = "name: a, value: 1, unit: count, from: s"
    assert "x.yaml:6:6: name 'a' is given twice" in problems(row, row)


def test_tables_only_where_the_type_has_one() -> None:
    with pytest.raises(InputError, match="an entry of type cpu has no table"):
        entry_of(read_text("id: x\ntype: cpu\n" + SOURCES + "table: []\n", "x.yaml"), "cpus")


def test_an_empty_entry(tmp_path: Path) -> None:
    (tmp_path / "facilities").mkdir()
    (tmp_path / "facilities" / "x.yaml").write_text("id: x\ntype: facts\n")
    with pytest.raises(InputError, match="x is empty; add a table"):
        Catalogue.load(tmp_path).entry("facilities", "x")


def examples() -> list[str]:
    page = (data_root("hardware_db") / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)


def test_the_examples_of_the_readme(tmp_path: Path) -> None:
    gpu, cloud = examples()
    for kind, id_, text in (("gpus", "x100", gpu), ("clouds", "nebius", cloud)):
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{id_}.yaml").write_text(text, encoding="utf-8")
    catalogue = Catalogue.load(tmp_path)
    assert catalogue.check() == []
    spec, _ = catalogue.gpu("X-100")
    assert (spec.peak_flops["bf16"], spec.memory_bytes, spec.scale_up_bytes_per_s) == (3e15, 140 * 2**30, 900e9)
    assert spec.entry.priors() == ("memory_visible", "power_limit")


def test_a_quoted_price_replaces_the_listed_one(tmp_path: Path) -> None:
    (tmp_path / "clouds").mkdir()
    (tmp_path / "clouds" / "nebius.yaml").write_text(examples()[1], encoding="utf-8")
    shipped, changed = (
        catalogue.entry("clouds", "nebius") for catalogue in (Catalogue.load(), Catalogue.load(tmp_path))
    )
    assert len(changed.table) == len(shipped.table)
    h100 = {row.text("term"): row for row in changed.table if row.text("gpu") == "h100-80gb-sxm"}
    assert h100["on-demand"].quantity.number * 3600 == pytest.approx(2.4)
    assert h100["on-demand"].quantity.provenance.source == "offer to our company"
    assert h100["preemptible"].quantity.number * 3600 == pytest.approx(1.25)


def test_rents_of_other_dates_stay_in_a_history(tmp_path: Path) -> None:
    (tmp_path / "prices").mkdir()
    text = "id: h100-rental-history\ntype: rental-history\n" + SOURCES
    text += 'table: [{tier: neocloud, value: 3, unit: USD/GPU-h, from: s, date: "2026-10"}]\n'
    (tmp_path / "prices" / "h100-rental-history.yaml").write_text(text)
    tables = [
        catalogue.entry("prices", "h100-rental-history").table
        for catalogue in (Catalogue.load(), Catalogue.load(tmp_path))
    ]
    assert len(tables[1]) == len(tables[0]) + 1
