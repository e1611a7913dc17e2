"""Weeks of running: checkpoints, failures, stragglers, storage. Absent fields are assumed later, and listed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from simcluster import units
from simcluster.scenario.fields import (
    MAPPING,
    WORD,
    ByShape,
    BytesPerSecond,
    Count,
    Fraction,
    Name,
    Number,
    Part,
    PositiveDuration,
    Ratio,
    Seconds,
)


def _interval(value: Any, _info: ValidationInfo) -> Any:
    if value == "auto":
        return value
    seconds = units.parse(value, "seconds")
    if seconds <= 0:
        raise ValueError(f"{value!r} should be a time above zero, or 'auto'")
    return seconds


class Checkpoint(Part):
    """interval auto = the one that loses least."""

    interval: Annotated[float | Literal["auto"], BeforeValidator(_interval)] = "auto"
    mode: Literal["sync", "async"] | None = None
    keep: Count | None = None
    verify: bool | None = None


class Spread(Part):
    """A skewed time by its median and 90th percentile."""

    median: PositiveDuration
    p90: PositiveDuration


class Incidents(Part):
    """Outages that a person has to find."""

    per_month: Number
    diagnose: Spread | None = None


class FailureRates(Part):
    """Own observed rate instead of a catalogue entry."""

    interruptions_per_node_day: Annotated[Number, Field(le=100)]


class Failures(Part):
    """rates: name of a catalogue entry, or an own rate."""

    rates: Annotated[Annotated[Name, WORD] | Annotated[FailureRates, MAPPING], ByShape] | None = None
    restart: Seconds | None = None
    incidents: Incidents | None = None


class SlowNode(Part):
    """Nodes that compute slower by a factor."""

    count: Count
    factor: Ratio


class Stragglers(Part):
    """How unlike nodes are.

    node_sigma    spread of their speeds, one standard deviation
    jitter_sigma  spread of one node from step to step
    slow_nodes    known slow ones, anywhere in the cluster
    speeds        CSV of measured speeds, nodes in the order in which ranks lie on them; instead of the above
    """

    node_sigma: Fraction | None = None
    jitter_sigma: Fraction | None = None
    slow_nodes: tuple[SlowNode, ...] = ()
    speeds: Name | None = None


class StorageSystem(Part):
    """A storage system written out."""

    drives: Count
    drive: Name
    nic: BytesPerSecond
    replicas: Count = 1


class Storage(Part):
    """system: name of a catalogue entry, or written out."""

    system: Annotated[Annotated[Name, WORD] | Annotated[StorageSystem, MAPPING], ByShape] | None = None
    dataset_bytes_per_token: Annotated[float, Field(gt=0, le=1e9)] | None = None


class Operations(Part):
    """How the job is run."""

    checkpoint: Checkpoint = Checkpoint()
    failures: Failures = Failures()
    elastic: Literal["none", "torchelastic", "in-process"] | None = None
    stragglers: Stragglers = Stragglers()
    storage: Storage = Storage()
