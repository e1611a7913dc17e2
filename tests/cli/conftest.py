"""Runs the command line in this process and gives what it said."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from simcluster.cli import run as run_cli

ROOT = Path(__file__).resolve().parents[2]

SCENARIO = """\
name: small
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
cluster:
  node: dgx-a100-80gb
  nodes: 2
  fabric: ib-hdr-200
training:
  sequence_length: 1024
  global_batch: 32
  micro_batch: 2
  parallelism: {tp: 2, pp: 2, sequence_parallel: true}
  sharding: {strategy: zero-1}
  recompute: selective
  software: {family: megatron-core, date: 2024-06}
what_ifs:
  roce: {cluster.fabric: roce-200}
  slow: {cluster.fabric: tcp-10, training.software.overrides.overlap_grad_reduce: false}
"""


@dataclass(frozen=True)
class Said:
    """Exit code, standard output and standard error of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        def refuse(word):
            raise ValueError(f"{word} in JSON")

        return json.loads(self.out, parse_constant=refuse)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """No debug switch from outside, and none left behind."""
    monkeypatch.setenv("SIMCLUSTER_DEBUG", "")


@pytest.fixture
def scenario(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SCENARIO, encoding="utf-8")
    return str(path)


@pytest.fixture
def say(capsys):
    """`say("simulate", file)` runs a command."""

    def call(*arguments: str) -> Said:
        capsys.readouterr()
        code = run_cli(list(arguments))
        captured = capsys.readouterr()
        return Said(code, captured.out, captured.err)

    return call
