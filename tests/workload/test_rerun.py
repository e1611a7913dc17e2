"""Recompute: what the step program runs again costs the FLOPs that the closed form counts."""

import pytest

from simcluster.evaluation import evaluate
from simcluster.program.plan import block_names, block_ops
from simcluster.scenario import load_mapping
from simcluster.shapes import FlashAttention, Gemm
from simcluster.workload.flops import AttentionFlops, recompute_flops_per_token
from simcluster.workload.rerun import MODULES, rerun_shares

MODELS = ("llama-3-8b", "mixtral-8x7b", "deepseek-v2", "deepseek-v3")
SEQUENCE = 2048


def plan_of(catalogue, model, recompute):
    scenario = {
        "model": model,
        "cluster": {"node": "dgx-h100", "nodes": 1},
        "training": {
            "sequence_length": SEQUENCE,
            "global_batch": 8,
            "micro_batch": 1,
            "parallelism": {"tp": 1, "pp": 1, "ep": 1, "sequence_parallel": False},
            "sharding": {"strategy": "none"},
            "recompute": recompute,
            "software": {"family": "megatron-core", "date": "2024-06", "attention": "flash-2"},
        },
    }
    return evaluate(load_mapping(scenario), catalogue).resolved.plan


def rerun_flops(plan):
    total = 0.0
    for stage in plan.contents:
        for name in [name for chunk in stage for name in block_names(plan, chunk, True)]:
            for op in block_ops(plan, name, True):
                if op.recompute:
                    total += op.share * _flops(op.operator, plan.arch)
    return total / SEQUENCE


def _flops(operator, arch):
    if isinstance(operator, Gemm):
        return 2.0 * operator.m * operator.n * operator.k * operator.batch
    if isinstance(operator, FlashAttention):
        value = arch.value_dim or arch.head_dim
        query = arch.nope_dim + arch.rope_dim if arch.kv_rank else arch.head_dim
        pairs = operator.batch * operator.heads * operator.seq_q * operator.seq_k / (2 if operator.causal else 1)
        return 2.0 * pairs * (query + value)
    return 0.0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("module", MODULES)
def test_time_and_flops_run_the_same_again(catalogue, model, module):
    plan = plan_of(catalogue, model, {"modules": [module]})
    counted = recompute_flops_per_token(plan.arch, SEQUENCE, AttentionFlops.CAUSAL, [module])
    assert rerun_flops(plan) == pytest.approx(float(counted), rel=1e-3, abs=1.0)


@pytest.mark.parametrize("model", MODELS)
def test_full_recompute_is_one_more_forward_of_the_layers(catalogue, model):
    plan = plan_of(catalogue, model, "full")
    counted = recompute_flops_per_token(plan.arch, SEQUENCE, AttentionFlops.CAUSAL, "full")
    assert rerun_flops(plan) == pytest.approx(float(counted), rel=1e-3)


def test_the_larger_share_counts_where_modules_overlap(catalogue):
    arch = plan_of(catalogue, "llama-3-8b", "none").arch
    both = rerun_shares(["every-other-matmul", "mlp"], arch)
    assert both["ffn_up"] == 1.0
    assert both["qkv"] == pytest.approx(1 / 6)
