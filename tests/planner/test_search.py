"""The search finds what simulating everything finds."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.planner import needs_plan, plan_layout

FAMILIES = ("megatron-core", "generic", "fsdp2", "deepspeed", "megatron-lm-2022", "colossalai")
NODES = ("dgx-a100-80gb", "dgx-a100-40gb", "dgx-h100", "dgx-b200")


def drawn(open_layout, seed, often=0.7, nodes=4, **stated):
    """A small case of 0.5B to 30B parameters, dense or with experts; `often` says how often values are stated."""
    draw = np.random.default_rng(seed)
    head = int(draw.choice([64, 128]))
    heads = int(draw.choice([16, 24, 32, 40]))
    hidden = heads * head
    model = {"layers": int(draw.choice([12, 16, 24, 30])), "hidden": hidden, "heads": heads, "vocab": 32000}
    model |= {"ffn": int(draw.choice([2, 3, 4])) * hidden, "kv_heads": heads // int(draw.choice([1, 4]))}
    if draw.random() < 0.4:
        model |= {"experts": 8, "top_k": 2, "expert_ffn": hidden}
    training = {"sequence_length": int(draw.choice([2048, 4096])), "global_batch": int(draw.choice([48, 64, 96]))}
    training |= stated
    if draw.random() < often:
        training["micro_batch"] = int(draw.choice([1, 2]))
    if draw.random() < often:
        training["recompute"] = str(draw.choice(["none", "selective", "full"]))
    node, family = str(draw.choice(NODES)), str(draw.choice(FAMILIES))
    return open_layout(model, node, int(draw.integers(1, nodes + 1)), "ib-ndr-400", family, **training)


def check(loaded, whole, catalogue):
    plan = plan_layout(loaded, catalogue)
    best, fits = whole(loaded).best()
    assert plan.evaluation.memory.fits == fits
    if fits:
        assert plan.evaluation.step.tokens_per_s == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("seed", [1, 3, 8, 9, 10, 14, 19, 26, 31, 35])
def test_the_choice_is_the_best_of_all(open_layout, whole, catalogue, seed):
    check(drawn(open_layout, seed, often=1.0, nodes=1 + seed % 2), whole, catalogue)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(50))
def test_the_choice_is_the_best_of_all_at_length(open_layout, whole, catalogue, seed):
    check(drawn(open_layout, seed), whole, catalogue)


@pytest.mark.parametrize(("seed", "offload"), [(1, "cpu"), (3, "nvme"), (8, "cpu"), (10, "nvme")])
def test_the_choice_is_the_best_with_states_outside_the_gpus(open_layout, whole, catalogue, seed, offload):
    check(drawn(open_layout, seed, often=1.0, nodes=1, sharding={"offload": offload}), whole, catalogue)


def test_counts_add_up(open_layout, models, catalogue):
    for name in models:
        counts = plan_layout(open_layout(models[name], nodes=4), catalogue).counts
        assert counts.space == counts.valid + sum(n for why, n in counts.rejected.items() if why != "memory")
        assert counts.valid == counts.fitting + counts.rejected.get("memory", 0)
        assert counts.fitting >= counts.bounded >= counts.simulated > 0


def test_a_small_model_whose_batch_is_less_than_its_gpus_is_cut(open_layout, models, catalogue):
    """Four sequences for eight GPUs: no data parallelism alone can take them."""
    plan = plan_layout(open_layout(models["dense"], nodes=1, global_batch=4), catalogue)
    layout = plan.evaluation.resolved.layout
    assert plan.evaluation.memory.fits
    assert layout.dp <= 4
    assert layout.tp * layout.pp * layout.cp >= 2


def test_the_plan_is_what_evaluating_its_scenario_gives(open_layout, models, catalogue):
    plan = plan_layout(open_layout(models["dense"], nodes=4, global_batch=None), catalogue)
    again = evaluate(plan.loaded, catalogue)
    assert again.times.total.tolist() == plan.evaluation.times.total.tolist()
    assert again.resolved.layout == plan.evaluation.resolved.layout
    assert not needs_plan(plan.loaded)


def test_the_same_scenario_has_the_same_plan(open_layout, models, catalogue):
    first, second = (plan_layout(open_layout(models["experts"]), catalogue) for _ in range(2))
    assert first.evaluation.resolved.layout == second.evaluation.resolved.layout
    assert first.counts == second.counts


def test_what_is_stated_stays(open_layout, models, catalogue):
    stated = {
        "micro_batch": 2, "recompute": {"modules": ["core_attn", "mlp_act"]}, "global_batch": 32, "precision": "fp16",
        "sharding": {"strategy": "zero-1"}, "sequence_length": 1024,
    }  # fmt: skip
    plan = plan_layout(open_layout(models["dense"], nodes=4, **stated), catalogue)
    layout, origins = plan.evaluation.resolved.layout, plan.loaded.origins
    assert (layout.micro_batch, layout.recompute, layout.sequences) == (2, "core_attn+mlp_act", 32)
    assert (layout.precision, layout.strategy, layout.sequence_length) == ("fp16", "zero-1", 1024)
    assert origins["training.micro_batch"].kind == "arguments"
    assert origins["training.parallelism.tp"].kind == "planner"


def test_an_open_batch_is_near_four_million_tokens(open_layout, models, catalogue):
    plan = plan_layout(open_layout(models["dense"], nodes=4, global_batch=None), catalogue)
    layout = plan.evaluation.resolved.layout
    whole = layout.dp * layout.micro_batch * (layout.pp if layout.virtual_stages > 1 else 1)
    assert layout.sequences % whole == 0
    assert abs(layout.sequences * layout.sequence_length - 4e6) <= whole * layout.sequence_length / 2


def test_where_nothing_fits_the_nearest_is_the_answer(open_layout, models, catalogue):
    huge = models["dense"] | {"layers": 96, "hidden": 16384, "heads": 128, "ffn": 65536}
    plan = plan_layout(open_layout(huge, nodes=1), catalogue)
    memory = plan.evaluation.memory
    assert not memory.fits
    assert memory.peak_bytes > memory.capacity_bytes
    assert plan.counts.fitting == 0
    assert plan.counts.valid == plan.counts.rejected["memory"]


def test_no_layout_at_all_is_an_error_that_counts_the_reasons(open_layout, models, catalogue):
    with pytest.raises(InputError, match=r"none of \d+ layouts is possible: \d+ by batch"):
        plan_layout(open_layout(models["dense"], nodes=1, global_batch=7, micro_batch=64), catalogue)


def test_what_is_wrong_anyway_is_told_at_once(open_layout, catalogue):
    loaded = open_layout("lama-7b", precision="mxfp8")
    with pytest.raises(InputError) as raised:
        plan_layout(loaded, catalogue)
    assert {problem.message.split(":")[0] for problem in raised.value.problems} == {"model", "training.precision"}


def test_a_small_model_on_one_node_is_only_replicated(open_layout, models, catalogue):
    layout = plan_layout(open_layout(models["dense"], nodes=1), catalogue).evaluation.resolved.layout
    assert (layout.tp, layout.pp, layout.cp, layout.dp) == (1, 1, 1, 8)


def test_long_sequences_are_cut(catalogue, open_layout):
    plan = plan_layout(
        open_layout("llama-3-8b", "dgx-h100", 8, "ib-ndr-400", sequence_length=131072, global_batch=32), catalogue
    )
    layout = plan.evaluation.resolved.layout
    assert plan.evaluation.memory.fits
    assert layout.cp * layout.tp > 1


def test_experts_are_spread(catalogue, open_layout):
    plan = plan_layout(open_layout("mixtral-8x7b", "dgx-h100", 4, "ib-ndr-400", sequence_length=4096), catalogue)
    assert plan.evaluation.memory.fits
    assert plan.evaluation.resolved.layout.ep > 1
