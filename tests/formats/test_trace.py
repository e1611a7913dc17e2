"""Traces: what readers demand of the format, whatever is put in."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.formats.trace import (
    Arrow,
    Counter,
    Process,
    Slice,
    Thread,
    Trace,
    microseconds,
    nanoseconds,
    trace_bytes,
    trace_events,
    write_trace,
)

MANY = Trace(
    [Process("one", "alone"), Process("two")],
    [Thread(0, "compute"), Thread(0, "send"), Thread(1, "compute")],
    [
        Slice(0, "F0", "forward", 0.0, 1.0, {"micro_batch": 0}),
        Slice(1, "F0", "message", 1.0, 1.5),
        Slice(2, "F0", "forward", 1.5, 2.5),
        Slice(2, "gemm", "kernel", 1.5, 2.0),
    ],
    [Arrow("activations", ((0, 0.9), (1, 1.0), (2, 1.5)))],
    [Counter(0, "memory", "bytes", ((0.0, 5.0), (1.0, 0.0)))],
    {"scenario": "größer"},
)


def lane(slices, name="x"):
    return Trace([Process("p")], [Thread(0, "t")], [Slice(0, name, "c", *when) for when in slices])


def spans(trace):
    return [(e["ts"], e["dur"]) for e in trace_events(trace) if e["ph"] == "X"]


@given(st.integers(0, 10**14))
def test_a_reader_that_cuts_finds_the_nanosecond(ticks):
    assert int(microseconds(ticks) * 1000) == ticks
    assert abs(microseconds(ticks) - ticks / 1000) <= 1e-3 * max(1.0, 1e-9 * ticks)


@given(st.lists(st.floats(1e-6, 10.0), min_size=2, max_size=40), st.floats(-1e-15, 1e-15))
def test_neighbours_stay_apart(lengths, error):
    """Sums of lengths touch but for rounding; the written ones never overlap, and end where they did."""
    ends, total = [0.0], 0.0
    for length in lengths:
        total += length
        ends.append(total)
    found = spans(lane([(max(0.0, start + error), end) for start, end in pairwise(ends)]))
    whole = [(int(ts * 1000), int(ts * 1000) + int(dur * 1000)) for ts, dur in found]
    assert all(after[0] >= before[1] for before, after in pairwise(whole))
    assert all(abs(stop - nanoseconds(end)) <= 2 for (_, stop), end in zip(whole, ends[1:]))


def test_what_holds_another_comes_first_and_keeps_it_inside():
    found = spans(lane([(0.25, 0.5), (0.0, 1.0), (0.0, 0.25), (0.5, 1.0 + 1e-9)]))
    assert found == [(0.0, 1e6), (0.0, 0.25e6), (0.25e6, 0.25e6), (0.5e6, 0.5e6)]


def test_slices_that_cross_are_refused():
    with pytest.raises(ValueError, match="overlap on thread t"):
        trace_events(lane([(0.0, 1.0), (0.5, 1.5)]))


def test_events():
    events = trace_events(MANY)
    threads = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(threads.values()) == ["compute", "compute", "send"]
    assert {e["pid"] for e in events} == {1, 2}
    assert [(e["ph"], threads[e["tid"]], e["ts"]) for e in events if e.get("cat") == "flow"] == [
        ("s", "compute", 0.9e6), ("t", "send", 1e6), ("f", "compute", 1.5e6),
    ]  # fmt: skip
    assert [(e["pid"], e["ts"], e["args"]) for e in events if e["ph"] == "C"] == [
        (1, 0.0, {"bytes": 5.0}), (1, 1e6, {"bytes": 0.0}),
    ]  # fmt: skip
    assert [e["args"]["labels"] for e in events if e["name"] == "process_labels"] == ["alone"]


def test_the_file_is_json_and_the_same_each_time(tmp_path):
    plain, packed = tmp_path / "a.json", tmp_path / "a.json.gz"
    write_trace(plain, MANY)
    write_trace(packed, MANY)
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()
    assert packed.read_bytes() == trace_bytes(MANY, compressed=True)
    assert packed.read_bytes()[4:8] == bytes(4)  # no time in the header
    read = json.loads(plain.read_bytes())
    assert read["traceEvents"] == trace_events(MANY)
    assert read["otherData"] == {"scenario": "größer"}
    assert read["displayTimeUnit"] == "ms"
