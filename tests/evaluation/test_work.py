"""FLOPs of all ranks against those of the model, and what recompute adds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.program.plan import block_names, block_ops
from simcluster.shapes import FlashAttention, Gemm

SAME = settings.get_profile("reproducible")


def flops(ops):
    """GEMM and attention work of operations; fused attention by its definition, without the diagonal blocks' waste."""
    total = 0.0
    for op in ops:
        one = op.operator
        if isinstance(one, Gemm):
            total += 2.0 * float(one.m * one.n * one.k * one.batch)
        elif isinstance(one, FlashAttention):
            pairs = float(one.seq_q * one.seq_k) * (0.5 if one.causal else 1.0)
            total += (
                4.0 * float(one.batch * one.heads) * pairs * one.head_dim * (1 if one.direction == "forward" else 2)
            )
    return total


@settings(SAME, max_examples=40)
@given(st.data())
def test_full_recompute_adds_one_forward_of_the_layers(assess, scenarios, data):
    scenario = data.draw(scenarios)
    training = scenario["training"]
    full, none = (assess({**scenario, "training": {**training, "recompute": mode}}) for mode in ("full", "none"))
    plan = none.resolved.plan
    names = [name for stage in plan.contents for chunk in stage for name in block_names(plan, chunk)]
    forward = {name: flops(block_ops(plan, name, False)) for name in set(names)}
    for name in set(names):
        again = flops(block_ops(full.resolved.plan, name, True)) - flops(block_ops(plan, name, True))
        expected = forward[name] if name not in ("embedding", "head") else 0.0
        assert again == pytest.approx(expected, rel=1e-9, abs=1e-3)
    assert full.flops.model == none.flops.model
    assert full.step.time_s >= none.step.time_s  # equal where a reduction outlasts both
    assert full.times.compute[:, 0].sum() > none.times.compute[:, 0].sum()


@settings(SAME, max_examples=200)
@given(st.data())
def test_the_ranks_together_do_the_work_of_the_model(assess, scenarios, data):
    """GEMMs and attention of all ranks of a job are its model FLOPs, once heads and vocabulary divide."""
    scenario = data.draw(scenarios)
    plan = scenario["training"]["parallelism"]
    moe_by_halves = plan.get("etp", plan["tp"]) != plan["tp"] and not plan["sequence_parallel"]
    few_keys = scenario["model"]["kv_heads"] < plan["tp"]
    copied_latents = "kv_rank" in scenario["model"] and plan["tp"] > 1 and not plan["sequence_parallel"]
    windowed = "window" in scenario["model"]
    unfused = "attention" in scenario["training"]["software"]
    if moe_by_halves or few_keys or copied_latents or windowed or unfused:
        return
    model = {**scenario["model"], "vocab": 128 * plan["tp"] * 3}
    training = {**scenario["training"], "recompute": "none"}
    evaluation = assess({**scenario, "model": model, "training": training})
    resolved = evaluation.resolved
    names = [name for stage in resolved.plan.contents for chunk in stage for name in block_names(resolved.plan, chunk)]
    each = {name: sum(flops(block_ops(resolved.plan, name, way)) for way in (False, True)) for name in set(names)}
    mesh = resolved.plan.mesh
    done = sum(each[name] for name in names) * resolved.plan.micro_batches * mesh.tp * mesh.cp * mesh.dp
    assert done == pytest.approx(float(evaluation.flops.model), rel=1e-9)


def test_no_product_of_a_tf32_job_runs_at_the_rate_of_16_bits(run):
    plan = run({"training": {"precision": "tf32", "software": {"attention": "unfused"}}}).resolved.plan
    gemms = [op.operator for name in ("layer", "head") for op in block_ops(plan, name, False)]
    assert {one.dtype for one in gemms if isinstance(one, Gemm) and one.name not in ("scores", "values")} == {"tf32"}
