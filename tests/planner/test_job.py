"""What a search is given: what was stated stays, what was left open is listed, all that is wrong is told at once."""

from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.planner.job import Job, needs_plan, plainly, settle_job
from simcluster.resolve import resolve
from simcluster.scenario import Origin, load_text
from simcluster.scenario.loading import apply_changes


@pytest.fixture
def settle(catalogue, open_layout):
    """`settle(…)` settles a scenario of `open_layout`."""

    def of(*arguments, **stated) -> Job:
        return settle_job(open_layout(*arguments, **stated), catalogue)

    return of


def told(call, *arguments, **stated):
    with pytest.raises(InputError) as caught:
        call(*arguments, **stated)
    return [str(problem) for problem in caught.value.problems]


def test_what_is_open_is_listed_lightest_and_own_way_first(settle):
    job = settle(family="fsdp2")
    assert job.recomputes == ("none", "selective", "full")
    assert job.strategies[0] == "fsdp"
    assert set(job.strategies) == {"fsdp", "none", "zero-2"}
    assert not job.plain


def test_what_is_stated_is_not_searched(settle):
    job = settle(family="fsdp2", recompute="full", sharding={"strategy": "zero-2"}, sequence_length=8192)
    assert (job.recomputes, job.strategies, job.sequence) == (("full",), ("zero-2",), 8192)
    modules = settle(recompute={"modules": ["core_attn", "layernorm"]})
    assert modules.recomputes == ("core_attn+layernorm",)


def test_a_group_of_shards_opens_hybrid_sharding(settle):
    assert "hsdp" in settle(family="fsdp2", sharding={"group": "node"}).strategies


@pytest.mark.parametrize(("node", "nodes", "gpus", "world"), [("dgx-h100", 3, 8, 24), ("gcp-a4x-highgpu-4g", 5, 4, 20)])
def test_ranks_are_counted_by_the_cluster(settle, node, nodes, gpus, world):
    job = settle(node=node, nodes=nodes, fabric="roce-400")
    assert (job.node_gpus, job.world) == (gpus, world)


@pytest.mark.parametrize(("model", "length"), [("gpt2", 1024), ("llama-3-8b", 4096)])
def test_a_sequence_is_as_long_as_the_model_s_and_at_most_4096(settle, model, length):
    assert settle(model, sequence_length=None).sequence == length


@pytest.mark.parametrize("change", [{}, {"family": "fsdp2"}, {"precision": "fp16"}, {"recompute": "selective"}])
def test_a_job_is_what_the_resolver_makes_of_any_of_its_layouts(catalogue, open_layout, models, change):
    """Looked up twice, by other means: the layout is the only thing that is left open."""
    loaded = open_layout(models["experts"], **change)
    job = settle_job(loaded, catalogue)
    one = resolve(apply_changes(loaded, {"training.parallelism": {"tp": 2}}, Origin("arguments")), catalogue)
    assert job.arch == one.arch
    assert (job.cluster.nodes, job.node_gpus, job.world) == (one.cluster.nodes, one.cluster.node.gpus, one.cluster.gpus)
    assert job.sequence == one.layout.sequence_length
    assert job.family.id == one.family.id
    assert one.layout.strategy in job.strategies
    assert one.layout.recompute in job.recomputes


# --- small models -----------------------------------------------------------------------------------------------------


def parameters(layers, hidden=2048, vocab=32000):
    """16 heads, 8 of keys, a gated MLP of 5632: q and o, k and v, three matrices, and two norms a layer."""
    layer = 2 * hidden * hidden + hidden * hidden + 3 * hidden * 5632 + 2 * hidden
    return layers * layer + 2 * vocab * hidden + hidden


@pytest.mark.parametrize("layers", [1, 16, 18, 19, 20, 40])
def test_below_a_billion_parameters_on_one_node_a_model_is_small(settle, models, layers):
    model = models["dense"] | {"layers": layers}
    job = settle(model, nodes=1)
    assert job.small == (parameters(layers) < 1e9)
    assert not settle(model, nodes=2).small


def test_plain_is_data_parallelism_sharded_as_the_software_does(settle):
    job = settle(family="deepspeed", nodes=1)
    simple = plainly(job)
    assert (simple.plain, simple.strategies) == (True, ("zero-3",))
    assert len(job.strategies) > 1
    assert not job.plain
    assert (simple.arch, simple.cluster, simple.recomputes) == (job.arch, job.cluster, job.recomputes)
    stated = plainly(settle(family="deepspeed", nodes=1, sharding={"strategy": "zero-1"}))
    assert stated.strategies == ("zero-1",)


# --- context parallelism ----------------------------------------------------------------------------------------------


def test_context_parallelism_runs_fused_kernels(settle):
    """Software of 2021 does without them as long as it may."""
    job = settle(family="megatron-lm-2021")
    assert job.family.attention == "unfused"
    assert job.context_family.attention == "flash-2"
    same = settle(family="megatron-core")
    assert same.context_family == same.family


def test_where_no_fused_kernel_may_run_there_is_no_context_parallelism(settle):
    assert settle(software={"family": "megatron-core", "attention": "unfused"}).context_family is None
    volta = settle(node="dgx-1-v100-32gb", fabric="ib-edr-100", precision="fp16")
    assert (volta.family.attention, volta.context_family) == ("unfused", None)


# --- problems ---------------------------------------------------------------------------------------------------------


def test_names_that_nobody_knows_are_told_together(settle):
    found = told(settle, "nobody", node="nothing")
    assert len(found) == 2
    assert any("model: unknown model 'nobody'" in problem for problem in found)
    assert any("the catalogue has no node 'nothing'" in problem for problem in found)


def test_what_the_machine_cannot_do_is_told_whatever_the_layout(settle):
    (problem,) = told(settle, precision="fp8")
    assert "has no fp8 rate" in problem
    both = told(settle, "nobody", precision="fp8")
    assert len(both) == 2


@pytest.mark.parametrize("stated", [{"sequence_length": 2047}, {"global_batch": 63}])
def test_what_some_layouts_can_do_is_no_problem_yet(settle, stated):
    assert settle(**stated).world == 16


# --- who needs a search -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "expected"),
    [
        ("", True),
        ("training: {recompute: full}", True),
        ("training: {parallelism: auto}", True),
        ("training: {parallelism: {}}", False),
        ("training: {parallelism: {dp: 32}}", False),
    ],
)
def test_a_layout_is_needed_where_none_is_stated(training, expected):
    text = f"model: llama-7b\ncluster: {{node: dgx-h100, nodes: 4}}\n{training}\n"
    assert needs_plan(load_text(text)) == expected
