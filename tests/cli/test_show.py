"""`show`: every value and where it came from."""

import re


def test_values_of_the_file(say, scenario):
    record = say("show", scenario, "--format", "json").json
    assert record["cluster.nodes"] == {"value": 2, "origin": f"{scenario}:5:3"}
    assert record["training.parallelism.tp"] == {"value": 2, "origin": f"{scenario}:11:17"}
    assert record["training.precision"] == {"value": "bf16", "origin": "default"}
    assert not any(isinstance(one["value"], dict) for one in record.values())
    assert "training" not in record


def test_a_change_is_named(say, scenario):
    record = say("show", scenario, "--set", "cluster.nodes=4", "--format", "json").json
    assert record["cluster.nodes"] == {"value": 4, "origin": "--set"}


def test_resolved_adds_what_was_settled(say, scenario):
    plain = say("show", scenario, "--format", "json").json
    record = say("show", scenario, "--resolved", "--format", "json").json
    assert record["training.parallelism.dp"]["value"] == 4
    assert record["training.parallelism.dp"]["origin"].startswith("assumed: 16 GPUs over tp x pp x cp = 4")
    assert record["training.software.overlap_grad_reduce"]["origin"].startswith("assumed: megatron-core: ")
    assert set(plain) <= set(record)
    assert not any(isinstance(one["value"], dict) for one in record.values())


def test_the_catalogue_is_a_source(say, tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("model: llama-7b\ncluster: {node: dgx-h100, nodes: 1}\ntraining: {parallelism: {tp: 8}}\n")
    record = say("show", str(path), "--resolved", "--format", "json").json
    assert record["model"]["origin"].startswith(f"{path}:1:1; ")
    assert record["model"]["value"] == "llama-7b"


def test_the_table(say, scenario):
    said = say("show", scenario, "--resolved")
    assert said.code == 0
    assert re.search(r"^cluster.nodes +2 +\S+small.yaml:5:3$", said.out, re.MULTILINE)
    assert not re.search(r"\w+\(\w+=", said.out)  # no dump of an object


def test_csv_and_markdown(say, scenario):
    rows = say("show", scenario, "--format", "csv").out.splitlines()
    assert rows[0] == "path,value,origin"
    assert f"cluster.nodes,2,{scenario}:5:3" in rows
    assert f"| cluster.nodes | 2 | {scenario}:5:3 |" in say("show", scenario, "--format", "markdown").out.splitlines()
