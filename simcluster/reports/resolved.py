"""A scenario's values with their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.reports.layout import aligned
from simcluster.scenario import Loaded, to_dict


def stated_values(loaded: Loaded) -> dict[str, tuple[Any, str]]:
    """Values of a scenario file before anything is looked up."""
    flat = dict(_flatten(to_dict(loaded.scenario, defaults=True)))
    return {path: (flat.get(path), str(origin)) for path, origin in loaded.origins.items()}


def _flatten(data: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        return [pair for key, value in data.items() for pair in _flatten(value, f"{path}.{key}" if path else str(key))]
    return [(path, data)]


def resolved_record(values: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    """For JSON: {path: {value, origin}}."""
    return {path: {"value": value, "origin": origin} for path, (value, origin) in sorted(values.items())}


def resolved_table(values: Mapping[str, tuple[Any, str]], notes: Sequence[str] = ()) -> str:
    """For reading: path, value, origin."""
    rows = [("value", "is", "from")]
    rows += [(path, _text(value), origin) for path, (value, origin) in sorted(values.items()) if value is not None]
    return "\n".join([aligned(rows), *(f"note: {note}" for note in notes)])


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)
