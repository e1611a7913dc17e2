"""Scenarios that tests share."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hypothesis import settings

from simcluster.evaluation import Evaluation, evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.scenario import load_mapping

settings.register_profile("simcluster", deadline=None, max_examples=60)
settings.load_profile("simcluster")

BASE = {
    "name": "base",
    "model": {
        "layers": 16, "hidden": 2048, "heads": 16, "ffn": 8192, "vocab": 32000, "gated_ffn": False,
    },
    "cluster": {"node": "dgx-a100-80gb", "nodes": 2, "fabric": "ib-hdr-200"},
    "training": {
        "sequence_length": 2048,
        "global_batch": 64,
        "micro_batch": 1,
        "parallelism": {"tp": 2, "pp": 2, "sequence_parallel": True},
        "sharding": {"strategy": "zero-1"},
        "recompute": "none",
        "software": {"family": "megatron-core", "date": "2024-06"},
    },
}  # fmt: skip
UNPRICED = {"hgx-h20": "nodes/hgx-h20.yaml", "hgx-a800-80gb": "nodes/hgx-a800-80gb.yaml"}
PRICE = """\
sources:
  quote: {source: general-knowledge, date: "2026-11", kind: estimate}
values:
  price: {value: 250000, unit: USD, from: quote}
"""


def _merge(base: dict, change: dict) -> dict:
    merged = copy.deepcopy(base)
    for key, value in change.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


@pytest.fixture(scope="session")
def catalogue() -> Catalogue:
    return Catalogue.load()


@pytest.fixture(scope="session")
def run(catalogue):
    """`run(change)` evaluates the base scenario (a small GPT on two A100 nodes) with a nested change."""

    def evaluate_with(change: dict | None = None) -> Evaluation:
        return evaluate(load_mapping(_merge(BASE, change or {})), catalogue)

    return evaluate_with


@pytest.fixture(scope="session")
def unpriced() -> dict[str, str]:
    """Nodes that have no price, and the file of the catalogue that lacks it."""
    return UNPRICED


@pytest.fixture
def quoted(tmp_path) -> Path:
    """A folder of catalogue files in which each of these nodes costs 250,000 USD."""
    (tmp_path / "nodes").mkdir()
    for node, file in UNPRICED.items():
        (tmp_path / file).write_text(f"id: {node}\ntype: node\n{PRICE}", encoding="utf-8")
    return tmp_path
