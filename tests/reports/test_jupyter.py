"""Pages in notebooks: registered by name, well formed, with what users name escaped."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest

from simcluster.reports import jupyter
from simcluster.reports.blocks import Column, Points, Table, Words


class Formatter(dict):
    """As much of IPython's formatter as is used: printers by dotted name of the type."""

    def for_type_by_name(self, module, name, function):
        self[f"{module}.{name}"] = function


def shell():
    return SimpleNamespace(display_formatter=SimpleNamespace(formatters=defaultdict(Formatter)))


class Checker(HTMLParser):
    """Counts tags; each must be closed, in order."""

    def __init__(self):
        super().__init__()
        self.open, self.seen = [], defaultdict(int)

    def handle_starttag(self, tag, attrs):
        self.seen[tag] += 1
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(text: str) -> dict[str, int]:
    checker = Checker()
    checker.feed(text)
    assert not checker.open
    return checker.seen


def test_types_are_registered_under_their_real_names(run, pair):
    ipython = shell()
    jupyter.load_ipython_extension(ipython)
    pages = ipython.display_formatter.formatters["text/html"]
    for shown in (run(), pair):
        kind = type(shown)
        page = pages[f"{kind.__module__}.{kind.__qualname__}"](shown)
        assert tags(page)["img"] == 1
    jupyter.unload_ipython_extension(ipython)
    assert not any(ipython.display_formatter.formatters.values())


def test_an_evaluation_says_what_the_command_says(run):
    page = jupyter.evaluation_html(run())
    found = tags(page)
    assert found["table"] >= 3
    assert "A step takes" in page
    assert "kernel_inefficiency" in page


def test_a_comparison_starts_with_the_verdict(pair):
    page = jupyter.comparison_html(pair)
    assert page.startswith("<p><b>Take base")
    assert tags(page)["table"] >= 3


def test_consoles_get_the_text_page(pair):
    written = []
    ipython = shell()
    jupyter.load_ipython_extension(ipython)
    show = ipython.display_formatter.formatters["text/plain"]["simcluster.study.comparison.Comparison"]
    show(pair, SimpleNamespace(text=written.append), False)
    assert written[0].startswith("Take base")


@pytest.mark.parametrize(
    "block",
    [
        Words(("<script>alert(1)</script>",), "strong"),
        Points("<script>", ("<script>",)),
        Table((Column("<script>"), Column("gone", shown="text")), (("<script>", "gone"),)),
    ],
)
def test_names_cannot_bring_markup(block):
    page = jupyter.html([block])
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "gone" not in page
    tags(page)


def test_importing_inside_ipython_registers():
    code = """
import sys, types
from collections import defaultdict
class Formatter(dict):
    def for_type_by_name(self, module, name, function): self[module + "." + name] = function
formatters = defaultdict(Formatter)
shell = types.SimpleNamespace(display_formatter=types.SimpleNamespace(formatters=formatters))
sys.modules["IPython"] = types.SimpleNamespace(get_ipython=lambda: shell)
import simcluster
print(len(formatters["text/html"]), "simcluster.evaluation" in sys.modules, "matplotlib" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2", "False", "False"]
