"""Every value has an origin; what cannot be done is refused, all of it at once."""

import pytest

from simcluster.resolve import stated_values
from simcluster.resolve.software import fields_read
from simcluster.scenario import load_text


def test_values_know_where_they_come_from(settle, text):
    resolved = settle("cluster.nodes=4", text=text + "what_ifs: {fast: {cluster.fabric: ib-ndr-400}}\n", what_if="fast")
    origins = {path: origin for path, (_, origin) in resolved.values.items()}
    assert origins["cluster.node"] == "a.yaml:4:3"
    assert origins["cluster.nodes"] == "--set"
    assert origins["cluster.fabric"] == "what_if fast"
    assert origins["training.precision"] == "default"
    assert origins["training.parallelism.dp"] == "assumed: 32 GPUs over tp x pp x cp = 4"
    assert resolved.values["training.parallelism.dp"][0] == 8 == resolved.layout.dp


def test_assumptions_are_the_assumed_values(settle):
    resolved = settle()
    assumed = {path: value for path, (value, origin) in resolved.values.items() if origin.startswith("assumed")}
    assert {one.path: one.value for one in resolved.assumptions} == assumed


def test_what_is_stated_is_not_assumed(settle):
    everything = {
        "training.recompute": "full",
        "training.parallelism.dp": 4,
        "training.parallelism.sequence_parallel": True,
        "training.software.overrides.overlap_p2p": True,
    }
    free = {one.path for one in settle().assumptions}
    bound = {
        one.path for one in settle(*(f"{path}={str(value).lower()}" for path, value in everything.items())).assumptions
    }
    gone = {path.replace(".overrides", "") for path in everything} | {"training.software.selective_modules"}
    assert free - bound == gone & free
    assert {"training.recompute", "training.parallelism.dp", "training.software.overlap_p2p"} <= free
    assert bound <= free


LAYOUTS = (
    ("training.parallelism={tp: 1, pp: 1}", "training.sharding.strategy=none"),
    ("training.parallelism={tp: 1, pp: 1}",),
    ("training.parallelism={tp: 8, pp: 1}",),
    ("training.parallelism={tp: 8, pp: 2}",),
    ("training.parallelism={tp: 2, pp: 2, virtual_stages: 2}", "training.recompute=selective"),
    ("training.parallelism={tp: 2, pp: 4}", "training.software.attention=unfused"),
)


@pytest.mark.parametrize("sets", LAYOUTS)
def test_every_default_that_is_read_is_listed(settle, sets):
    """And no other: a list of what changes nothing would hide what matters."""
    resolved = settle(*sets)
    listed = {one.path.removeprefix("training.software.") for one in resolved.assumptions if ".software." in one.path}
    stated = set(resolved.scenario.training.software.overrides) | ({"attention"} if "attention" in str(sets) else set())
    assert listed == fields_read(resolved.family, resolved.layout, resolved.arch) - stated


@pytest.mark.parametrize("sets", LAYOUTS)
def test_an_override_that_is_not_read_changes_nothing_and_is_named(settle, sets):
    from simcluster.evaluation import Evaluation

    resolved = settle(*sets)
    flags = {"tp_overlap": "true", "scatter_p2p": "false", "fused_softmax": "false", "overlap_p2p_interleaved": "true"}
    idle = set(flags) - fields_read(resolved.family, resolved.layout, resolved.arch)
    changed = settle(*sets, *(f"training.software.overrides.{name}={flags[name]}" for name in sorted(idle)))
    assert set(changed.unmodelled) == {f"training.software.overrides.{name}" for name in idle}
    assert Evaluation(changed).step == Evaluation(resolved).step


def test_what_has_no_effect_yet_is_named(settle, text):
    sets = ("cluster.spares=2", "training.tokens=1T", "training.software.torch=2.4", "use.hours=50%")
    assert settle(*sets).unmodelled == ("training.software.torch",)
    assert settle().unmodelled == ()


NODE = "cluster.node={base: dgx-a100-80gb, host: epyc-7742, ram: 1 TB, nvme: 15 TB, power: 6.5 kW}"
FABRIC = "cluster.fabric={base: ib-hdr-200, rails: true, tiers: 3, switch: qm8700, routing: ecmp, storage: shared}"


