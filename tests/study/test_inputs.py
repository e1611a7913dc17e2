"""From words on the command line to loaded candidates."""

import pytest

from simcluster.errors import InputError, UsageError
from simcluster.study import load_candidates

PLAIN = """\
name: plain
model: llama-7b
cluster: {node: dgx-h100, nodes: 4}
what_ifs: {more: {cluster.nodes: 8}}
"""
STUDY = PLAIN + "candidates: {a: {}, b: {cluster: {nodes: 2}}}\n"


@pytest.fixture
def write(tmp_path):
    def call(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    return call


def test_a_file_is_one_candidate_by_its_name_or_its_file(write):
    files = [write("plain.yaml", PLAIN), write("other.yaml", PLAIN.replace("name: plain\n", ""))]
    assert [name for name, _ in load_candidates(files)] == ["plain", "other"]


def test_a_study_is_its_candidates_and_what_ifs_come_after(write):
    found = load_candidates([write("s.yaml", STUDY)], what_ifs=["more"])
    assert [(name, loaded.scenario.cluster.nodes) for name, loaded in found] == [
        ("a", 4), ("b", 2), ("a, more", 8), ("b, more", 8),
    ]  # fmt: skip


def test_sets_reach_all_but_what_a_what_if_says(write):
    found = load_candidates([write("p.yaml", PLAIN)], ["cluster.nodes=16", "name=x"], ["more"])
    assert [(name, loaded.scenario.cluster.nodes, loaded.scenario.name) for name, loaded in found] == [
        ("plain", 16, "x"), ("plain, more", 8, "x"),
    ]  # fmt: skip


def test_names_are_unique(write):
    path = write("p.yaml", PLAIN)
    assert [name for name, _ in load_candidates([path, path, path])] == ["plain", "plain (2)", "plain (3)"]


def test_all_files_are_judged_before_any_is_refused(write):
    bad = write("bad.yaml", "model: llama-7b\nclusters: {}\n")
    worse = write("worse.yaml", "a: [\n")
    with pytest.raises(InputError) as caught:
        load_candidates(["nowhere.yaml", bad, write("p.yaml", PLAIN), worse])
    files = {problem.mark.file for problem in caught.value.problems}
    assert files == {"nowhere.yaml", bad, worse}


def test_one_is_not_enough(write):
    with pytest.raises(UsageError, match="two candidates or more, got 1"):
        load_candidates([write("p.yaml", PLAIN)])
    with pytest.raises(UsageError, match="got 0"):
        load_candidates([])


def test_an_unknown_what_if(write):
    with pytest.raises(InputError, match="what_if 'mor' is not known; did you mean 'more'"):
        load_candidates([write("p.yaml", PLAIN)], what_ifs=["mor"])


def test_a_wrong_what_if_is_told_even_when_unused(write):
    path = write("p.yaml", PLAIN.replace("cluster.nodes: 8", "cluster.nodes: many"))
    with pytest.raises(InputError, match=r"what_if more: cluster\.nodes"):
        load_candidates([path, path])


def test_machines_on_the_job_of_the_command_line():
    job = {"model": "llama-7b", "training": {"tokens": "2T"}}
    found = load_candidates(["4xdgx-h100:own", "2xaws-p5/roce-400:3y"], ["cluster.spares=1"], job=job)
    assert [name for name, _ in found] == ["4xdgx-h100:own", "2xaws-p5/roce-400:3y"]
    own, rented = (loaded.scenario for _, loaded in found)
    assert (own.model, own.training.tokens, own.cluster.nodes, own.cluster.spares) == ("llama-7b", 2e12, 4, 1)
    assert own.acquire.own is not None
    assert rented.acquire.rent.term == "3y"
    assert (rented.cluster.node, rented.cluster.fabric) == ("aws-p5", "roce-400")


def test_machines_on_the_job_of_the_only_file(write):
    words = [write("p.yaml", PLAIN), "2xdgx-a100:1y"]
    (_, file), (name, machine) = load_candidates(words)
    assert name == "2xdgx-a100:1y"
    assert (machine.scenario.model, machine.scenario.cluster.nodes) == ("llama-7b", 2)
    assert file.scenario.cluster.node == "dgx-h100"
    assert machine.file == words[0]


def test_machines_without_a_job_or_with_two(write):
    with pytest.raises(UsageError, match=r"2xdgx-h100, 3xdgx-h100: on which job\? Give --model"):
        load_candidates(["2xdgx-h100", "3xdgx-h100"])
    files = [write("p.yaml", PLAIN), write("q.yaml", PLAIN)]
    with pytest.raises(UsageError, match="on which job"):
        load_candidates([*files, "2xdgx-h100"])


def test_the_job_of_the_command_line_changes_that_of_files(write):
    job = {"model": "llama-13b", "training": {"tokens": "1T"}}
    found = load_candidates([write("s.yaml", STUDY)], job=job)
    assert {(loaded.scenario.model, loaded.scenario.training.tokens) for _, loaded in found} == {("llama-13b", 10**12)}


def test_a_wrong_word_is_told_with_the_wrong_files(write):
    bad = write("bad.yaml", "model: llama-7b\nclusters: {}\n")
    with pytest.raises(InputError) as caught:
        load_candidates([bad, "4xdgx-h100", "nothing"], ["training.micro_batch=0"], job={"model": "llama-7b"})
    text = str(caught.value)
    assert "nothing: no such file; give scenario files" in text
    assert "clusters" in text
    assert "training.micro_batch" in text


def test_a_wrong_term_is_wrong_usage():
    with pytest.raises(UsageError, match="'2y' is not own, on-demand, 1y, 3y, spot"):
        load_candidates(["4xdgx-h100:2y", "4xdgx-h100:1y"], job={"model": "llama-7b"})
