"""From a layout to the numbers of a step."""

import pytest

GPT3 = (
    "model={name: gpt3, layers: 96, hidden: 12288, heads: 96, ffn: 49152, vocab: 51200, gated_ffn: false, "
    "learned_positions: 2048, tied_embeddings: true}"
)
LAYOUT = "training.parallelism={tp: 8, pp: 8, virtual_stages: 3, sequence_parallel: true}"
MORE = ("cluster.nodes=8", "training.sequence_length=2048", "training.global_batch=64", "training.micro_batch=1")


@pytest.fixture
def gpt3(settle):
    return lambda *sets: settle(GPT3, *MORE, LAYOUT, *sets).plan


def test_exchange_is_the_whole_activation(gpt3):
    plan = gpt3()
    assert plan.exchange.bytes == 2 * 2048 * 12288 == 50_331_648
    assert plan.exchange.tp == 8
    assert plan.micro_batches == 64
    assert [sum(chunk.layers for chunk in stage) for stage in plan.contents] == [12] * 8
    assert len(plan.contents[0]) == 3


def test_tied_embeddings_are_exchanged_only_over_stages(gpt3, settle):
    assert gpt3().tied_exchange
    assert not settle(GPT3, *MORE, "training.parallelism={tp: 8, pp: 1}").plan.tied_exchange


def test_overlap_is_the_familys_word(gpt3):
    assert gpt3("training.software.overrides.tp_overlap=true").exchange.chunks == 8
    assert gpt3("training.software.overrides.tp_overlap=false").exchange.chunks == 1
    assert gpt3("training.software.overrides.tp_bulk_overlap=false").exchange.bulk_overlap is False


@pytest.mark.parametrize(
    ("mode", "whole", "parts"),
    [
        ("none", False, set()),
        ("full", True, set()),
        ("selective", False, {"core_attention"}),
        ("{modules: [mlp_act, layernorm]}", False, {"activation", "norm"}),
    ],
)
def test_recompute(settle, mode, whole, parts):
    plan = settle(f"training.recompute={mode}").plan
    assert (plan.recompute.whole_layers, dict(plan.recompute.parts)) == (whole, dict.fromkeys(parts, 1.0))


def test_unknown_modules_are_refused(refused):
    (problem,) = refused("training.recompute={modules: [core_attn, soul]}")
    assert "unknown module 'soul'; known: " in problem
    assert "core_attn" in problem.partition("known: ")[2]


def test_sharding_decides_the_collectives(settle):
    whole = settle().plan.data
    assert (whole.reduce_kind, whole.gather_kind, whole.shards) == ("reduce_scatter", "all_gather", 4)
    part = settle("training.sharding.group=2").plan.data
    assert (part.reduce_kind, part.gather_kind, part.shards) == ("all_reduce", "all_gather", 2)
    assert part.gather_group.ranks == 2
    none = settle("training.sharding.strategy=none").plan.data
    assert (none.reduce_kind, none.gather_kind, none.shards) == ("all_reduce", "none", 1)


def test_optimizer_moves_what_the_family_says(settle):
    plan = settle("training.software.overrides.optimizer_bytes=50").plan
    assert plan.optimizer_bytes + plan.gradient_pass_bytes == 50
