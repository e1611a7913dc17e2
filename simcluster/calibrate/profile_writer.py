"""Writes a kernel profile as YAML text: the same profile gives the same bytes, and reading them gives it back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from simcluster.timing.profile_reader import SCHEMA
from simcluster.timing.records import KernelProfile
from simcluster.timing.regression import Array

_HEADER = "# Kernel rates of one accelerator, alone on the device. Generated from measured tables; see calibration/.\n"


def profile_text(profile: KernelProfile) -> str:
    """The profile file, with one line for each point of a table."""
    return _HEADER + f"schema: {SCHEMA}\n" + "".join(f"{line}\n" for line in _lines(profile, 0))


def write_profile(profile: KernelProfile, path: str | Path) -> None:
    """Write the profile file."""
    Path(path).write_text(profile_text(profile), encoding="utf-8")


def _lines(record: Any, depth: int) -> Iterator[str]:
    """YAML lines of a dataclass or mapping, indented by two spaces a level."""
    pad = "  " * depth
    for name, value, columns in _items(record):
        if columns:
            yield f"{pad}{name}: |"
            yield from (f"{pad}  {line}" for line in _table(value, columns))
        elif _is_flat(value):
            body = ", ".join(f"{key}: {_scalar(item)}" for key, item, _ in _items(value) if item != "")
            yield f"{pad}{name}: {{{body}}}"
        elif dataclasses.is_dataclass(value) or isinstance(value, Mapping):
            yield f"{pad}{name}:" + (" {}" if not list(_items(value)) else "")
            yield from _lines(value, depth + 1)
        else:
            yield f"{pad}{name}: {_scalar(value)}"


def _items(record: Any) -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    """Name, value and point columns of every field of a dataclass, or entry of a mapping (sorted)."""
    if isinstance(record, Mapping):
        yield from ((f'"{key}"' if key.isdigit() else key, record[key], ()) for key in sorted(record))
    else:
        for item in dataclasses.fields(record):
            yield item.name, getattr(record, item.name), item.metadata.get("columns", ())


def _is_flat(value: Any) -> bool:
    """A record or mapping of plain values, which fits one line."""
    if not (dataclasses.is_dataclass(value) or isinstance(value, Mapping)):
        return False
    items = list(_items(value))
    return bool(items) and all(isinstance(item, (str, int, float, tuple)) for _, item, _ in items)


def _table(points: Array, columns: tuple[str, ...]) -> Iterator[str]:
    """Column names, then the points; times in microseconds."""
    yield " ".join(columns)
    scale = np.array([1e6 if name.endswith("_us") else 1.0 for name in columns])
    for row in points * scale:
        yield " ".join(_number(value) for value in row)


def _scalar(value: Any) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(_number(item) for item in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return _number(value)


def _number(value: float) -> str:
    """Six significant digits, and a dot or exponent only where needed."""
    return f"{float(value):.6g}"
