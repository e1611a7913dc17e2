"""Every model of the catalogue in layouts that are legal for it, through the whole evaluation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from simcluster.data import data_root
from simcluster.evaluation import evaluate
from simcluster.scenario import load_mapping, load_study
from simcluster.study import settled
from simcluster.workload.catalogue import list_models, load_model
from simcluster.workload.parameters import count_parameters

MODELS = list_models()
GPUS = 64


def _tensor_ranks(name: str) -> int:
    arch = load_model(name)[0]
    return math.gcd(math.gcd(8, arch.heads), arch.kv_heads if arch.kv_heads > 1 else 8)


def _expert_ranks(name: str) -> int:
    return math.gcd(8, load_model(name)[0].experts) if load_model(name)[0].experts else 1


@pytest.fixture(scope="module")
def held(catalogue):
    def memory(name: str, parallelism: dict, **training: object):
        plan = {"sequence_length": 2048, "global_batch": 256, "micro_batch": 1, "parallelism": parallelism}
        cluster = {"node": "dgx-h100", "nodes": GPUS // 8, "fabric": "ib-ndr-400"}
        data = {"name": name, "model": name, "cluster": cluster, "training": plan | training}
        return evaluate(load_mapping(data), catalogue)

    return memory


@pytest.mark.parametrize("name", MODELS)
def test_tensor_and_pipeline_parallel(name: str, held) -> None:
    tp, ep = _tensor_ranks(name), _expert_ranks(name)
    one = held(name, {"tp": tp, "pp": 2, "ep": min(ep, GPUS // 2 // tp)}, precision="fp8")
    parts = [stage.components for stage in one.memory.stages]
    assert all(np.isfinite(size) and size > 0 for stage in parts for size in stage.values())
    arch = one.resolved.arch
    assert any("expert_weights" in stage for stage in parts) == (arch.experts > 0)
    assert any("activations_moe" in stage for stage in parts) == (arch.experts > 0)
    assert "activations_head" in parts[-1]
    assert ("activations_further" in parts[-1]) == (arch.mtp_depth > 0)


@pytest.mark.parametrize("name", MODELS)
def test_shards_of_all_ranks_make_the_model(name: str, held) -> None:
    one = held(name, {"ep": _expert_ranks(name)}, software={"family": "fsdp2"}, sharding={"strategy": "fsdp"})
    parts = one.memory.stages[0].components
    rows = -(-one.resolved.arch.vocab // 128) * 128
    total = count_parameters(one.resolved.arch, rows)
    shards = parts["weights"] + parts.get("expert_weights", 0.0)
    assert GPUS * shards / 4 == pytest.approx(total.total + total.mtp, rel=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_context_parallel_in_hybrid_shards(name: str, held) -> None:
    ep = _expert_ranks(name)
    plan = {"software": {"family": "fsdp2-torchtitan"}, "sharding": {"strategy": "hsdp", "group": 8}}
    one = held(name, {"cp": 2, "ep": ep, "etp": 1}, recompute="full", **plan)
    kinds = one.memory.kinds
    assert 0 < kinds["allocated"] < kinds["reserved"] < kinds["device"] == one.memory.peak_bytes


@pytest.mark.parametrize("path", sorted(data_root("examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_has_its_memory(path, catalogue) -> None:
    for _, scenario in load_study(path).candidates:
        evaluation = settled(scenario, catalogue)
        report = evaluation.memory
        assert len(report.stages) == evaluation.resolved.layout.pp
        assert report.kinds["device"] == max(stage.peak_bytes for stage in report.stages)
