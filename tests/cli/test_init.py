"""Exit codes, errors without tracebacks, help that teaches and starts fast."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from simcluster import errors
from simcluster.cli import COMMANDS, PURPOSE, app, run

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("pandas", "scipy", "matplotlib", "pydantic", "networkx", "torch")
EXAMPLES_RUN = ("compare", "simulate", "show", "hardware")


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None, name
            found += commands(below, (*path, name))
    return found


def test_each_command_has_a_purpose():
    assert list(PURPOSE) == list(COMMANDS)


def test_help_of_every_command_runs(say):
    for path in commands(app):
        said = say(*path, "--help")
        assert said.code == 0, path
        assert said.out.startswith(f"Usage: {' '.join(('simcluster', *path))} ["), path
        assert "\\b" not in said.out
        assert said.err == ""


def test_help_needs_no_heavy_library():
    code = (
        "import io, sys, contextlib\n"
        "from simcluster.cli import run\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    codes = [run([*path, '--help']) for path in {[*((), *((name,) for name in COMMANDS))]!r}]\n"
        f"print(codes, sorted(set({HEAVY!r}) & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{[0] * (len(COMMANDS) + 1)} []"


def test_examples_of_the_help_run(say, monkeypatch, tmp_path):
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)  # some write files
    lines = []
    for path in commands(app):
        if not path or path[0] in EXAMPLES_RUN:
            lines += re.findall(r"^ +simcluster (.*)$", say(*path, "--help").out, re.MULTILINE)
    assert len(lines) >= 6
    for line in dict.fromkeys(lines):
        assert say(*shlex.split(line)).code == 0, line


def test_every_exit_code_is_documented():
    words = " ".join(app.help.split())
    for code in (0, 1, 2, 3, 4, 70, 130):
        assert re.search(rf"\b{code} [a-z]", words), code


@pytest.mark.parametrize(
    ("raised", "code", "words"),
    [
        (errors.SimclusterError("no answer"), 1, "no answer"),
        (OSError(28, "No space left on device"), 1, "output: No space left on device"),
        (errors.UsageError("not like that"), 2, "not like that"),
        (errors.InputError("wrong file"), 3, "wrong file"),
        (errors.LimitError("too dear"), 4, "too dear"),
        (RuntimeError("oops"), 70, "simcluster failed: RuntimeError: oops; this is a defect (--debug shows where)"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_exit_codes(say, monkeypatch, scenario, raised, code, words):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr("simcluster.study.settled", fail)
    said = say("simulate", scenario)
    assert (said.code, said.out) == (code, "")
    assert said.err.strip() == words


def test_debug_shows_the_traceback_and_keeps_the_code(say, monkeypatch, scenario):
    plain = say("simulate", "nowhere.yaml")
    assert "Traceback" not in plain.err
    for arguments in (("--debug", "simulate", "nowhere.yaml"), ("simulate", "nowhere.yaml")):  # the second: variable
        said = say(*arguments)
        assert said.code == plain.code == 3
        assert "Traceback" in said.err
        assert said.err.endswith(plain.err)
        monkeypatch.setenv("SIMCLUSTER_DEBUG", "1")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["frobnicate"], "No such command 'frobnicate'"),
        (["simulate"], "Missing argument"),
        (["simulate", "a.yaml", "--format", "xml"], "'xml' is not one of"),
        (["simulate", "a.yaml", "--sed", "1"], "--seed"),
        (["compare", "a.yaml", "--seed", "-1"], "-1 is not in the range"),
        (["simulate", "{scenario}", "--set", "micro_batch"], "write dotted.path=value"),
        (["compare", "{scenario}"], "needs two candidates or more, got 1"),
    ],
)
def test_wrong_usage_is_two(say, scenario, arguments, words):
    said = say(*(text.format(scenario=scenario) for text in arguments))
    assert said.code == 2
    assert words in said.err
    assert said.out == ""


def test_whoever_starts_it_gets_the_code(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "simcluster", "simulate", str(tmp_path / "no.yaml")], capture_output=True, text=True
    )
    assert done.returncode == 3
    assert done.stderr == f"{tmp_path / 'no.yaml'}: no such file; check the path\n"


def test_a_closed_pipe_is_no_defect(scenario):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "simcluster", "simulate", scenario], stdout=writer, stderr=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert "defect" not in done.stderr
    assert "Traceback" not in done.stderr


def broken_files(folder: Path) -> dict[str, bytes]:
    laughs = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    for above, name in zip("abcde", "bcdef"):
        laughs += f"{name}: &{name} [{','.join([f'*{above}'] * 10)}]\n"
    return {
        "empty.yaml": b"",
        "binary.yaml": bytes(range(256)) * 4,
        "laughs.yaml": laughs.encode(),
        "deep.yaml": b"[" * 5000,
        "list.yaml": b"- 1\n- 2\n",
        "word.yaml": b"hello\n",
        "tabs.yaml": b"model:\n\t- x\n",
        "twice.yaml": b"model: llama-7b\nmodel: llama-7b\n",
        "tag.yaml": b"model: !!python/object/apply:os.system [x]\n",
        "two.yaml": b"model: llama-7b\n---\nmodel: llama-7b\n",
        "huge.yaml": b"#" * (5 * 2**20),
        "nul.yaml": b"model: a\0b\n",
    }


def test_broken_files_are_one_clear_message(say, tmp_path):
    for name, content in broken_files(tmp_path).items():
        path = tmp_path / name
        path.write_bytes(content)
        for command in (("simulate", str(path)), ("show", str(path)), ("compare", str(path), str(path))):
            said = say(*command)
            assert said.code == 3, (name, command, said)
            assert said.err.startswith(str(path)), (name, said.err)
            assert said.out == ""


def test_a_folder_is_no_scenario(say, tmp_path):
    for command in (("simulate", str(tmp_path)), ("show", str(tmp_path)), ("compare", str(tmp_path), str(tmp_path))):
        said = say(*command)
        assert (said.code, said.out) == (3, "")
        assert said.err.startswith(f"{tmp_path}: cannot be read")


def test_missing_files_are_told_together(say, scenario):
    said = say("compare", "one.yaml", scenario, "two.yaml")
    assert said.code == 3
    assert [line.partition(":")[0] for line in said.err.splitlines()] == ["one.yaml", "two.yaml", "2 problems"]


def test_run_gives_what_a_command_returns(monkeypatch):
    monkeypatch.setattr(app, "main", lambda *_, **__: 4)
    assert run([]) == 4
    monkeypatch.setattr(app, "main", lambda *_, **__: None)
    assert run([]) == 0


def test_the_wrong_hardware_folder(say, scenario, tmp_path):
    assert say("simulate", scenario, "--hardware-db", str(tmp_path / "no")).code == 3
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "broken.yaml").write_text("id: [", encoding="utf-8")
    said = say("simulate", scenario, "--hardware-db", str(tmp_path), "--set", "cluster.node=nothing")
    assert said.code == 3
    assert "Traceback" not in said.err


def test_json_of_a_failure_is_no_json(say):
    said = say("simulate", "no.yaml", "--format", "json")
    assert said.code == 3
    with pytest.raises(json.JSONDecodeError):
        json.loads(said.out)
