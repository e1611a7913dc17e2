"""Candidates as a study file."""

import pytest

from simcluster.errors import UsageError
from simcluster.scenario import digest, load_study
from simcluster.study import load_candidates, save_study

JOB = {"model": "llama-7b", "training": {"tokens": "2T"}}
WORDS = ["32xdgx-b200:own", "32xaws-p6-b200:3y", "64xhgx-h100:1y", "8xdgx-a100/roce-200:spot"]


def read(path):
    return {name: digest(loaded.scenario) for name, loaded in load_study(path).candidates}


def test_the_saved_study_is_the_same_study(tmp_path):
    named = load_candidates(WORDS, ["training.precision=fp8"], job=JOB)
    save_study(named, tmp_path / "s.yaml")
    assert read(tmp_path / "s.yaml") == {name: digest(loaded.scenario) for name, loaded in named}


def test_what_all_share_is_said_once(tmp_path):
    save_study(load_candidates(WORDS, job=JOB), tmp_path / "s.yaml")
    text = (tmp_path / "s.yaml").read_text()
    assert text.count("llama-7b") == text.count("2T") == 1


def test_files_with_what_ifs_of_different_folders(tmp_path):
    for name, node in (("a", "dgx-h100"), ("b", "{gpu: h100-sxm, gpus: 4, nics: 4x 400 Gbit/s}")):
        folder = tmp_path / name
        folder.mkdir()
        body = f"model: llama-7b\ncluster: {{node: {node}, nodes: 4, fabric: ib-ndr-400}}\n"
        (folder / f"{name}.yaml").write_text(body + "what_ifs: {half: {cluster.nodes: 2}}\n")
    named = load_candidates([str(tmp_path / "a" / "a.yaml"), str(tmp_path / "b" / "b.yaml")], what_ifs=["half"])
    save_study(named, tmp_path / "s.yaml")
    assert read(tmp_path / "s.yaml") == {name: digest(loaded.scenario) for name, loaded in named}


def test_paths_start_at_the_new_folder(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "config.json").write_text("{}")
    (tmp_path / "models" / "a.yaml").write_text("model: config.json\ncluster: {node: dgx-h100, nodes: 1}\n")
    named = load_candidates([str(tmp_path / "models" / "a.yaml")] * 2)
    save_study(named, tmp_path / "s.yaml")
    assert "model: ./models/config.json" in (tmp_path / "s.yaml").read_text()


def test_no_file_is_lost(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        save_study(load_candidates(WORDS, job=JOB), path)
    assert path.read_text() == "mine"
    with pytest.raises(UsageError, match="cannot be written"):
        save_study(load_candidates(WORDS, job=JOB), tmp_path / "nowhere" / "s.yaml")
