"""`compare`: two files, three, a study, what-ifs; the contract of its JSON."""

import re

import pytest

from simcluster.errors import InputError

DELTA = {"value", "relative", "low", "high", "probability_better"}
VERDICT = {"choice", "sentence", "why", "flips_if", "settle_with", "better_lever"}


@pytest.fixture
def study(tmp_path, scenario):
    text = (tmp_path / "small.yaml").read_text(encoding="utf-8") + (
        "candidates:\n"
        "  base: {}\n"
        "  hopper: {cluster: {node: dgx-h100, fabric: ib-ndr-400}}\n"
        "  four: {cluster: {nodes: 4}, training: {global_batch: 64}}\n"
    )
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    return str(tmp_path / "study.yaml")


def other(tmp_path, scenario, name, **changes):
    text = (tmp_path / "small.yaml").read_text(encoding="utf-8")
    for old, new in changes.items():
        text = text.replace(old, new)
    path = tmp_path / f"{name}.yaml"
    path.write_text(text.replace("name: small", f"name: {name}"), encoding="utf-8")
    return str(path)


def test_two_files(say, scenario, tmp_path):
    record = say(
        "compare", scenario, other(tmp_path, scenario, "tcp", **{"ib-hdr-200": "tcp-10"}), "--format", "json"
    ).json
    assert record["baseline"] == "small"
    assert [one["name"] for one in record["candidates"]] == ["small", "tcp"]
    assert set(record["verdict"]) >= VERDICT
    for one in record["candidates"]:
        assert {"step", "waterfall", "memory", "meta", "scenario"} <= set(one["evaluation"])
        assert "seconds" not in one["evaluation"]["meta"]
        assert "step_time_s" in one["delta"]
        assert all(set(delta) == DELTA for delta in one["delta"].values())
    zero, delta = (one["delta"]["step_time_s"] for one in record["candidates"])
    assert zero == {"value": 0.0, "relative": 0.0, "low": 0.0, "high": 0.0, "probability_better": 0.5}
    times = [one["evaluation"]["step"]["time_s"] for one in record["candidates"]]
    assert delta["value"] == pytest.approx(times[1] - times[0])
    assert delta["relative"] == pytest.approx(times[1] / times[0] - 1)
    assert delta["low"] <= delta["value"] <= delta["high"]
    assert record["verdict"]["choice"] == "small"
    assert record["meta"]["seed"] == 0


def test_each_evaluation_is_that_of_simulate(say, scenario, tmp_path):
    tcp = other(tmp_path, scenario, "tcp", **{"ib-hdr-200": "tcp-10"})
    compared = say("compare", scenario, tcp, "--format", "json").json["candidates"][1]["evaluation"]
    alone = say("simulate", tcp, "--format", "json").json
    for part in ("scenario", "step", "waterfall", "memory", "assumptions", "confidence"):
        assert compared[part] == alone[part], part


def test_three_files_and_names_that_repeat(say, scenario):
    record = say("compare", scenario, scenario, scenario, "--format", "json").json
    assert [one["name"] for one in record["candidates"]] == ["small", "small (2)", "small (3)"]
    assert record["verdict"]["choice"] is None
    assert "alike" in record["verdict"]["sentence"]


def test_a_study(say, study):
    record = say("compare", study, "--format", "json").json
    assert [one["name"] for one in record["candidates"]] == ["base", "hopper", "four"]
    assert record["verdict"]["choice"] in (None, "hopper", "four")  # the base has half of either's speed
    assert any("four has 32 GPUs, base 16" in note for note in record["notes"])
    assert any("another global batch" in note for note in record["notes"])


def test_a_study_beside_a_file(say, study, scenario):
    record = say("compare", scenario, study, "--format", "json").json
    assert [one["name"] for one in record["candidates"]] == ["small", "base", "hopper", "four"]


