"""Resolves scenario texts."""

from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.resolve import Resolved, resolve
from simcluster.scenario import load_text

TEXT = """\
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
  parallelism: {tp: 2, pp: 2}
  sharding: {strategy: zero-1}
  software: {family: megatron-core, date: 2024-06}
"""


@pytest.fixture
def text():
    return TEXT


@pytest.fixture
def settle(catalogue):
    """`settle("path=value", …)` resolves the text above with changes."""

    def call(*sets: str, text: str = TEXT, what_if: str | None = None) -> Resolved:
        return resolve(load_text(text, "a.yaml", sets=sets, what_if=what_if), catalogue)

    return call


@pytest.fixture
def refused(settle):
    """Problems of a resolution, as text."""

    def call(*sets: str, **more) -> list[str]:
        with pytest.raises(InputError) as caught:
            settle(*sets, **more)
        return [str(problem) for problem in caught.value.problems]

    return call
