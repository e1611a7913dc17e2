"""Shipped JSON Schemas are those of the types, and real answers keep to them."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from simcluster.reports.records import comparison_record, evaluation_record, to_json
from simcluster.reports.schemas import ANSWERS, schema, schema_text, shipped_schema
from simcluster.reports.validation import validation_record
from simcluster.scenario import apply_what_if, load
from simcluster.study import compare, settled
from simcluster.validate.records import RowResult

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def checked(command: str, record: object) -> None:
    kind = jsonschema.Draft202012Validator
    kind(shipped_schema(command), format_checker=kind.FORMAT_CHECKER).validate(record)


def plain(record) -> dict:
    return json.loads(to_json(record))


@pytest.mark.parametrize("command", ANSWERS)
def test_shipped_schemas_are_those_of_the_types(command):
    text = (ROOT / "simcluster" / "schemas" / f"{command}.schema.json").read_text(encoding="utf-8")
    assert text == schema_text(command), "run scripts/schemas.py"
    assert shipped_schema(command) == schema(command)
    jsonschema.Draft202012Validator.check_schema(schema(command))
    assert {path.name for path in (ROOT / "simcluster" / "schemas").iterdir()} == {
        f"{one}.schema.json" for one in ANSWERS
    }


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_answer_as_the_schema_says(path, catalogue):
    loaded = load(path)
    record = plain(evaluation_record(settled(loaded, catalogue), 0.1, 0))
    checked("simulate", record)
    named = [("one", loaded), *((name, apply_what_if(loaded, name)) for name in loaded.what_ifs), ("two", loaded)]
    checked("compare", plain(comparison_record(compare(named, catalogue), 0.1, 0)))


@pytest.mark.parametrize(
    "entries", [[{"count": 2, "factor": 1.1}], [{"node": 1, "factor": 1.1}, {"node": 0, "factor": 1.1}]]
)
def test_slow_nodes_answer_as_the_schema_says(run, entries):
    evaluation = run({"operations": {"stragglers": {"slow_nodes": entries}}})
    record = plain(evaluation_record(evaluation, 0.1, 0))
    assert record["stragglers"]["nodes" if "node" in entries[0] else "stages"]
    checked("simulate", record)


def test_validation_answers_as_the_schema_says():
    row = RowResult(published=1.0, predicted=1.1, low=0.9, high=1.3, error=0.1, floor=1.2, assumed=("a = 1: b",))
    checked("validate", plain(validation_record("training", [row, RowResult(skipped_because="task")])))
    checked("validate", plain(validation_record("training", [])))


def _changes(record: dict) -> list[dict]:
    """The record, each time with one thing wrong."""
    wrong = []
    for change in (
        lambda one: one.pop("step"),
        lambda one: one["step"].pop("mfu"),
        lambda one: one["step"].update(time_s="1.5"),
        lambda one: one["step"].update(time=1.5),
        lambda one: one.update(power=None),
        lambda one: one["waterfall"][0].pop("time_s"),
        lambda one: one["memory"]["kinds"].pop("device"),
        lambda one: one["meta"].update(seed=1.5),
    ):
        other = copy.deepcopy(record)
        change(other)
        wrong.append(other)
    return wrong


def test_the_schema_refuses_what_is_wrong(run):
    record = plain(evaluation_record(run(), 0.1, 0))
    checked("simulate", record)
    for wrong in _changes(record):
        with pytest.raises(jsonschema.ValidationError):
            checked("simulate", wrong)


def test_figures_are_described():
    step = schema("simulate")["$defs"]["StepRecord"]
    assert step["additionalProperties"] is False
    assert step["properties"]["mfu"]["description"] == "Model FLOPs over dense peak, 0 to 1."
    assert schema("simulate")["description"].startswith("Answer of `simulate`")
