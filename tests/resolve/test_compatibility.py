"""What cannot be had together is refused; what needs a word of explanation is an assumption; the table is sound."""

from __future__ import annotations

import re

import pytest
import yaml

from simcluster.data import data_root
from simcluster.resolve.compatibility_rules import load_rules
from simcluster.timing.software import family_ids, load_family

TABLE = data_root("calibration") / "software" / "compatibility" / "rules.yaml"
SOFTWARE = "training.software"


def test_every_row_has_a_source_and_every_source_a_row():
    raw = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    used = set(re.findall(r"\bfrom: (\w+)", TABLE.read_text(encoding="utf-8")))
    assert used <= set(raw["sources"])
    assert set(raw["sources"]) - used == set()
    kinds = {"documentation", "repository", "paper", "estimate"}
    assert all(one["kind"] in kinds and one["source"] and re.match(r"\d{4}-\d\d$", one["date"])
               for one in raw["sources"].values())  # fmt: skip


def test_the_table_names_what_exists(catalogue):
    rules = load_rules()
    generations = {entry.text("generation") for entry in catalogue.entries("gpus")}
    makers = {entry.text("vendor") for entry in catalogue.entries("gpus")}
    assert set(rules.runs) == generations
    limited = [*rules.attention.values(), *rules.precisions.values()]
    assert {name for one in limited for name in one.generations} <= generations
    assert {name for one in rules.backends.values() for name in one.makers} <= makers
    families = [name for engine in rules.engines for name in engine.families]
    assert len(families) == len(set(families))
    assert set(families) <= set(family_ids())
    assert set(rules.cloud_protocols) == {e.text("provider") for e in catalogue.entries("nodes") if e.text("provider")}


def test_what_a_family_does_by_default_its_engine_can():
    for engine in load_rules().engines:
        for name in engine.families:
            assert load_family(name).sharding in engine.strategies


def test_instances_have_the_network_that_the_catalogue_gives_them(catalogue):
    rules = load_rules()
    for entry in catalogue.entries("nodes"):
        if entry.text("provider") and entry.text("fabric"):
            protocol = catalogue.fabric(entry.text("fabric"))[0].protocol
            assert protocol in ("none", *rules.cloud_protocols[entry.text("provider")]), entry.id


def test_releases_are_in_order():
    rules = load_rules()
    for months in ([one.month for one in rules.torch.values()], list(rules.cuda_months.values())):
        assert months == sorted(months)
    newest = [one.cuda for _, one in sorted(rules.torch.items())]
    assert newest == sorted(newest)
    for release in rules.torch.values():  # wheels carry a CUDA that was out by then
        assert rules.cuda_months[release.cuda] <= release.month


@pytest.mark.parametrize(
    ("node", "words", "fits"),
    [
        ("dgx-b200", "cuda=12.6", False),  # kernels up to sm_90
        ("dgx-b200", "cuda=12.8", True),
        ("dgx-b200", "cuda=12.8.1", True),
        ("dgx-b200", "cuda=cu128", True),
        ("dgx-b200", "cuda=CUDA 12", True),  # some 12.x
        ("dgx-b200", "cuda=11", False),
        ("dgx-b200", "torch=2.6", False),
        ("dgx-b200", "torch=2.7", True),
        ("dgx-h100", "cuda=11.8", True),
        ("dgx-h100", "cuda=11.7", False),
        ("dgx-a100-80gb", "cuda=11.0", True),
        ("dgx-a100-80gb", "torch=1.6", False),
        ("dgx-a100-80gb", "torch=1.7", True),
        ("mi300x-x8", "cuda=rocm6.2", True),
        ("mi300x-x8", "cuda=rocm5.7", False),
        ("mi300x-x8", "torch=2.5.1+rocm6.2", True),
        ("mi300x-x8", "torch=2.5.1+cu124", False),
        ("mi300x-x8", "backend=rccl", True),
        ("dgx-h100", "backend=hccl", False),
        ("dgx-h100", "backend=mpi", False),
        ("dgx-h100", "attention=flash-3", True),
        ("dgx-a100-80gb", "attention=cudnn", True),
        ("mi300x-x8", "attention=flash-2", True),
    ],
)
def test_pairs_of_chip_and_software(settle, refused, node, words, fits):
    sets = (f"cluster.node={node}", f"{SOFTWARE}.date=2026-06", f"{SOFTWARE}.{words}")
    if fits:
        assert settle(*sets)
    else:
        key = words.partition("=")[0]
        assert [f"{SOFTWARE}.{key}={words.partition('=')[2]}" in one for one in refused(*sets)] == [True]


