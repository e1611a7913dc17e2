"""`simulate`: the contract of its JSON, and what its options change."""

import re

import pytest

STEP = {
    "time_s", "time_s_p10", "time_s_p90", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu", "mfu", "hfu",
    "flops_convention", "bound_by",
}  # fmt: skip
UNITLESS = {"mfu", "hfu", "flops_convention", "bound_by"}


@pytest.fixture
def record(say, scenario):
    return say("simulate", scenario, "--format", "json").json


def test_parts(record):
    wanted = {
        "schema_version",
        "scenario",
        "engine",
        "assumptions",
        "step",
        "waterfall",
        "memory",
        "confidence",
        "meta",
    }
    assert wanted <= set(record)
    assert set(record["step"]) >= STEP
    assert {"seconds", "version", "hash", "seed"} <= set(record["meta"])
    assert {"fits", "peak_bytes", "capacity_bytes", "kinds", "stages"} <= set(record["memory"])
    assert set(record["memory"]["kinds"]) == {"allocated", "reserved", "device"}
    assert all(set(one) >= {"path", "value", "why"} for one in record["assumptions"])
    assert set(record["confidence"]) == {"grade", "low_s", "high_s"}


def test_what_is_not_built_is_absent_and_not_null(record):
    def walk(node, path=""):
        assert node is not None, path
        for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
            walk(value, f"{path}.{key}")

    walk({key: value for key, value in record.items() if key != "assumptions"})


def test_waterfall_sums_to_the_step(record):
    step = record["step"]
    assert sum(one["time_s"] for one in record["waterfall"]) == pytest.approx(step["time_s"], rel=1e-9)
    assert all(one["time_s"] >= 0 for one in record["waterfall"])
    assert record["waterfall"][0]["component"] == "ideal"
    assert step["mfu"] == pytest.approx(record["waterfall"][0]["time_s"] / step["time_s"], rel=1e-9)


def test_figures_agree_with_each_other(record):
    step, training = record["step"], record["scenario"]["training"]
    gpus = 16
    tokens = training["global_batch"] * training["sequence_length"]
    assert step["tokens_per_s"] == pytest.approx(tokens / step["time_s"])
    assert step["tokens_per_s_per_gpu"] == pytest.approx(step["tokens_per_s"] / gpus)
    assert step["mfu"] == pytest.approx(step["model_tflops_per_gpu"] * 1e12 / 312e12)
    assert (step["time_s_p10"], step["time_s_p90"]) == (record["confidence"]["low_s"], record["confidence"]["high_s"])
    assert step["time_s_p10"] < step["time_s"] < step["time_s_p90"]
    memory = record["memory"]
    assert memory["peak_bytes"] == max(stage["peak_bytes"] for stage in memory["stages"])
    assert len(memory["stages"]) == 2
    kinds = memory["kinds"]
    assert kinds["allocated"] <= kinds["reserved"] <= kinds["device"]
    for stage in memory["stages"]:
        assert sum(stage["components"].values()) == pytest.approx(stage["peak_bytes"])


def test_model_flops_by_hand(record):
    """6 FLOP a weight and token of every GEMM, plus causal attention 6 s h a token and layer."""
    layers, hidden, ffn, vocab, sequence = 8, 1024, 4096, 32000, 1024
    weights = layers * (4 * hidden**2 + 3 * hidden * ffn) + hidden * vocab
    flops = (6 * weights + 6 * layers * sequence * hidden) * 32 * sequence
    step = record["step"]
    assert step["model_tflops_per_gpu"] * 16 * 1e12 * step["time_s"] == pytest.approx(flops, rel=1e-9)


def test_numbers_name_their_units(record):
    numbers = {key for key, value in record["step"].items() if isinstance(value, float)} - UNITLESS
    assert all(re.search(r"_(s|s_p10|s_p90|per_s|per_s_per_gpu|per_gpu)$", key) for key in numbers)


def test_same_bytes_but_for_the_seconds(say, scenario):
    first, second = (
        re.sub(r'"seconds": [^,]+,', "", say("simulate", scenario, "--format", "json", "--seed", "7").out)
        for _ in range(2)
    )
    assert first == second
    assert '"seed": 7' in first


