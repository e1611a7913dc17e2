"""A scenario's values with their origins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from simcluster.reports.blocks import Block, Column, Table, Words
from simcluster.resolve import Resolved, stated_values
from simcluster.scenario import Loaded
from simcluster.units import MONTH_S, YEAR_S, format_bytes, format_percent, format_rate, format_seconds, format_usd

_QUANTITIES: tuple[tuple[re.Pattern[str], Callable[[float], str]], ...] = (
    (re.compile(r"\.(link|nic_rate)$"), lambda value: format_rate(value, bits=True)),
    (re.compile(r"_bytes_per_s$"), format_rate),
    (re.compile(r"_bytes(_per_rank)?$"), format_bytes),
    (re.compile(r"usd_per_(gpu_)?hour$"), lambda value: f"{value:.4g} USD/h"),
    (re.compile(r"\.staff$"), lambda value: f"{format_usd(value * YEAR_S)} a year"),
    (re.compile(r"\.electricity$"), lambda value: f"{value * 3.6e6:.4g} USD/kWh"),
    (re.compile(r"\.colocation$"), lambda value: f"{value * 1e3 * MONTH_S:.4g} USD/kW-month"),
    (re.compile(r"^acquire\.own\.network$"), lambda value: f"{format_usd(value)}/GPU"),
    (re.compile(r"usd(_per_node)?$|^acquire\.own\.storage$"), format_usd),
    (re.compile(r"_w$"), lambda value: f"{value:,.0f} W"),
    (re.compile(r"\.(hours|residual|wacc|misc|support|insurance|node_sigma)$"), format_percent),
    (re.compile(r"\.(lead_time|horizon|restart|interval|median|p90)$"), format_seconds),
    (re.compile(r"per_node_s$"), lambda value: f"{value * MONTH_S:.3g} a month"),
    (re.compile(r"[a-z]_s$"), format_seconds),
)


def file_values(loaded: Loaded) -> dict[str, tuple[Any, str]]:
    """Values of a scenario file with their origins, before anything is looked up."""
    return {path: (value, str(loaded.origins[path])) for path, value in stated_values(loaded).items()}


def settled_values(resolved: Resolved) -> dict[str, tuple[Any, str]]:
    """All values that a step, running, power and money depend on, with their origins."""
    return {**resolved.values, **resolved.means().values}


def resolved_record(values: Mapping[str, tuple[Any, str]]) -> dict[str, Any]:
    """For JSON: {path: {value, origin}}."""
    return {path: {"value": value, "origin": origin} for path, (value, origin) in sorted(values.items())}


def resolved_blocks(values: Mapping[str, tuple[Any, str]], notes: Sequence[str] = ()) -> list[Block]:
    """For reading: path, value, origin."""
    rows = tuple(
        (path, value_text(value, path), origin) for path, (value, origin) in sorted(values.items()) if value is not None
    )
    table = Table((Column("value"), Column("is"), Column("from")), rows)
    return [table, *(Words((f"note: {note}",)) for note in notes)]


def value_text(value: Any, path: str = "") -> str:
    """A value as a reader expects it, with a unit where its path tells one.

    >>> value_text(0.1 + 0.2), value_text(("a", "b")), value_text([]), value_text(True)
    ('0.3', 'a, b', 'none', 'True')
    >>> value_text(2.5e10, "cluster.fabric.link"), value_text(6e-6, "training.software.host_issue_s")
    ('200 Gbit/s', '6 us')
    """
    if isinstance(value, (list, tuple)):
        return ", ".join(map(value_text, value)) or "none"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    show = next((show for ending, show in _QUANTITIES if ending.search(path)), None)
    if show is not None:
        return show(value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def resolved_rows(values: Mapping[str, tuple[Any, str]]) -> Iterable[tuple[str, Any, str]]:
    """For CSV: path, value, origin."""
    return ((path, value, origin) for path, (value, origin) in sorted(values.items()))