@pytest.mark.parametrize(
    ("node", "precision", "fits"),
    [
        ("dgx-a100-80gb", "tf32", True),
        ("dgx-a100-80gb", "fp8", False),
        ("dgx-h100", "fp8-block", True),
        ("dgx-h100", "mxfp8", False),
        ("dgx-b200", "mxfp8", True),
        ("dgx-b200", "nvfp4", True),
        ("mi300x-x8", "fp8", True),
        ("mi355x-x8", "nvfp4", False),
        ("dgx-1-v100-32gb", "bf16", False),
        ("dgx-1-v100-32gb", "fp16", True),
    ],
)
def test_pairs_of_chip_and_precision(settle, refused, node, precision, fits):
    sets = (f"cluster.node={node}", f"training.precision={precision}")
    if fits:
        assert settle(*sets).layout.precision == precision
    else:
        (problem,) = refused(*sets)
        assert "use " in problem
        assert precision not in problem.partition("; use ")[2].split(", ")


def assumed(resolved) -> dict:
    return {one.path: (one.value, one.why) for one in resolved.assumptions}


def test_nccl_on_amd_is_rccl(settle):
    found = assumed(settle("cluster.node=mi300x-x8", f"{SOFTWARE}.backend=nccl"))
    assert found[f"{SOFTWARE}.backend"] == ("rccl", "nccl on GPUs of AMD is rccl")
    assert f"{SOFTWARE}.backend" not in assumed(settle(f"{SOFTWARE}.backend=nccl"))


def test_a_cuda_beyond_the_wheels_is_an_own_build(settle):
    sets = (f"{SOFTWARE}.date=2026-06", f"{SOFTWARE}.torch=2.6")
    assert "built from source with 12.8" in assumed(settle(*sets, f"{SOFTWARE}.cuda=12.8"))[f"{SOFTWARE}.torch"][1]
    assert f"{SOFTWARE}.torch" not in assumed(settle(*sets, f"{SOFTWARE}.cuda=12.4"))


def test_a_chip_without_the_familys_kernel_runs_unfused(settle):
    resolved = settle("cluster.node=dgx-1-v100-32gb", "training.precision=fp16")
    assert resolved.family.attention == "unfused"
    assert assumed(resolved)[f"{SOFTWARE}.attention"][0] == "unfused"


@pytest.mark.parametrize(
    ("family", "strategy", "fits"),
    [
        ("deepspeed", "zero-1", True),
        ("deepspeed", "fsdp", False),
        ("fsdp2", "zero-3", True),  # the same thing under another name
        ("fsdp2", "zero-1", False),
        ("megatron-core", "fsdp", True),
        ("Megatron-LM and FSDP", "fsdp", True),
        ("Megatron-LM, DeepSpeed and FSDP", "fsdp", False),
        ("some framework", "zero-3", True),
    ],
)
def test_one_sharding_engine(settle, refused, family, strategy, fits):
    sets = (f"{SOFTWARE}.family={family}", f"training.sharding.strategy={strategy}", "training.parallelism={tp: 2}")
    if fits:
        assert settle(*sets).layout.strategy == strategy
    else:
        assert any("shards with" in one or "two sharding engines" in one for one in refused(*sets))


@pytest.mark.parametrize("name", ["Megatron-LM v2", "NeMo 24.09", "megatron_core", "our own trainer", "generic"])
def test_a_framework_in_free_text_is_no_mistake(settle, name):
    assert settle(f"{SOFTWARE}.family={name}").family.id


@pytest.mark.parametrize(
    ("name", "meant"), [("megtron-core", "megatron-core"), ("deepsped", "deepspeed"), ("fdsp2", "fsdp2")]
)
def test_a_family_spelt_wrong_is_told(refused, name, meant):
    assert any(f"did you mean '{meant}'?" in one for one in refused(f"{SOFTWARE}.family={name}"))


def test_networks_of_clouds(settle, refused):
    assert settle("cluster.node=aws-p5-48xlarge", "cluster.fabric=efa-v2")
    assert settle("cluster.node=aws-p5-48xlarge", "cluster.fabric=null")
    assert settle("cluster.node={base: aws-p5-48xlarge}", "cluster.fabric=ib-ndr-400")  # a design, not an instance
    assert settle("cluster.node=dgx-h100", "cluster.fabric=roce-400")
    (problem,) = refused("cluster.node=azure-nd96isr-h100-v5", "cluster.fabric=efa-v2")
    assert "instances of azure have ib or tcp" in problem
