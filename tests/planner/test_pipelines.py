"""No layout is simulated faster than its bound says."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.planner.search import bound_tokens_per_s

CASES = [
    ("dense", "megatron-core", {}),
    ("dense", "fsdp2", {"sequence_length": 4096}),
    ("dense", "deepspeed", {"global_batch": None}),
    ("dense", "generic", {"sequence_length": 65536, "global_batch": 16}),
    ("experts", "megatron-core", {"expert_imbalance": 1.5}),
    ("experts", "fsdp1", {}),
    ("experts", "megatron-core", {"software": {"family": "megatron-core", "overrides": {"ep_overlap": True}}}),
    ("experts", "megatron-deepspeed", {"precision": "fp16"}),
    ("experts", "generic", {"sharding": {"strategy": "hsdp", "group": "node"}}),
    ("dense", "colossalai", {"grad_compression": "bf16"}),
    ("dense", "generic-2021", {}),
]


@pytest.mark.parametrize(("model", "family", "more"), CASES)
def test_the_bound_is_never_beaten(whole, catalogue, open_layout, models, model, family, more):
    every = whole(open_layout(models[model], nodes=3, fabric="roce-200", family=family, **more)).some(5, 20)
    bounds = bound_tokens_per_s(every.job, every.candidates, catalogue)
    rates = np.array([every.tokens_per_s(row) for row in range(len(every.candidates))])
    assert (rates <= bounds * (1 + 1e-9)).all()
    beside = every.job.family.ep_overlap  # exchanges that may hide are left out of the bound
    assert np.median(bounds / rates) < (1.1 if beside else 1.05)


def test_the_bound_is_tight_without_traffic(whole, catalogue, open_layout, models):
    """One node, stages of one GPU, no replicas: all there is are chunks and messages."""
    every = whole(open_layout(models["dense"] | {"layers": 24}, nodes=1, micro_batch=1, recompute="none"))
    bounds = bound_tokens_per_s(every.job, every.candidates, catalogue)
    points = every.candidates.points
    for row in np.flatnonzero((points.pp == 8) & (points.virtual == 1)):
        assert bounds[row] == pytest.approx(every.tokens_per_s(row), rel=2e-3)
