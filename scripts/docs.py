"""Runs what README and docs show, and writes the real outputs and tables back. `make docs`, or with `--check` only
compare.

Fenced blocks and what happens to them:

* ```console: lines that begin with `$ ` run in the repository root with this environment's simcluster; what follows is
  the output. A line `...` stands for any lines, `[exit 3]` for a status other than zero. Numbers, their units, bars and
  signs are not compared.
* ```python: doctest, numbers not compared.
* ```yaml: a file if its first line is a comment with a path (`# my-db/gpus/x1.yaml`), which later commands can use;
  else a piece of a scenario, which must load.
* ```sh: not run (set-up commands); scripts that it names must exist.

Between `<!-- table NAME -->` and `<!-- /table -->` stands what is made from the hardware schema or its sources.
"""

import difflib
import doctest
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")))
ANY = "..."
LICENCES = {  # of repositories that the hardware catalogue names, from general knowledge
    "stas00/ml-engineering": "CC BY-SA 4.0 (general knowledge)",
    "mlcommons/": "Apache-2.0 (general knowledge)",
    "skypilot-org/": "Apache-2.0 (general knowledge)",
    "vllm-project/": "Apache-2.0 (general knowledge)",
    "pytorch/torchtitan": "BSD-3-Clause (general knowledge)",
    "hashicorp/terraform-provider-aws": "MPL-2.0 (general knowledge)",
    "mlco2/codecarbon": "MIT (general knowledge)",
    "arXiv": "see the paper",
}
BASE = ROOT / "examples" / "llama-65b-512xa100.yaml"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- /table -->)", re.DOTALL)
_UNIT = r"(ns|us|ms|s|h|min|k|M|G|T|P|%|[kMGT]i?B)?"
_NUMBER = re.compile(r"(?<![\w.-])[+-]?\d[\d,]*(\.\d+)?(e[+-]?\d+)?\s?" + _UNIT + r"(?![\w-])")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text, and place in the page."""

    language: str
    text: str
    start: int
    stop: int


def blocks(page):
    """Fenced blocks of a page, in order."""
    return [Block(found[1], found[2], found.start(2), found.end(2)) for found in _FENCE.finditer(page)]


def loose(line):
    """A line without what may change from one calibration to the next.

    >>> loose("step time   20.6 s  + 3.1 ms"), loose("MFU 50.7%  ████")
    ('step time # #', 'MFU #')
    """
    line = _NUMBER.sub("#", line.replace("█", ""))
    return re.sub(r"(?<!\S)[+=~-]\s?(?=#)", "", " ".join(line.split()))


def differences(expected, actual):
    """Lines by which an output differs from what a page shows; none if it is the same but for numbers.

    >>> differences(["a 1", "...", "z"], ["a 2", "b", "c", "z"])
    []
    """
    parts = ["".join(re.escape(loose(line)) + "\n" for line in part) for part in _split(expected)]
    text = "".join(loose(line) + "\n" for line in actual)
    if re.fullmatch(r"(?s)" + r"(.*\n)?".join(parts), text):
        return []
    return list(difflib.unified_diff(expected, actual, "shown", "real", lineterm="", n=0))


def _split(lines):
    """Runs of lines between those that stand for any."""
    runs = [[]]
    for line in lines:
        runs.append([]) if line == ANY else runs[-1].append(line)
    return runs


def commands(text):
    """Commands of a console block, each with the lines it shows; a command may go on after a backslash."""
    found = []
    for line in text.splitlines():
        if found and found[-1][0].endswith("\\") and not found[-1][1]:
            found[-1][0] += "\n" + line
        elif line.startswith("$ "):
            found.append([line[2:], []])
        elif found:
            found[-1][1].append(line)
    return [(command, lines) for command, lines in found]


def like(expected, actual):
    """Real lines cut as the shown ones were: as many before `...` and after it; lines between two stay as they are."""
    if expected.count(ANY) != 1:
        return expected if ANY in expected else actual
    head = expected.index(ANY)
    tail = expected[::-1].index(ANY)
    return [*actual[:head], ANY, *(actual[len(actual) - tail :] if tail else [])]


def _status(lines):
    """The last line if it states a status other than zero."""
    return lines[-1] if lines and lines[-1].startswith("[exit ") else ""


class Runner:
    """Runs the blocks of one page in a folder that looks like the repository root."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.globals = {}
        for entry in ROOT.iterdir():
            if not entry.name.startswith("."):
                (self.folder / entry.name).symlink_to(entry)

    def output(self, command):
        """Lines that a command prints, with its status at the end if it is not zero."""
        kept = {
            key: os.environ[key] for key in ("HOME", "TMPDIR", "SYSTEMROOT", "LANG", "PYTHONPATH") if key in os.environ
        }
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        env = {**kept, "PATH": path, "PYTHONUTF8": "1", "NO_COLOR": "1", "COLUMNS": "100"}
        done = subprocess.run(
            ["bash", "-c", command],
            check=False,
            cwd=self.folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=180,
        )
        lines = [line.rstrip() for line in done.stdout.decode("utf-8").splitlines()]
        return [*lines, f"[exit {done.returncode}]"] if done.returncode else lines

    def console(self, text):
        """Text of a console block with real outputs, and what differs."""
        shown, wrong = [], []
        for command, expected in commands(text):
            actual = self.output(command)
            wrong += [f"$ {command}", *found] if (found := differences(expected, actual)) else []
            same_status = _status(actual) == _status(expected)
            shown += [f"$ {command}", *(like(expected, actual) if same_status else expected)]
        return "\n".join(shown) + "\n", wrong

    def python(self, text):
        """Text of a doctest block with real outputs, and its failures."""
        test = doctest.DocTestParser().get_doctest(text, self.globals, "page", None, 0)
        report = []
        runner = _Recorder(_Loose(), verbose=False, optionflags=doctest.ELLIPSIS)
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            runner.run(test, out=report.append, clear_globs=False)
        finally:
            os.chdir(before)
        self.globals = test.globs
        return (text if report else "".join(runner.shown) + "\n"), report

    def yaml(self, text):
        """The block, and what is wrong with it: a file is written, a piece of a scenario loaded."""
        named = re.match(r"# ([\w./-]+/[\w.-]+|[\w-]+\.yaml)\n", text)
        if named:
            path = self.folder / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            return text, []
        return text, _piece_problems(text)


