"""Every form of the answers: golden pages, terminals, pipes, colour.

The pages in golden/ are compared without their numbers. SIMCLUSTER_UPDATE_GOLDEN=1 writes them anew.
"""

import csv
import difflib
import fcntl
import importlib.util
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import click
import pytest

from simcluster.reports.layout import Page

HERE = Path(__file__).parent
MORE = {"simulate": (), "compare": ("--what-if", "slow")}
FORMS = {"table": "txt", "markdown": "md", "csv": "csv"}
VARYING = re.compile(r'^(\w*|"[^"]*"),(assumptions\.|meta\.hash).*$', re.MULTILINE)


def _docs():
    """scripts/docs.py, which is no package; its `loose` masks numbers."""
    path = HERE.parents[1] / "scripts" / "docs.py"
    spec = importlib.util.spec_from_file_location("scripts_docs_of_formats", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


LOOSE = _docs().loose


def masked(text: str) -> list[str]:
    """Words without numbers; a page that wraps is one line, as numbers of other lengths wrap elsewhere."""
    text = VARYING.sub("", text)
    paragraphs = [" ".join(LOOSE(line) for line in part.splitlines()) for part in text.split("\n\n")]
    return [" ".join(part.split()) for part in paragraphs]


def golden(name: str, text: str) -> None:
    path = HERE / "golden" / name
    if os.environ.get("SIMCLUSTER_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8")
    difference = "\n".join(
        difflib.unified_diff(kept.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=0)
    )
    assert masked(text) == masked(kept), difference


@pytest.fixture
def eighty(monkeypatch):
    """Answers as on a terminal of 80 columns without colour."""
    monkeypatch.setattr(Page, "for_output", classmethod(lambda cls, *_: cls(width=80)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", MORE)
def test_golden_pages(say, scenario, eighty, command, form):
    said = say(command, scenario, *MORE[command], "--format", form)
    assert (said.code, said.err) == (0, "")
    golden(f"{command}.{FORMS[form]}", said.out)
    if form == "table":
        assert max(map(len, said.out.splitlines())) <= 80


def test_golden_errors(say, scenario, tmp_path):
    path = tmp_path / "small.yaml"
    text = path.read_text(encoding="utf-8").replace("micro_batch:", "micro_batchs:").replace("selective", "some")
    path.write_text(text.replace("nodes: 2", "nodes: two"), encoding="utf-8")
    said = say("simulate", scenario)
    assert (said.code, said.out) == (3, "")
    golden("errors.txt", said.err.replace(str(tmp_path), "FOLDER"))


@pytest.mark.parametrize("command", MORE)
def test_csv_reads_as_a_table(say, scenario, command):
    rows = list(csv.DictReader(io.StringIO(say(command, scenario, *MORE[command], "--format", "csv").out)))
    record = say(command, scenario, *MORE[command], "--format", "json").json
    found = {(row["candidate"], row["key"]): row["value"] for row in rows}
    alone = record["candidates"][1]["evaluation"] if command == "compare" else record
    name = "small, slow" if command == "compare" else "small"
    assert float(found[name, "step.time_s"]) == alone["step"]["time_s"]
    assert "nan" not in {row["value"].lower() for row in rows}


def test_markdown_goes_to_a_file(say, scenario, tmp_path):
    assert say("compare", scenario, scenario, "--format", "markdown", "-o", str(tmp_path / "a.md")).out == ""
    text = (tmp_path / "a.md").read_text(encoding="utf-8")
    assert text.startswith("# small against small (2)\n")
    assert "| results | small | small (2) | change |" in text


def test_colour_on_demand_only(say, scenario, monkeypatch):
    plain = say("compare", scenario, "--what-if", "slow").out
    assert "\x1b" not in plain
    coloured = say("compare", scenario, "--what-if", "slow", "--color", "always").out
    assert "\x1b[31m" in coloured
    assert click.unstyle(coloured) == plain
    for form in ("json", "csv", "markdown"):
        assert "\x1b" not in say("compare", scenario, "--what-if", "slow", "--color", "always", "--format", form).out


def test_names_cannot_steer_a_coloured_terminal(say, scenario, tmp_path):
    said = say("simulate", scenario, "--color", "always", "--set", 'name="a\x1b[35mb"')
    assert r"a\x1b[35mb" in said.out
    assert "\x1b[35m" not in said.out


def on_a_terminal(columns: int, *arguments: str, **environment: str) -> str:
    """What a command writes on a terminal of that width."""
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    kept |= {"TERM": "xterm", "PYTHONUTF8": "1", **environment}
    process = subprocess.Popen([sys.executable, "-m", "simcluster", *arguments], stdout=writer, env=kept)
    os.close(writer)
    written = b""
    while True:
        try:
            part = os.read(reader, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(reader)
    assert process.wait() == 0
    return written.decode().replace("\r\n", "\n")


def test_a_real_terminal(scenario):
    text = on_a_terminal(66, "compare", scenario, "--what-if", "slow")
    assert "\x1b[1m" in text
    assert max(map(len, click.unstyle(text).splitlines())) <= 66
    assert "\x1b" not in on_a_terminal(66, "compare", scenario, "--what-if", "slow", NO_COLOR="1")


def test_a_pipe_is_never_cut(scenario):
    environment = {**os.environ, "COLUMNS": "30"}
    command = [sys.executable, "-m", "simcluster", "compare", scenario, "--what-if", "slow"]
    text = subprocess.run(command, capture_output=True, text=True, env=environment, check=True).stdout
    assert max(map(len, text.splitlines())) > 100
    assert "…" not in text
