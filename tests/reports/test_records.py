"""Results as plain data."""

import json

import numpy as np
import pytest

from simcluster.reports.records import comparison_record, evaluation_record, memory_record, to_json
from simcluster.scenario import load_mapping
from simcluster.study import compare


def test_numbers_that_are_none_are_refused():
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not JSON compliant"):
            to_json({"a": value})


def test_numpy_becomes_plain():
    record = {"a": np.float64(1.5), "b": np.int64(2), "c": np.bool_(True), "d": np.array(3.0)}
    assert json.loads(to_json(record)) == {"a": 1.5, "b": 2, "c": True, "d": 3.0}


def test_text_is_ascii_and_comes_back():
    text = to_json({"a": "größe 模型"})
    assert text.isascii()
    assert json.loads(text)["a"] == "größe 模型"


def test_an_evaluation_in_full_and_its_scenario_can_be_run_again(run, catalogue):
    from simcluster.evaluation import evaluate

    evaluation = run()
    record = json.loads(to_json(evaluation_record(evaluation)))
    assert "seconds" not in record["meta"]
    again = evaluate(load_mapping(record["scenario"]), catalogue)
    assert again.step == evaluation.step
    assert json.loads(to_json(evaluation_record(again)))["meta"]["hash"] == record["meta"]["hash"]


def test_assumptions_are_all_there(run):
    evaluation = run()
    record = evaluation_record(evaluation)
    assert [one["path"] for one in record["assumptions"]] == [one.path for one in evaluation.assumptions]
    assert all(one["why"] for one in record["assumptions"])


def test_memory_stages_are_plain_numbers(run):
    record = memory_record(run({"training": {"parallelism": {"tp": 2, "pp": 4}}}).memory)
    assert [stage["stage"] for stage in record["stages"]] == [0, 1, 2, 3]
    assert all(type(size) is float for stage in record["stages"] for size in stage["components"].values())


def test_a_comparison(run, catalogue):
    loaded = load_mapping({**_plain(run), "name": "a"})
    record = json.loads(to_json(comparison_record(compare([("a", loaded), ("b", loaded)], catalogue))))
    assert record["baseline"] == "a"
    assert isinstance(record["verdict"]["flips_if"], list)
    assert isinstance(record["verdict"]["settle_with"], list)


def _plain(run):
    from simcluster.scenario import to_dict

    return to_dict(run().resolved.scenario)