def test_what_ifs(say, scenario):
    record = say("compare", scenario, "--what-if", "roce", "--what-if", "slow", "--format", "json").json
    assert [one["name"] for one in record["candidates"]] == ["small", "small, roce", "small, slow"]
    slow = record["candidates"][2]["delta"]["step_time_s"]
    assert slow["low"] > 0
    assert slow["probability_better"] < 0.01


def test_set_reaches_every_candidate(say, study):
    record = say("compare", study, "--set", "training.micro_batch=1", "--format", "json").json
    assert {one["evaluation"]["scenario"]["training"]["micro_batch"] for one in record["candidates"]} == {1}


def test_seeds_move_the_draws_and_nothing_else(say, study):
    def parts(seed):
        record = say("compare", study, "--format", "json", "--seed", seed).json
        deltas = [one["delta"]["step_time_s"] for one in record["candidates"][1:]]
        steps = [one["evaluation"]["step"] for one in record["candidates"]]
        return [delta["value"] for delta in deltas], steps, [delta["low"] for delta in deltas]

    one, again, two = parts("1"), parts("1"), parts("2")
    assert one == again
    assert one[:2] == two[:2]
    assert one[2] != two[2]
    assert one[2] == pytest.approx(two[2], rel=0.1)


def test_same_bytes_but_for_the_seconds(say, study):
    first, second = (re.sub(r'"seconds": [^,]+,', "", say("compare", study, "--format", "json").out) for _ in range(2))
    assert first == second


def test_the_page(say, study):
    said = say("compare", study)
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith(("Take ", "No clear difference", "base and"))
    figures = next(line for line in lines if line.startswith("step time"))
    assert re.fullmatch(r"step time, m?s +[0-9.,]+ +[-+=] [0-9.,]+ +[-+=] [0-9.,]+", figures)
    for row in ("GPUs", "fabric", "layout", "80% interval", "tokens/s/GPU", "MFU", "peak memory", "fits", "grade"):
        assert any(line.startswith(row) for line in lines), row
    assert "\x1b" not in said.out


def test_problems_of_all_candidates_at_once(say, tmp_path, scenario):
    one = other(tmp_path, scenario, "one", **{"dgx-a100-80gb": "dgx-a1000"})
    two = other(tmp_path, scenario, "two", **{"ib-hdr-200": "ib-hdr-20", "micro_batch: 2": "micro_batch: 3"})
    said = say("compare", one, two)
    assert (said.code, said.out) == (3, "")
    assert f"{one}:4:3: cluster.node: the catalogue has no node 'dgx-a1000'; did you mean " in said.err
    assert f"{two}:6:3: cluster.fabric: the catalogue has no fabric 'ib-hdr-20'; did you mean ib-hdr-200" in said.err
    assert said.err.rstrip().endswith("2 problems")


def test_unlike_jobs_are_compared_with_a_warning(say, tmp_path, scenario):
    record = say(
        "compare", scenario, other(tmp_path, scenario, "deep", **{"layers: 8": "layers: 16"}), "--format", "json"
    ).json
    assert any("unlike jobs" in note for note in record["notes"])


def test_the_python_way_is_the_same(say, scenario):
    import simcluster

    loaded = simcluster.load(scenario)
    comparison = simcluster.compare([("a", loaded), ("b", simcluster.load(scenario, what_if="slow"))])
    record = say("compare", scenario, "--what-if", "slow", "--format", "json").json
    assert (
        comparison.candidates[1].delta["step_time_s"].value == record["candidates"][1]["delta"]["step_time_s"]["value"]
    )
    with pytest.raises(InputError):
        simcluster.compare([("a", loaded), ("b", simcluster.load(scenario, sets=["model=nothing"]))])


def test_candidates_of_one_file_are_named(say, tmp_path, study):
    text = (tmp_path / "study.yaml").read_text(encoding="utf-8").replace("nodes: 4}", "nodes: 5}")
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    said = say("compare", study)
    assert said.code == 3
    assert "four: " in said.err
