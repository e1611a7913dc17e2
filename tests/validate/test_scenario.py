from dataclasses import replace

import pytest

from simcluster.errors import InputError
from simcluster.formats.published_facts import FACT_COLUMNS, PublishedFacts
from simcluster.resolve import resolve
from simcluster.validate.scenario import find_gpu, scenario_of, unsupported, usual_node

FACTS = PublishedFacts(
    gpu="A100-80GB-SXM",
    gpus_per_node=8,
    n_gpus=64,
    layers=24,
    hidden=2048,
    heads=16,
    kv_heads=16,
    head_dim=128,
    ffn=8192,
    vocab=50304,
    gated_ffn=False,
    sequence_length=2048,
    global_batch=256,
    micro_batch=2,
    tp=4,
    pp=2,
    cp=1,
    dp=8,
    ep=1,
    etp=4,
    sharding="zero-1",
    framework="Megatron-LM",
    date="2022-05",
)


def build(catalogue, **changes):
    built = scenario_of(replace(FACTS, **changes), catalogue)
    return built.loaded.scenario, {one.path: one.value for one in built.assumed}


def test_nodes_and_layout(catalogue):
    scenario, _ = build(catalogue)
    assert (scenario.cluster.nodes, scenario.cluster.node.gpus, scenario.cluster.node.gpu) == (8, 8, "a100-80gb-sxm")
    plan = scenario.training.parallelism
    assert (plan.tp, plan.pp, plan.dp, plan.schedule) == (4, 2, 8, "1f1b")
    assert scenario.training.sharding.strategy == "zero-1"
    assert scenario.cluster.fabric is None


def test_a_small_job_runs_on_a_node_of_its_size(catalogue):
    scenario, assumed = build(catalogue, n_gpus=2, tp=2, pp=1, dp=1, fabric="ib-hdr-200")
    assert (scenario.cluster.nodes, scenario.cluster.node.gpus) == (1, 2)
    assert scenario.cluster.fabric is None  # nothing leaves the node
    assert assumed["cluster.node.gpus"] == 2


def test_fabric_with_stated_cards(catalogue):
    scenario, _ = build(catalogue, fabric="ib-hdr-200", nics_per_node=4)
    assert (scenario.cluster.fabric.base, scenario.cluster.fabric.links_per_node) == ("ib-hdr-200", 4)


def test_fabric_outside_the_catalogue_is_read_from_its_rate(catalogue):
    scenario, _ = build(catalogue, fabric="roce-50", nics_per_node=2)
    fabric = scenario.cluster.fabric
    assert (fabric.protocol, fabric.link, fabric.links_per_node) == ("roce", pytest.approx(50e9 / 8), 2)
    _, assumed = build(catalogue, fabric="pigeons")
    assert assumed["cluster.fabric"] is None


def test_half_nodes_have_half_the_cards(catalogue):
    scenario, assumed = build(catalogue, gpus_per_node=4, fabric="ib-hdr-200")
    whole = usual_node(catalogue.gpu("a100-80gb-sxm")[0], catalogue)
    assert scenario.cluster.fabric.links_per_node == assumed["cluster.fabric.links_per_node"] == whole.nics // 2
    assert scenario.cluster.nodes == 16


@pytest.mark.parametrize(
    ("gated", "tied", "positions"), [(False, None, 2048), (False, True, 2048), (False, False, 0), (True, None, 0)]
)
def test_gpt_blocks_have_learned_positions(catalogue, gated, tied, positions):
    model = build(catalogue, gated_ffn=gated, tied_embeddings=tied)[0].model
    assert (model.learned_positions, model.norm) == (positions, "layernorm" if positions else "rmsnorm")
    assert model.tied_embeddings is (positions > 0)


@pytest.mark.parametrize(("framework", "date", "size"), [("Megatron-LM", "2021-04", 1), ("torchtitan", "2024-10", 8)])
def test_an_unstated_micro_batch_is_left_to_the_software(catalogue, framework, date, size):
    open_ = {"micro_batch": None, "framework": framework, "date": date, "sharding": None}
    open_ |= {"tp": 1, "pp": 2, "dp": 32, "global_batch": 512}
    scenario, assumed = build(catalogue, **open_)
    assert (scenario.training.micro_batch, assumed.get("training.micro_batch")) == ("auto", None)
    resolved = resolve(scenario_of(replace(FACTS, **open_), catalogue).loaded, catalogue)
    assert resolved.layout.micro_batch == size
    assert {one.path: one.value for one in resolved.assumptions}["training.micro_batch"] == size


@pytest.mark.parametrize(("framework", "ep"), [("Megatron-LM", 1), ("NeMo Automodel", 8)])
def test_an_unstated_ep_is_left_to_the_software(catalogue, framework, ep):
    experts = {"experts": 8, "top_k": 2, "expert_ffn": 8192, "ep": None, "etp": None, "tp": 1, "pp": 1, "dp": 64}
    facts = replace(FACTS, framework=framework, date="2025-10", sharding=None, **experts)
    built = scenario_of(facts, catalogue)
    assert built.loaded.scenario.training.parallelism.ep is None
    resolved = resolve(built.loaded, catalogue)
    assert resolved.layout.ep == ep
    assert {one.path: one.value for one in resolved.assumptions}["training.parallelism.ep"] == ep


def test_attention_generation_is_the_softwares(catalogue):
    scenario, assumed = build(catalogue, attention="flash", date="2022-11")
    assert scenario.training.software.attention == assumed["training.software.attention"] == "flash-1"
    assert build(catalogue, attention="unfused")[0].training.software.attention == "unfused"


def test_recompute_modules_and_overrides(catalogue):
    scenario, assumed = build(
        catalogue,
        recompute="selective",
        recompute_modules=("core_attn",),
        software=(("overlap_grad_reduce", False), ("cuda_graph_modules", ("attn",))),
    )
    assert scenario.training.recompute.modules == ("core_attn",)
    assert dict(scenario.training.software.overrides) == {"overlap_grad_reduce": False}
    assert assumed["training.software.cuda_graph_modules"] == ["attn"]


def test_virtual_stages_of_one_stage(catalogue):
    scenario, assumed = build(catalogue, pp=1, dp=16, vpp=4)
    assert scenario.training.parallelism.virtual_stages == assumed["training.parallelism.virtual_stages"] == 1


def test_assumptions_of_the_row_are_kept(catalogue):
    _, assumed = build(catalogue, gpu="A100")
    assert assumed["cluster.node.gpu"] == "a100-80gb-sxm"


def test_unknown_gpu(catalogue):
    strange = replace(FACTS, gpu="XPU-9000")
    assert find_gpu(strange, catalogue) is None
    with pytest.raises(InputError):
        scenario_of(strange, catalogue)


def test_what_a_scenario_cannot_hold():
    assert unsupported(replace(FACTS, offload="activations")) == "offload of activations"
    assert unsupported(replace(FACTS, sharding="fsdp")) is None


def test_facts_have_no_column_of_a_result():
    assert not {"step_time_s", "tokens_per_s_per_gpu", "id", "source", "split", "trust"} & set(FACT_COLUMNS)