def test_set_changes_the_scenario_and_its_hash(say, scenario, record):
    other = say("simulate", scenario, "--format", "json", "--set", "training.micro_batch=1").json
    assert other["scenario"]["training"]["micro_batch"] == 1
    assert other["meta"]["hash"] != record["meta"]["hash"]
    assert other["step"]["time_s"] != record["step"]["time_s"]
    twice = say("simulate", scenario, "--format", "json", "--set", "training.micro_batch=1", "--set", "name=x").json
    assert (twice["scenario"]["name"], twice["scenario"]["training"]["micro_batch"]) == ("x", 1)


def test_what_if_is_the_change_that_it_names(say, scenario):
    named = say("simulate", scenario, "--format", "json", "--what-if", "roce").json
    stated = say("simulate", scenario, "--format", "json", "--set", "cluster.fabric=roce-200").json
    assert named["step"] == stated["step"]
    said = say("simulate", scenario, "--what-if", "roces")
    assert said.code == 3
    assert "what_if 'roces' is not known; did you mean 'roce'?" in said.err


def test_not_fitting_is_an_answer(say, scenario):
    changes = ("--set", "training.sequence_length=65536", "--set", "training.micro_batch=8")
    said = say("simulate", scenario, *changes)
    assert said.code == 0
    assert "It does not fit in memory" in said.out
    assert say("simulate", scenario, *changes, "--format", "json").json["memory"]["fits"] is False


def test_the_page_names_every_part(say, scenario, record):
    said = say("simulate", scenario)
    assert said.code == 0
    assert said.err == ""
    for component in [one["component"] for one in record["waterfall"]]:
        assert re.search(rf"^{component} ", said.out, re.MULTILINE)
    assert re.search(r"^\d+ of \d+ inputs stated; \d+ assumed", said.out, re.MULTILINE)


def test_the_engine_is_named(record):
    assert record["engine"] == "max-plus"


@pytest.mark.parametrize(
    "sets",
    [
        ["training.parallelism.schedule=zb-h1"],
        ["training.parallelism.schedule=zb-h2"],
        ["training.parallelism.schedule=dualpipe"],
        ["training.parallelism.virtual_stages=2", "training.parallelism.order=breadth-first"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("engine", ["auto", "des"])
def test_schedules(say, scenario, sets, engine):
    changes = [word for one in sets for word in ("--set", one)]
    said = say("simulate", scenario, *changes, "--engine", engine, "--format", "json")
    assert said.code == 0
    answer = said.json
    assert sum(one["time_s"] for one in answer["waterfall"]) == pytest.approx(answer["step"]["time_s"], rel=1e-9)
    assert answer["memory"]["peak_bytes"] > 0


def test_a_seed_moves_what_is_drawn(say, scenario):
    """Nodes drawn slow, and the days that they cost; a step as it is does not depend on it."""

    def parts(seed):
        sets = ("--set", "operations.stragglers.node_sigma=2%", "--set", "training.tokens=1T")
        record = say("simulate", scenario, *sets, "--format", "json", "--seed", seed).json
        return record["step"], record["stragglers"]

    (step, one), (same, other) = parts("1"), parts("2")
    assert step == same
    assert one != other


def test_rows_of_speeds_that_are_not_used_are_told_apart_from_the_answer(say, scenario, tmp_path):
    """A path in --set starts at the scenario's folder, wherever the command runs."""
    (tmp_path / "speeds.csv").write_text("node,factor\na,1\nb,1.1\nc,9\n", encoding="utf-8")
    change = ("--set", "operations.stragglers.speeds=speeds.csv")
    note = (
        "note: operations.stragglers.speeds: speeds.csv has 3 nodes, the cluster 2: the first 2 rows are read, c is not"
    )
    for command in (("simulate", scenario), ("compare", scenario, "--what-if", "roce")):
        said = say(*command, *change)
        assert said.code == 0
        assert said.err.count(note) == 1
        assert "not used" not in said.out
    shown = say("show", scenario, "--resolved", *change)
    assert note in shown.out
