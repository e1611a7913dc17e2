"""Logs of nccl-tests from a table with one row a size."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import InputError, Mark, Problem
from simcluster.shapes import GroupShape, NetworkRates

Array: TypeAlias = "NDArray[np.float64]"

EXCLUDED_ALGORITHMS = frozenset({"sharp"})  # in-network reduction in the fabric's switches is not modelled


@dataclass(frozen=True, slots=True)
class Log:
    """One run of one collective: sizes [B] and times [s] of one length."""

    id: str
    network: NetworkRates
    group: GroupShape
    kind: str
    algorithm: str  # "" unless the run forced one
    source: str
    bytes: Array
    seconds: Array


def read_logs(path: Path, health: Sequence[str] = ("healthy",)) -> list[Log]:
    """Logs of a CSV like `calibration/measured/collectives.csv`, in the order of the file.

    Raises InputError naming every row that cannot be read.
    """
    rows: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    problems: list[Problem] = []
    with path.open(newline="", encoding="utf-8") as stream:
        for number, row in enumerate(csv.DictReader(stream), start=2):
            try:
                if row["health"] in health and row["algorithm"] not in EXCLUDED_ALGORITHMS:
                    size, seconds = float(row["bytes"]), float(row["time_s"])
                    if not (size > 0 and seconds > 0):
                        raise ValueError("bytes and time_s must be above 0")  # noqa: TRY301
                    rows.setdefault(_key(row), []).append((size, seconds))
            except (KeyError, ValueError, TypeError) as error:
                problems.append(
                    Problem(f"unreadable row: {error}", "see the header for the columns", Mark(str(path), number, 1))
                )
    if problems:
        raise InputError(problems)
    return [_log(key, values) for key, values in rows.items()]


def _key(row: Mapping[str, str]) -> tuple[Any, ...]:
    network = NetworkRates(
        gpu=row["gpu"],
        scale_up=row["scale_up"],
        scale_up_bytes_per_s=float(row["scale_up_bytes_per_s"]),
        domain_gpus=int(row["domain_gpus"]),
        gpus_per_node=int(row["gpus_per_node"]),
        fabric=row["fabric"],
        protocol=row["protocol"],
        nic_bytes_per_s=float(row["nic_bytes_per_s"]),
        nics_per_node=int(row["nics_per_node"]),
    )
    group = GroupShape(int(row["ranks"]), int(row["domains"]))
    return row["id"], network, group, row["collective"], row["algorithm"], row["source"]


def _log(key: tuple[Any, ...], values: list[tuple[float, float]]) -> Log:
    table = np.array(values, dtype=np.float64)
    identity, network, group, kind, algorithm, source = key
    return Log(identity, network, group, kind, algorithm, source, table[:, 0], table[:, 1])
