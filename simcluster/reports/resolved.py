"""A scenario's values with their origins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simcluster.reports.layout import aligned
from simcluster.resolve import stated_values
from simcluster.scenario import Loaded


def file_values(loaded: Loaded) -> dict[str, tuple[Any, str]]:
    """Values of a scenario file with their origins, before anything is looked up."""
    return {path: (value, str(loaded.origins[path])) for path, value in stated_values(loaded).items()}


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
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_text, value)) or "none"
    return str(value)
