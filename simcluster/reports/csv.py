"""Records as CSV: one figure a line, keys as in JSON, SI units, figures in full.

Columns of `simulate` and `compare`: candidate, key, value, unit. Tables of several runs can be put below each other.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from simcluster.reports.records import to_json

HEADER = ("candidate", "key", "value", "unit")
_NAMES = ("part", "node", "component", "stage", "path", "name")  # what tells the items of a list apart
_UNITS = (
    (re.compile(r"gpu_s_per_million_tokens$"), "GPU-s per million tokens"),
    (re.compile(r"s_per_million_tokens$"), "s per million tokens"),
    (re.compile(r"usd_per_million_tokens(_p\d\d)?$"), "USD per million tokens"),
    (re.compile(r"usd_per_gpu_hour\w*$"), "USD per GPU-h"),
    (re.compile(r"tokens_per_s_per_gpu$"), "tokens/s/GPU"),
    (re.compile(r"tokens_per_s$"), "tokens/s"),
    (re.compile(r"tflops_per_gpu$"), "TFLOP/s/GPU"),
    (re.compile(r"bytes_per_s$"), "B/s"),
    (re.compile(r"_bytes$"), "B"),
    (re.compile(r"_days(_p\d\d)?$"), "days"),
    (re.compile(r"(_usd(_alone)?|^monthly_usd\..*)$"), "USD"),
    (re.compile(r"_kwh$"), "kWh"),
    (re.compile(r"_w$"), "W"),
    (re.compile(r"_j$"), "J"),
    (re.compile(r"(_s(_p\d\d)?|^seconds)$"), "s"),
)
_OF_PARENT = ("value", "low", "high")
_BYTES = ("components", "kinds")


def record_csv(record: Mapping[str, Any]) -> str:
    """A record of `simulate` or `compare`.

    >>> print(record_csv({"scenario": {"name": "a"}, "step": {"time_s": 1.5}}))
    candidate,key,value,unit
    a,scenario.name,a,
    a,step.time_s,1.5,s
    """
    plain = json.loads(to_json(record))  # what JSON says, so that the two never differ
    return write(HEADER, _candidates(plain) if "candidates" in plain else _lines(plain["scenario"]["name"], plain))


def write(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Text of a table.

    >>> print(write(("a", "b"), [("x, y", 0.1), (None, True)]))
    a,b
    "x, y",0.1
    ,true
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_text(cell) for cell in row] for row in rows)
    return buffer.getvalue().rstrip("\n")


def _candidates(record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    """Lines of a comparison: what belongs to no candidate has an empty first column."""
    yield from _lines("", {key: value for key, value in record.items() if key != "candidates"})
    for one in record["candidates"]:
        yield from _lines(one["name"], {**one["evaluation"], "delta": one["delta"]})


def _lines(candidate: str, record: Mapping[str, Any]) -> Iterator[tuple[str, str, Any, str]]:
    for key, value in flat(record):
        yield candidate, key, value, unit_of(key)


def flat(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and single values of nested data; items of a list go by what names them, else by number.

    >>> list(flat({"waterfall": [{"component": "ideal", "time_s": 2.0}], "notes": ["a", "b"]}))
    [('waterfall.ideal.time_s', 2.0), ('notes', ('a', 'b'))]
    """
    if isinstance(data, Mapping):
        pairs: Iterable[tuple[Any, Any]] = data.items()
    elif isinstance(data, Sequence) and any(isinstance(item, Mapping) for item in data):
        pairs = [_named(index, item) for index, item in enumerate(data)]
    else:
        yield path, tuple(data) if isinstance(data, list) else data
        return
    for key, value in pairs:
        yield from flat(value, f"{path}.{key}" if path else str(key))


def _named(index: int, item: Any) -> tuple[str, Any]:
    if isinstance(item, Mapping):
        for name in _NAMES:
            if name in item:
                return str(item[name]), {key: value for key, value in item.items() if key != name}
    return str(index), item


def unit_of(key: str) -> str:
    """Unit of a key by its ending.

    >>> unit_of("step.time_s_p10"), unit_of("delta.step_time_s.low"), unit_of("step.mfu")
    ('s', 's', '')
    >>> unit_of("memory.stages.0.components.weights"), unit_of("scenario.training.sequence_length")
    ('B', '')
    """
    parts = key.split(".")
    if len(parts) > 1 and parts[-2] in _BYTES:
        return "B"
    last = parts[-2] if len(parts) > 1 and parts[-1] in _OF_PARENT else parts[-1]
    return next((unit for ending, unit in _UNITS if ending.search(last)), "")


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (tuple, list)):
        return "; ".join(map(_text, value))
    return repr(value) if isinstance(value, float) else str(value)
