"""JSON Schemas of the answers, made from `record_types`; they ship in `simcluster/schemas`."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from simcluster.data import data_root
from simcluster.reports.record_types import CompareRecord, SimulateRecord
from simcluster.reports.records import SCHEMA_VERSION
from simcluster.reports.validate_types import ValidateRecord

DRAFT = "https://json-schema.org/draft/2020-12/schema"
ANSWERS: dict[str, type] = {"simulate": SimulateRecord, "compare": CompareRecord, "validate": ValidateRecord}


def schema(command: str) -> dict[str, Any]:
    """Schema of a command's JSON answer, made anew; KeyError for a command without one.

    >>> schema("compare")["required"][:3]
    ['schema_version', 'baseline', 'candidates']
    """
    made = TypeAdapter(ANSWERS[command]).json_schema(mode="serialization")
    made.pop("title", None)
    return {"$schema": DRAFT, "title": f"simcluster {command}, version {SCHEMA_VERSION}", **_untitled(made)}


def schema_text(command: str) -> str:
    """The schema as its file holds it."""
    return json.dumps(schema(command), indent=2, ensure_ascii=True) + "\n"


def shipped_schema(command: str) -> dict[str, Any]:
    """The schema that ships with simcluster, for programs that check what they read.

    >>> shipped_schema("simulate")["$schema"] == DRAFT
    True
    """
    text = (data_root("schemas") / f"{command}.schema.json").read_text(encoding="utf-8")
    shipped: dict[str, Any] = json.loads(text)
    return shipped


def _untitled(node: Any) -> Any:
    """A schema without the titles that only repeat keys."""
    if isinstance(node, list):
        return [_untitled(item) for item in node]
    if not isinstance(node, dict):
        return node
    names = ("properties", "$defs")
    kept = {key: value for key, value in node.items() if key != "title" or not isinstance(value, str)}
    return {
        key: {name: _untitled(one) for name, one in value.items()} if key in names else _untitled(value)
        for key, value in kept.items()
    }
