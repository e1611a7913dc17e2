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


def test_a_balanced_split_shortens_the_longest_stage(settle):
    """A vocabulary of 256k on a small model: its head is worth several layers."""
    from itertools import combinations

    from simcluster.engine.step import solve_step
    from simcluster.evaluation import Evaluation

    model = "model={layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 128000}"
    layout = "training.parallelism={{tp: 1, pp: 4, stages: {}}}"
    found = settle(model, layout.format("balanced"))
    sizes = found.values["training.parallelism.stages"][0]
    assert [one.layers for (one,) in found.plan.contents] == sizes
    assert sizes[-1] < 2 < max(sizes)
    longest = {}
    for cuts in combinations(range(9), 3):
        sizes_here = [b - a for a, b in zip((0, *cuts), (*cuts, 8), strict=True)]
        if min(sizes_here[1:-1]) < 1:
            continue
        plan = settle(model, layout.format(sizes_here)).plan
        longest[tuple(sizes_here)] = solve_step(plan, found.machine).compute[:, 0].max()
    assert longest[tuple(sizes)] <= min(longest.values()) * 1.001
    assert Evaluation(found).step.time_s < Evaluation(settle(model, layout.format("auto"))).step.time_s


@pytest.mark.parametrize("more", ["virtual_stages: 2", "schedule: dualpipe"])
def test_a_balanced_split_of_chunks_and_of_two_directions(settle, more):
    sets = ("training.global_batch=64", f"training.parallelism={{tp: 1, pp: 4, stages: balanced, {more}}}")
    plan = settle(*sets).plan
    assert sum(one.layers for stage in plan.contents for one in stage) == (16 if "dual" in more else 8)
    assert len(plan.contents[0]) == 2


def test_more_stages_than_can_be_balanced(refused):
    sets = ("training.parallelism={tp: 1, pp: 16, stages: balanced}", "training.global_batch=16")
    assert any("is more than the 8 layers with embedding and head" in one for one in refused(*sets))
