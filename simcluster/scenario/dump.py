"""Scenarios to plain data and back, and their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from simcluster.scenario.fields import SI
from simcluster.scenario.scenario import Scenario


def to_dict(scenario: Scenario, *, defaults: bool = False) -> dict[str, Any]:
    """Plain data in SI, ready for JSON, in the order of the fields; what nobody stated and has no default is left out.

    defaults  keep those as None

    >>> scenario = Scenario.model_validate({"model": "m", "cluster": {"node": "n", "nodes": 2}})
    >>> to_dict(scenario)["cluster"]
    {'node': 'n', 'nodes': 2, 'spares': 0, 'background': []}
    """
    return scenario.model_dump(mode="json", by_alias=True, exclude_none=not defaults)


def from_dict(data: Mapping[str, Any]) -> Scenario:
    """Inverse of `to_dict`: numbers without a unit are SI."""
    return Scenario.model_validate(data, context=SI)


def digest(scenario: Scenario) -> str:
    """SHA-256 of the plain data: equal for scenarios that state the same, however they were written.

    >>> scenario = Scenario.model_validate({"model": "m", "cluster": {"node": "n", "nodes": 2}})
    >>> digest(scenario) == digest(from_dict(to_dict(scenario)))
    True
    """
    text = json.dumps(to_dict(scenario), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
