"""The verdict over all stages."""

from __future__ import annotations

import numpy as np

from simcluster.memory.allocator import MemoryPriors
from simcluster.memory.report import fits, summarize
from simcluster.memory.stage import StageMemory


def test_verdict_uses_the_margin_and_the_worst_stage() -> None:
    small, large = StageMemory(0, {"weights": 10.0}), StageMemory(1, {"weights": 50.0, "context": 46.0})
    report = summarize([small, large], 100.0, MemoryPriors(margin=0.05))
    assert not report.fits
    assert report.kinds == {"allocated": 50.0, "reserved": 50.0, "device": 96.0}
    assert summarize([small, large], 100.0, MemoryPriors(margin=0.04)).fits
    assert fits(np.array([95.0, 99.0]), 100.0, 0.02).tolist() == [True, False]
