"""Weeks of running: checkpoints, failures, stragglers, storage. Absent fields are assumed later, and listed."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from simcluster import units
from simcluster.scenario.fields import (
    MAPPING,
    WORD,
    ByShape,
    BytesPerSecond,
    Count,
    CountOrZero,
    Fraction,
    Name,
    Number,
    Part,
    PositiveDuration,
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


def _factor(value: Any, _info: ValidationInfo) -> float:
    factor = units.parse(value, "count")
    if factor >= 1:
        return factor
    if isinstance(value, str) and value.rstrip().endswith("%"):
        raise ValueError(f"{value!r} should be at least 1; write {1 + factor:g} for {value.strip()} slower")
    raise ValueError(f"{value!r} should be at least 1; it is a time over a typical node's, 1.05 is 5% slower")


class SlowNode(Part):
    """Nodes that compute slower.

    count   so many of them, anywhere in the cluster
    node    or the number of one, from 0, in the order in which ranks lie on nodes
    factor  its time over that of a typical node
    """

    count: Count | None = None
    node: CountOrZero | None = None
    factor: Annotated[float, BeforeValidator(_factor)]

    @model_validator(mode="after")
    def _is_one_of(self) -> SlowNode:
        if self.count is None and self.node is None:
            raise ValueError("count is missing; state how many, or the number of a node as node: 5")
        if self.count is not None and self.node is not None:
            raise ValueError("count and node exclude each other; a named node is one")
        return self


class Stragglers(Part):
    """How unlike nodes are.

    node_sigma    spread of their speeds, one standard deviation
    jitter_sigma  spread of one node from step to step
    slow_nodes    known slow ones
    speeds        CSV of measured times (more is slower), nodes in the order in which ranks lie on them; instead of
                  node_sigma and slow_nodes
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
