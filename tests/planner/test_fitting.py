"""Memory over arrays is the memory of each layout."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.evaluation import Evaluation
from simcluster.planner.fitting import peak_bytes

LATENT = {
    "layers": 9, "hidden": 2048, "heads": 16, "head_dim": 192, "ffn": 8192, "vocab": 64000, "experts": 16, "top_k": 4,
    "expert_ffn": 1024, "shared_ffn": 1024, "dense_layers": 1, "kv_rank": 512, "nope_dim": 128, "rope_dim": 64,
    "value_dim": 128, "mtp_depth": 1,
}  # fmt: skip
WINDOWS = {
    "layers": 12, "hidden": 2048, "heads": 16, "kv_heads": 4, "ffn": 8192, "vocab": 64000, "window": 1024,
    "full_every": 6, "tied_embeddings": True, "embedding_norm": True,
}  # fmt: skip


@pytest.mark.parametrize(
    ("model", "family", "more"),
    [
        ("dense", "megatron-core", {}),
        ("experts", "generic", {"sequence_length": 32768, "global_batch": 32}),
        (LATENT, "megatron-core", {}),
        (LATENT, "fsdp2", {}),
        ("experts", "megatron-core", {"software": {"family": "megatron-core", "overrides": {"ep_overlap": True}}}),
        (
            "experts",
            "megatron-core",
            {"software": {"overrides": {"ep_overlap": True}}, "sharding": {"strategy": "zero-2"}},
        ),
        (WINDOWS, "deepspeed", {}),
        (WINDOWS, "megatron-lm-2021", {"precision": "fp16"}),
        ("dense", "fsdp2", {"sharding": {"strategy": "hsdp", "group": "node"}}),
    ],
)
def test_peaks_are_those_of_the_evaluation(whole, open_layout, models, model, family, more):
    loaded = open_layout(models.get(model, None) if isinstance(model, str) else model, nodes=3, family=family, **more)
    every = whole(loaded).some(3, 25)
    peaks = peak_bytes(every.job, every.candidates.points)
    for row in range(len(every.candidates)):
        found = peaks[row, every.candidates.recompute[row], every.candidates.strategy[row]]
        assert found == pytest.approx(Evaluation(every.resolved(row)).memory.peak_bytes, rel=1e-9)


def test_less_is_kept_where_more_runs_again(whole, open_layout, models):
    every = whole(open_layout(models["dense"]))
    peaks = peak_bytes(every.job, every.space.points)[:, :, 0]
    deep = every.space.points.micro_batch > 1
    assert (np.diff(peaks[deep], axis=1) <= 0).mean() > 0.9
