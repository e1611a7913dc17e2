from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.hardware.reading import entry_of
from simcluster.yamlmarks import read_text

HEAD = """id: x
type: node
name: X
sources:
  s: {source: our vendor's sheet, date: "2026-01", kind: datasheet}
values:
"""


def problems(text: str, kind: str = "nodes") -> str:
    with pytest.raises(InputError) as caught:
        entry_of(read_text(text, "x.yaml"), kind)
    return str(caught.value)


def test_units_become_si_and_provenance_stays() -> None:
    entry = entry_of(
        read_text(HEAD + "  nic_rate: {value: 400, low: 200, high: 400, unit: Gbit/s, from: s, note: one card}\n"),
        "nodes",
    )
    quantity = entry.values["nic_rate"]
    assert quantity.value == 50e9
    assert (quantity.low, quantity.high) == (25e9, 50e9)
    assert str(quantity) == "400 Gbit/s"
    source = quantity.provenance
    assert (source.unit, source.source, source.date, source.kind, source.note) == (
        "Gbit/s", "our vendor's sheet", "2026-01", "datasheet", "one card",
    )  # fmt: skip


def test_conflicts_are_kept_apart() -> None:
    line = "  price: {value: 290000, unit: USD, from: s, conflicts: [{value: 310, unit: kUSD, from: s}]}\n"
    text = problems(HEAD + line)
    assert "kUSD" in text
    entry = entry_of(read_text(HEAD + line.replace("310, unit: kUSD", "310000, unit: USD")), "nodes")
    assert entry.number("price") == 290_000
    assert [other.value for other in entry.values["price"].conflicts] == [310_000]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{value: 8, unit: count}", "x.yaml:7:3: gpus has no source"),
        ("{value: 8, from: s}", "x.yaml:7:3: gpus has no unit"),
        ("8", "x.yaml:7:3: gpus needs unit and source"),
        ("{value: 8, unit: count, from: t}", "x.yaml:7:33: source 't' is not in this file's sources"),
        ("{value: 8, unit: GB, from: s}", "x.yaml:7:20: gpus: 'GB' is not a unit of count"),
        ("{value: eight, unit: count, from: s}", "x.yaml:7:10: gpus must be a number, not 'eight'"),
        ("{value: true, unit: count, from: s}", "must be a number, not True"),
        ("{value: 8, unit: count, from: s, sauce: t}", "unknown key 'sauce'"),
        ("{value: 8, unit: count, from: s, low: few}", "low must be a number"),
        ("{value: 8, unit: count, from: s, conflicts: 9}", "conflicts must be a list"),
    ],
)
def test_a_value_without_its_fields_does_not_load(value: str, words: str) -> None:
    assert words in problems(HEAD + f"  gpus: {value}\n")


@pytest.mark.parametrize("field", ["source: a b, ", 'date: "2026", ', "kind: datasheet"])
def test_a_source_needs_source_date_and_kind(field: str) -> None:
    full = '{source: a b, date: "2026", kind: datasheet}'
    text = f"id: x\ntype: node\nsources: {{s: {full.replace(field, '')}}}\n"
    assert f"{field.split(':')[0]} is missing" in problems(text)


def test_every_problem_at_once_with_place_and_advice() -> None:
    text = problems(
        "id: x\ntipe: node\ntype: nod\naliases: [{alias: y, when: soon}, {alias: z, nics: -1}]\n"
        'sources: {s: {source: q, date: "2026", kind: rumour}}\n'
    )
    assert "x.yaml:2:1: unknown key 'tipe'; did you mean 'type'?" in text
    assert "type 'nod' is not one of node" in text
    assert "'soon' is not a range of dates" in text
    assert "nics must be a whole number" in text
    assert "kind 'rumour' is not one of datasheet, measured, estimate, derived" in text


def test_unknown_value_gets_advice() -> None:
    assert "did you mean 'power_max'?" in problems(HEAD + "  power_maks: {value: 1, unit: kW, from: s}\n")


@pytest.mark.parametrize(
    "text", ["[]", "id: x\ntype: node\nvalues: 3\n", "id: [1]\ntype: node\n", "", "aliases: {a: b}"]
)
def test_wrong_shapes_are_problems_not_tracebacks(text: str) -> None:
    assert problems(text)


LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "count", "s", "datasheet", "<2022", ""])
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "unit", "from", "alias", "when", "source", "gpus", "s"]), inner)
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["id", "type", "name", "aliases", "extends", "note", "sources", "values"]),
    ANYTHING,
    st.sampled_from(["value", "unit", "from", "low", "note", "conflicts"]),
    ANYTHING,
)
def test_nonsense_is_an_input_error_or_an_entry(key: str, odd: Any, part: str, other: Any) -> None:
    data: dict[str, Any] = {
        "id": "x",
        "type": "node",
        "sources": {"s": {"source": "a b", "date": "2026", "kind": "datasheet"}},
        "values": {"gpus": {"value": 8, "unit": "count", "from": "s", part: other}},
        key: odd,
    }
    with contextlib.suppress(InputError):
        entry_of(read_text(json.dumps(data)), "nodes")
