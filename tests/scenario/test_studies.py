from __future__ import annotations

import pytest

from simcluster.errors import InputError, UsageError
from simcluster.scenario import apply_candidate, load, load_study, load_study_text, load_text, parse_candidate

STUDY = """\
name: buy-or-rent
model: llama-65b
cluster: {node: dgx-a100, nodes: 8, fabric: {protocol: roce, link: 400 Gbit/s, tiers: 2}}
training: {sequence_length: 2048, parallelism: {tp: 8, pp: 2}}
acquire: {own: {wacc: 10%, residual: 20%}}
what_ifs: {fast: {cluster.fabric.link: 800 Gbit/s}}
candidates:
  build: {cluster: {node: dgx-b200, nodes: 32}, acquire: {own: {residual: 0%}}}
  rent: {cluster: {node: aws-p6, fabric: efa}, acquire: {rent: {term: 3y}}}
  deep: {cluster: {fabric: {tiers: 3}}, training: {parallelism: auto}}
  new: {cluster: {fabric: {protocol: ib, link: 200 Gbit/s}, node: {gpu: h100, gpus: 8}}}
"""


def test_candidates_override_deeply_and_kinds_replace(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    study = load_study(path)
    found = dict(study.candidates)
    assert list(found) == ["build", "rent", "deep", "new"]
    build, rent, deep, new = (found[name].scenario for name in found)
    assert (build.cluster.node, build.cluster.nodes, build.training.parallelism.tp) == ("dgx-b200", 32, 8)
    assert (build.acquire.own.wacc, build.acquire.own.residual) == (0.1, 0)
    assert rent.acquire.own is None
    assert rent.acquire.rent.term == "3y"
    assert rent.cluster.fabric == "efa"
    assert (deep.cluster.fabric.tiers, deep.cluster.fabric.link) == (3, 50e9)
    assert deep.training.parallelism == "auto"
    assert (new.cluster.fabric.protocol, new.cluster.fabric.tiers) == ("ib", None)
    assert study.base.scenario.cluster.nodes == 8
    assert str(found["build"].origins["cluster.node"]) == "candidate build"
    assert str(found["build"].origins["model"]) == f"{path}:2:1"
    assert study.what_ifs == {"fast": {"cluster.fabric.link": "800 Gbit/s"}}
    assert "candidates left aside" in load(path).notes[0]


def test_sets_win_over_candidates():
    study = load_study_text(STUDY, sets=["cluster.nodes=4"])
    assert {loaded.scenario.cluster.nodes for _, loaded in study.candidates} == {4}


def test_a_scenario_is_a_study_of_one():
    study = load_study_text("model: m\ncluster: {node: a, nodes: 1}\n", "dir/mine.yaml")
    assert [name for name, _ in study.candidates] == ["mine"]
    assert study.candidates[0][1] is study.base


def test_what_candidates_share_need_not_be_whole():
    study = load_study_text("model: m\ncandidates: {a: {cluster: {node: x, nodes: 1}, acquire: {own: }}}\n")
    assert study.base is None
    assert study.candidates[0][1].scenario.acquire.own is not None


def test_problems_of_all_candidates_at_once():
    text = """\
model: m
training: {micro_batch: none}
candidates:
  a: {cluster: {node: x, nodes: 1}}
  b: {cluster: {node: x, nods: 2}}
  c: 3
what_ifs: {w: []}
"""
    with pytest.raises(InputError) as caught:
        load_study_text(text, "f.yaml")
    assert [str(item) for item in caught.value.problems] == [
        "f.yaml:2:12: training.micro_batch: 'none' should be a whole number of at least 1, or 'auto'",
        "f.yaml:5:7: candidate b: cluster.nodes: is missing; state it",
        "f.yaml:5:26: candidate b: cluster.nods: unknown key; did you mean 'nodes'?",
        "f.yaml:6:3: candidates.c should be a mapping; write what it changes, like {cluster: {nodes: 8}}",
        "f.yaml:7:12: what_ifs.w should be a mapping; write {dotted.path: value}",
    ]
    with pytest.raises(InputError, match="candidates should be a mapping"):
        load_study_text("model: m\ncluster: {node: x, nodes: 1}\ncandidates: [a]\n")


@pytest.mark.parametrize(
    ("text", "cluster", "acquire"),
    [
        ("32xdgx-b200/ib-ndr-400:own", {"nodes": 32, "node": "dgx-b200", "fabric": "ib-ndr-400"}, {"own": {}}),
        ("4xaws-p5.48xlarge:on-demand", {"nodes": 4, "node": "aws-p5.48xlarge"}, {"rent": {"term": "on-demand"}}),
        ("1xx2:spot", {"nodes": 1, "node": "x2"}, {"rent": {"term": "spot"}}),
        ("8xdgx-h100", {"nodes": 8, "node": "dgx-h100"}, None),
    ],
)
def test_candidates_of_the_command_line(text, cluster, acquire):
    change = parse_candidate(text)
    assert change["cluster"] == cluster
    assert change.get("acquire") == acquire


@pytest.mark.parametrize("text", ["study", "0xa", "xa", "3x", "3xa/b/c", "3xa:", "3xa:4y", "-1xa", "1e3xa"])
def test_what_is_no_candidate(text):
    with pytest.raises(UsageError, match="candidate"):
        parse_candidate(text)


def test_a_candidate_over_a_loaded_scenario():
    loaded = load_text("model: m\ncluster: {node: a, nodes: 1, fabric: f}\nacquire: own\n")
    changed = apply_candidate(loaded, "c", parse_candidate("2xb:1y"))
    assert (changed.scenario.cluster.node, changed.scenario.cluster.fabric) == ("b", "f")
    assert changed.scenario.acquire.own is None
    assert str(changed.origins["acquire.rent.term"]) == "candidate c"
