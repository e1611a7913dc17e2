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
