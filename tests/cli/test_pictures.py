"""`simulate --trace` and `--plot`: files beside the answer."""

from __future__ import annotations

import gzip
import json
import xml.etree.ElementTree as ET

import pytest

import simcluster.study


def test_the_answer_is_still_printed(say, scenario, tmp_path):
    trace, plot = tmp_path / "step.json.gz", tmp_path / "step.svg"
    said = say("simulate", scenario, "--trace", str(trace), "--plot", str(plot))
    assert (said.code, said.err) == (0, "")
    assert said.out == say("simulate", scenario).out
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    last = max(one["ts"] + one["dur"] for one in events if one["ph"] == "X")
    step = say("simulate", scenario, "--format", "json").json["step"]["time_s"]
    assert last == pytest.approx(step * 1e6, rel=1e-6)
    words = "".join(ET.parse(plot).getroot().itertext())
    assert all(word in words for word in ("stage 0", "stage 1", "forward", "backward", "time, ms"))


def test_json_too_and_uncompressed(say, scenario, tmp_path):
    trace = tmp_path / "step.json"
    said = say("simulate", scenario, "--format", "json", "--trace", str(trace))
    assert said.json["step"]["time_s"] == json.loads(trace.read_text())["otherData"]["step_s"]


@pytest.mark.parametrize("name", ["a.svg", "a.png", "a.pdf", "a.json", "a.json.gz"])
def test_the_same_bytes_each_time(say, scenario, tmp_path, name):
    found = []
    for _ in range(2):
        option = "--trace" if "json" in name else "--plot"
        assert say("simulate", scenario, option, str(tmp_path / name)).code == 0
        found.append((tmp_path / name).read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--trace", "{}/none/a.json"), "there is no folder"),
        (("--plot", "{}/none/a.png"), "there is no folder"),
        (("--trace", "{}/folder.json"), "it is a folder"),
        (("--trace", "{}/a.txt"), "name one that ends with .json or .json.gz"),
        (("--plot", "{}/a.jpeg"), "name one that ends with .svg, .png or .pdf"),
        (("--plot", "{}/.svg"), "name one that ends with .svg, .png or .pdf"),
        (("--trace", "{}/a.json", "-o", "{}/a.json"), "a.json: named for two outputs"),
    ],
)
def test_a_bad_file_is_one_error_before_anything_is_computed(say, scenario, tmp_path, monkeypatch, options, words):
    def never(*_arguments):
        raise AssertionError("loaded")

    monkeypatch.setattr(simcluster.study, "load_one", never)
    (tmp_path / "folder.json").mkdir()
    said = say("simulate", scenario, *(one.format(tmp_path) for one in options))
    assert (said.code, said.out) == (2, "")
    assert words in said.err
    assert len(said.err.strip().splitlines()) == 1


def test_a_file_that_cannot_be_written_after_all(say, scenario, tmp_path):
    """A full device shows only when it is written to."""
    full = tmp_path / "full.json"
    full.symlink_to("/dev/full")
    said = say("simulate", scenario, "--trace", str(full))
    assert said.code == 2
    assert "--trace" in said.err
    assert "cannot be written" in said.err