class _Recorder(doctest.DocTestRunner):
    """Keeps what each example prints."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.shown = []

    def report_success(self, _out, _test, example, got):
        first, *rest = example.source.splitlines()
        lines = [f">>> {first}", *(f"... {line}" for line in rest)]
        self.shown.append("\n".join([*lines, got]))


class _Loose(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(*("\n".join(map(loose, text.splitlines())) for text in (want, got)), optionflags)


def _piece_problems(text):
    """What is wrong with a piece of a scenario laid over an example."""
    import yaml

    from simcluster.errors import InputError
    from simcluster.scenario import load_study_text

    piece = yaml.safe_load(text)
    whole = {} if "model" in piece and "cluster" in piece else yaml.safe_load(BASE.read_text(encoding="utf-8"))
    try:
        load_study_text(yaml.safe_dump({**whole, **piece}))
    except InputError as error:
        return [str(error)]
    return []


def hardware_tables():
    """Markdown of every type of entry in the hardware schema, and of its table if it has one."""
    from simcluster.hardware.schema import KINDS, TABLES

    parts = []
    for kind, types in KINDS.items():
        for name, group in types.items():
            parts.append(f"### `{kind}`: type `{name}`\n\n{_field_table('value', group)}")
            if name in TABLES:
                parts.append(f"Columns of its table:\n\n{_field_table('column', TABLES[name].columns)}")
    return "\n" + "\n".join(parts) + "\n"


def _field_table(title, group):
    """Markdown table of fields."""
    if not group:
        return "Holds a table only.\n"
    rows = [f"| {title} | needed | SI unit | meaning |", "|---|---|---|---|"]
    for key, field in group.items():
        kind = f"id of {field.refers}" if field.refers else field.dimension
        rows.append(f"| `{key}` | {'yes' if field.required else ''} | {kind} | {field.doc} |")
    return "\n".join(rows) + "\n"


def source_lines():
    """Sources of the hardware catalogue with their licences, for NOTICE."""
    import yaml

    sources = yaml.safe_load((ROOT / "hardware_db" / "sources.yaml").read_text(encoding="utf-8"))
    lines = []
    for source in sources.values():
        found = next((text for name, text in LICENCES.items() if name in source["reference"]), "not stated")
        if source["kind"] not in ("derived", "knowledge"):
            lines.append(f"   {source['title']}: {source['reference']}; {found}\n")
    return "".join(lines)


TABLES = {"hardware": hardware_tables, "sources": source_lines}


def with_tables(page):
    """The page with its tables made anew."""
    return _TABLE.sub(lambda found: found[1] + TABLES[found[2]]() + found[4], page)


def refresh(page, folder):
    """The page with real outputs, and everything that was wrong with it."""
    runner, wrong, parts, at = Runner(folder), [], [], 0
    for block in blocks(page):
        run = {"console": runner.console, "python": runner.python, "yaml": runner.yaml}.get(block.language)
        text, found = run(block.text) if run else (block.text, [])
        wrong += found
        parts += [page[at : block.start], text]
        at = block.stop
    fresh = with_tables("".join([*parts, page[at:]]))
    if with_tables(page) != page:
        wrong.append("a table differs from what it is made from")
    return fresh, wrong


def main(arguments):
    """Refreshes all pages, or with --check tells what differs."""
    failed = False
    for name in (*PAGES, "NOTICE"):
        page = (ROOT / name).read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            fresh, wrong = refresh(page, folder)
        if wrong:
            sys.stdout.write("\n".join([f"{name}:", *wrong, ""]))
        if "--check" in arguments:
            failed = failed or bool(wrong)
        elif fresh != page:
            (ROOT / name).write_text(fresh, encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