def test_hardware_that_changes_nothing_is_named(settle):
    from simcluster.evaluation import Evaluation

    plain = settle("cluster.node={base: dgx-a100-80gb}", "cluster.fabric={base: ib-hdr-200}")
    detailed = settle(NODE, FABRIC)
    assert set(detailed.unmodelled) == {
        *(f"cluster.node.{key}" for key in ("host", "ram", "nvme")),
        *(f"cluster.fabric.{key}" for key in ("routing", "storage")),
    }
    assert Evaluation(detailed).step == Evaluation(plain).step
    assert Evaluation(detailed).memory == Evaluation(plain).memory


UNSUPPORTED = {
    "training.precision=fp32": "precision fp32",
    "training.sharding.offload=pool": "offload to a pool of memory",
    "cluster.background=[{from: storage, rate: 20 GB/s}]": "other traffic on the fabric",
}


@pytest.mark.parametrize("change", UNSUPPORTED)
def test_what_is_not_simulated_is_refused_by_the_change_that_asked(refused, change):
    (problem,) = refused(change)
    assert problem.startswith(f"--set {change}: {UNSUPPORTED[change]} is not simulated yet; see the list of what is")


def test_what_is_not_simulated_is_refused_at_its_place(refused, text):
    zero = "tp: 2, pp: 2, schedule: zb-h2"
    text = text.replace("tp: 2, pp: 2", zero) + "  precision: fp32\n"
    found = refused("training.sharding.strategy=fsdp", text=text)
    assert {problem.partition(" is not")[0] for problem in found} == {
        "a.yaml:14:3: training.precision: precision fp32",
        "--set training.sharding.strategy=fsdp: fsdp with schedule zb-h2",
    }


def test_a_what_if_is_named(refused, text):
    text += "what_ifs: {full: {training.precision: fp32}}\n"
    found = refused(text=text, what_if="full")
    assert found[0].startswith("a.yaml:14:19: what_if full: training.precision: precision fp32 is not")


def test_all_problems_at_once(refused, text):
    text = (
        text.replace("{layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}", "lama-7b")
        .replace("dgx-a100-80gb", "dgx-a100-80g")
        .replace("ib-hdr-200", "ib-hdr-20")
        .replace(
            "date: 2024-06", "date: 2024-06, overrides: {overlap_grad: true, host_issue_s: soon}, attention: flush"
        )
    )
    found = refused("training.precision=fp32", text=text)
    for begin, end in (
        ("a.yaml:2:1: model: unknown model 'lama-7b'", "did you mean llama-7b"),
        ("a.yaml:4:3: cluster.node: the catalogue has no node 'dgx-a100-80g'", "did you mean dgx-a100-80gb"),
        ("a.yaml:6:3: cluster.fabric: the catalogue has no fabric 'ib-hdr-20'", "did you mean ib-hdr-200"),
        ("a.yaml:13:64: training.software.overrides.overlap_grad: unknown field", "did you mean 'overlap_grad_reduce'"),
        ("a.yaml:13:84: training.software.overrides.host_issue_s: host_issue_s is 'soon'", "give a number"),
        ("a.yaml:13:105: training.software.attention: 'flush' is not a known kernel", "flash-2"),
        ("--set training.precision=fp32: precision fp32 is not simulated yet", "coverage"),
    ):
        (one,) = [problem for problem in found if problem.startswith(begin)]
        assert end in one
    assert len(found) == 7


def test_machine_and_model_are_checked_against_the_layout_together(refused):
    found = refused("model=gpt2-xl", "training.parallelism={tp: 16, pp: 3}", "training.software.overrides.x=1")
    assert len(found) == 3
    assert any("16 does not divide the 25 heads" in problem for problem in found)
    assert any("unknown field 'x'" in problem for problem in found)
    assert any("does not divide the 16 GPUs" in problem for problem in found)


def test_a_node_without_cards_cannot_be_many(refused):
    (problem,) = refused("cluster.fabric=none")
    assert "'none' cannot join 2 nodes" in problem
    (problem,) = refused("cluster.node={gpu: h100-80gb-sxm, gpus: 1}", "cluster.fabric=null", "cluster.nodes=2",
                         "training.parallelism={tp: 1, pp: 1}")  # fmt: skip
    assert "need a fabric" in problem


def test_stated_values_are_single_values(text):
    values = stated_values(load_text(text, "a.yaml"))
    assert values["cluster.nodes"] == 2
    assert values["model.layers"] == 8
    assert "cluster" not in values
    assert "training.software.overrides" not in values
