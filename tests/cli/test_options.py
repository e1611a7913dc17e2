"""Where the answer goes, and in which characters."""

import os
import re
import subprocess
import sys

import pytest

from simcluster.cli.options import answer, tell
from simcluster.errors import UsageError


def test_answer_goes_to_a_file(say, scenario, tmp_path):
    printed = say("simulate", scenario)
    said = say("simulate", scenario, "-o", str(tmp_path / "answer.txt"))
    assert (said.code, said.out, said.err) == (0, "", "")
    assert (tmp_path / "answer.txt").read_text(encoding="utf-8") == printed.out
    assert say("simulate", scenario, "-o", str(tmp_path / "answer.json"), "--format", "json").code == 0
    assert (tmp_path / "answer.json").read_text(encoding="utf-8").startswith("{")


@pytest.mark.parametrize("command", ["simulate", "show", "compare"])
def test_an_unwritable_file_is_wrong_usage(say, scenario, tmp_path, command):
    files = [scenario, scenario] if command == "compare" else [scenario]
    said = say(command, *files, "-o", str(tmp_path / "no" / "such" / "folder"))
    assert said.code == 2
    assert "cannot be written: No such file or directory; name a file in a folder that exists" in said.err
    said = say(command, *files, "-o", str(tmp_path))
    assert said.code == 2
    assert "is a directory" in said.err


def test_answer_raises_for_what_cannot_be_written(tmp_path):
    with pytest.raises(UsageError, match="cannot be written"):
        answer("text", tmp_path)


def encoded(encoding: str, *arguments: str) -> bytes:
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-m", "simcluster", *arguments], capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ascii_where_the_output_is_ascii(scenario):
    text = encoded("ascii", "simulate", scenario, "--set", "name=größe").decode("ascii")
    assert text.startswith(r"gr\xf6\xdfe: ")
    assert re.search(r"^ideal .*#+ +model FLOPs", text, re.MULTILINE)
    assert " - " in text


def test_pipes_get_no_colour_and_whole_lines(scenario):
    text = encoded("utf-8", "compare", scenario, scenario).decode("utf-8")
    assert "\x1b" not in text
    assert "…" not in text
    assert not re.search(r"[ \t]$", text, re.MULTILINE)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_json_is_the_same_in_any_encoding(scenario, encoding):
    def body(data):
        return re.sub(rb'"seconds": [0-9.e-]+', b"", data)

    arguments = ("show", scenario, "--format", "json", "--set", "name=größe 模型")
    assert body(encoded(encoding, *arguments)) == body(encoded("utf-8", *arguments))


def test_names_cannot_steer_the_terminal(say, scenario, tmp_path):
    text = (tmp_path / "small.yaml").read_text(encoding="utf-8")
    (tmp_path / "a.yaml").write_text(text.replace("name: small", 'name: "a\\e[31mb\\a"'), encoding="utf-8")
    said = say("simulate", str(tmp_path / "a.yaml"))
    assert said.code == 0
    assert said.out.startswith(r"a\x1b[31mb\x07: ")


def test_notes_are_told_once_and_apart(say, capsys, tmp_path, scenario):
    tell(["a", "b", "a"])
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "note: a\nnote: b\n")


def test_a_studys_candidates_are_not_left_aside_silently(say, scenario, tmp_path):
    text = (tmp_path / "small.yaml").read_text(encoding="utf-8") + "candidates: {a: {}, b: {cluster: {nodes: 4}}}\n"
    (tmp_path / "study.yaml").write_text(text, encoding="utf-8")
    said = say("simulate", str(tmp_path / "study.yaml"))
    assert said.code == 0
    assert re.fullmatch(r"note: \S+study.yaml:18:1: candidates left aside, .*\n", said.err)
    assert say("compare", str(tmp_path / "study.yaml")).err == ""
