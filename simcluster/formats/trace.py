"""Traces in the Trace Event Format that Chrome, Perfetto and their kin read (JSON, "X", flow and counter events).

Times are cut to nanoseconds. Slices of one thread nest or are disjoint, as readers demand: Perfetto drops a slice that
overlaps another without a word. The same trace gives the same bytes.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

Event: TypeAlias = dict[str, Any]
SUFFIXES = (".json", ".json.gz")
_TICKS = 1e9  # a second in nanoseconds
_ROUNDING = 2  # nanoseconds by which neighbours may overlap because of rounding
_THREADS_EACH = 1000  # numbers of threads that a process may have


@dataclass(frozen=True, slots=True)
class Process:
    """A group of threads; `label` is shown beside its name."""

    name: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Thread:
    """Something that does one thing at a time; `process` is an index into `Trace.processes`."""

    process: int
    name: str


@dataclass(frozen=True, slots=True)
class Slice:
    """What a thread does for a while; `thread` is an index into `Trace.threads`, times in seconds >= 0."""

    thread: int
    name: str
    category: str
    start_s: float
    end_s: float
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flow through slices, two or more points (thread, seconds) in time order, each inside a slice."""

    name: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Counter:
    """A figure of a process over time: it has each value from its time on; samples are (seconds, value)."""

    process: int
    name: str
    unit: str
    samples: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace; `about` says what it is, as plain JSON."""

    processes: Sequence[Process]
    threads: Sequence[Thread]
    slices: Sequence[Slice]
    arrows: Sequence[Arrow] = ()
    counters: Sequence[Counter] = ()
    about: Mapping[str, Any] = field(default_factory=dict)


def nanoseconds(seconds: float) -> int:
    """The nearest nanosecond.

    >>> nanoseconds(1.5e-6)
    1500
    """
    return round(seconds * _TICKS)


def microseconds(ticks: int) -> float:
    """Nanoseconds as the format's microseconds: the nearest float that does not lose a nanosecond when a reader cuts.

    >>> microseconds(1500), int(microseconds(123456789) * 1000)
    (1.5, 123456789)
    """
    value = ticks / 1000
    return value if int(value * 1000) == ticks else math.nextafter(value, math.inf)


def trace_events(trace: Trace) -> list[Event]:
    """Events of a trace: names, slices by thread and time, arrows, counters.

    Raises ValueError if two slices of a thread overlap without one holding the other.

    >>> one = Slice(0, "work", "cpu", 0.0, 2e-6)
    >>> trace_events(Trace([Process("me")], [Thread(0, "main")], [one]))[-1]
    {'ph': 'X', 'pid': 1, 'tid': 1001, 'ts': 0.0, 'dur': 2.0, 'name': 'work', 'cat': 'cpu'}
    """
    return [*_names(trace), *_slices(trace), *_arrows(trace), *_counters(trace)]


def trace_bytes(trace: Trace, compressed: bool = False) -> bytes:
    """The file of a trace; compressed by gzip, without time or name. Raises ValueError as `trace_events`."""
    lines = ",\n".join(json.dumps(event, separators=(",", ":"), ensure_ascii=False) for event in trace_events(trace))
    about = json.dumps(dict(trace.about), ensure_ascii=False, indent=1)
    text = f'{{"displayTimeUnit":"ms","otherData":{about},\n"traceEvents":[\n{lines}\n]}}\n'
    data = text.encode()
    return gzip.compress(data, mtime=0) if compressed else data


def write_trace(path: Path, trace: Trace) -> None:
    """Writes a trace, compressed if the file's name ends with .gz. Raises OSError, and ValueError as `trace_events`."""
    path.write_bytes(trace_bytes(trace, path.name.endswith(".gz")))


def _place(trace: Trace, thread: int) -> Event:
    process = trace.threads[thread].process + 1
    return {"pid": process, "tid": process * _THREADS_EACH + thread % _THREADS_EACH + 1}


def _names(trace: Trace) -> Iterator[Event]:
    for number, process in enumerate(trace.processes):
        place = {"ph": "M", "pid": number + 1}
        yield {**place, "name": "process_name", "args": {"name": process.name}}
        yield {**place, "name": "process_sort_index", "args": {"sort_index": number}}
        if process.label:
            yield {**place, "name": "process_labels", "args": {"labels": process.label}}
    for number, thread in enumerate(trace.threads):
        place = {"ph": "M", **_place(trace, number)}
        yield {**place, "name": "thread_name", "args": {"name": thread.name}}
        yield {**place, "name": "thread_sort_index", "args": {"sort_index": number}}


def _slices(trace: Trace) -> Iterator[Event]:
    lanes: list[list[tuple[int, int, int]]] = [[] for _ in trace.threads]
    for number, one in enumerate(trace.slices):
        lanes[one.thread].append((nanoseconds(one.start_s), -nanoseconds(one.end_s), number))
    for lane in lanes:
        for start, end, number in _fitted(trace, sorted(lane)):
            one = trace.slices[number]
            event: Event = {"ph": "X", **_place(trace, one.thread), "ts": microseconds(start)}
            event |= {"dur": microseconds(end - start), "name": one.name, "cat": one.category}
            yield event | ({"args": dict(one.arguments)} if one.arguments else {})


def _fitted(trace: Trace, lane: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Slices (start, end, number) of a lane, what rounding made overlap moved apart."""
    around: list[tuple[int, int]] = []  # ends and numbers of the slices that hold the next one
    for begin, minus_end, number in lane:
        start, end = begin, -minus_end
        while around and around[-1][0] - start <= _ROUNDING and around[-1][0] < end:
            start = max(start, around.pop()[0])
        if around and end > around[-1][0]:
            if end - around[-1][0] > _ROUNDING:
                one, other = trace.slices[number], trace.slices[around[-1][1]]
                raise ValueError(f"slices overlap on thread {trace.threads[one.thread].name}: {other} and {one}")
            end = around[-1][0]
        around.append((end, number))
        yield start, end, number


def _arrows(trace: Trace) -> Iterator[Event]:
    for number, arrow in enumerate(trace.arrows):
        last = len(arrow.points) - 1
        for index, (thread, seconds) in enumerate(arrow.points):
            phase = "s" if index == 0 else "f" if index == last else "t"
            event: Event = {"ph": phase, **_place(trace, thread), "ts": microseconds(nanoseconds(seconds))}
            event |= {"id": number + 1, "name": arrow.name, "cat": "flow"}
            yield event | ({"bp": "e"} if phase == "f" else {})


def _counters(trace: Trace) -> Iterator[Event]:
    for counter in trace.counters:
        for seconds, value in counter.samples:
            when = microseconds(nanoseconds(seconds))
            yield {
                "ph": "C", "pid": counter.process + 1, "ts": when, "name": counter.name, "args": {counter.unit: value},
            }  # fmt: skip
