"""Searches that tests share, and the slow way to the same answer."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from simcluster.engine.step import BlockStore, solve_step
from simcluster.evaluation import Evaluation
from simcluster.planner.job import Job, plainly, settle_job
from simcluster.planner.search import Candidates, resolved_layout
from simcluster.planner.space import Space, space_of
from simcluster.scenario import load_mapping

DENSE = {"layers": 16, "hidden": 2048, "heads": 16, "kv_heads": 8, "ffn": 5632, "vocab": 32000}
EXPERTS = DENSE | {"experts": 8, "top_k": 2, "expert_ffn": 2816}


def scenario(model=None, node="dgx-a100-80gb", nodes=2, fabric="ib-hdr-200", family="megatron-core", **training):
    """A scenario whose layout is open."""
    cluster = {"node": node, "nodes": nodes, "fabric": fabric if nodes > 1 else "none"}
    stated = {"sequence_length": 2048, "global_batch": 64, "software": {"family": family}} | training
    stated = {key: value for key, value in stated.items() if value is not None}
    return load_mapping({"name": "open", "model": model or DENSE, "cluster": cluster, "training": stated})


@dataclass(frozen=True)
class Everything:
    """All valid layouts of a scenario, and what the resolver and the engine make of them."""

    job: Job
    space: Space
    candidates: Candidates
    catalogue: object
    store: BlockStore

    def some(self, seed: int, count: int) -> Everything:
        """A sample of them."""
        one, size = self.candidates, len(self.candidates)
        rows = np.sort(np.random.default_rng(seed).choice(size, min(count, size), replace=False))
        picked = Candidates(one.points.take(rows), one.recompute[rows], one.strategy[rows])
        return Everything(self.job, self.space, picked, self.catalogue, self.store)

    def resolved(self, row: int):
        return resolved_layout(self.job, self.candidates, row, self.catalogue)[1]

    def tokens_per_s(self, row: int) -> float:
        resolved = self.resolved(row)
        time = float(solve_step(resolved.plan, resolved.machine, self.store).total[0])
        return resolved.layout.sequences * self.job.sequence / time

    def best(self) -> tuple[float, bool]:
        """Rate of the fastest that fits, by simulating all; and whether any fits."""
        rates = [self.tokens_per_s(row) for row in range(len(self.candidates))]
        for row in np.argsort(rates)[::-1].tolist():
            if Evaluation(self.resolved(row)).memory.fits:
                return rates[row], True
        return 0.0, False


@pytest.fixture(scope="session")
def whole(catalogue):
    """`whole(loaded)` lists every point with every recompute mode and every strategy that goes with it."""

    def of(loaded) -> Everything:
        job = settle_job(loaded, catalogue)
        job = plainly(job) if job.small else job
        space = space_of(job)
        choices = itertools.product(range(len(space.points)), range(len(job.recomputes)), range(len(job.strategies)))
        table = np.array([choice for choice in choices if space.allowed[choice[0], choice[2]]], dtype=np.int64)
        rows, modes, strategies = table.reshape(-1, 3).T
        return Everything(job, space, Candidates(space.points.take(rows), modes, strategies), catalogue, BlockStore())

    return of


@pytest.fixture(scope="session")
def open_layout():
    """`open_layout(model, node, …)` makes a scenario whose layout is open; see `scenario`."""
    return scenario


@pytest.fixture(scope="session")
def models():
    """A dense model of 0.8B parameters, and one of as many layers with eight experts."""
    return {"dense": DENSE, "experts": EXPERTS}
