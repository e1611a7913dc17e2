from __future__ import annotations

import contextlib
import copy

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError, UsageError
from simcluster.scenario import (
    Origin,
    Scenario,
    apply_changes,
    apply_sets,
    apply_what_if,
    load,
    load_mapping,
    load_text,
    to_dict,
)

FULL = """\
name: llama-65b-512xa100
model: llama-65b
cluster:
  node: dgx-a100-80gb
  nodes: 64
  spares: 1
  fabric: {protocol: roce, link: 400 Gbit/s, links_per_node: 8, rails: true, tiers: 2, switch: sn5600,
           oversubscription: {leaf: 2, spine: 1}, routing: ecmp, storage: shared}
  background: [{from: storage, rate: 20 GB/s}, {job: other.yaml}]
training:
  sequence_length: 2048
  global_batch: 2048
  micro_batch: 4
  tokens: 1.4T
  precision: bf16
  parallelism: {tp: 8, pp: 4, dp: 16, cp: 1, ep: 1, etp: 1, sequence_parallel: true,
                schedule: 1f1b, virtual_stages: 1, order: depth-first, stages: auto}
  sharding: {strategy: zero-1, group: all, offload: none}
  recompute: selective
  grad_compression: powersgd(4)
  software: {family: megatron-core, date: 2024-06, torch: 2.10, cuda: "12.4", backend: nccl, attention: flash-2,
             profile: mine, overrides: {overlap_grad_reduce: true}}
operations:
  checkpoint: {interval: auto, mode: async, keep: 3, verify: true}
  failures: {rates: meta-rsc-1, restart: 10 min, incidents: {per_month: 2, diagnose: {median: 12 h, p90: 4 days}}}
  elastic: torchelastic
  stragglers: {node_sigma: 1%, slow_nodes: [{count: 1, factor: 1.02}]}
  storage: {system: {drives: 24, drive: nvme-8tb, nic: 100 Gbit/s, replicas: 2}, dataset_bytes_per_token: 2}
acquire: {own: {price: catalogue, residual: 20%, wacc: 10%, lead_time: 14 weeks}}
use: {horizon: 4 years, hours: 85%}
facility: {electricity: 0.12 USD/kWh, pue: 1.3, colocation: 130 USD/kW-month}
what_ifs: {roce-200: {cluster.fabric: roce-200}, wide: {training.parallelism.dp: 8, cluster.nodes: 32}}
"""
SHORT = "model: m\ncluster: {node: a, nodes: 2, fabric: ib-x}\n"


def problems(text: str, **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_text(text, "f.yaml", **options)  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


def test_every_key_of_the_format_is_read_to_si():
    scenario = load_text(FULL).scenario
    assert scenario.cluster.fabric.link == 50e9
    assert scenario.cluster.background[0].rate == 20e9
    assert scenario.training.tokens == 1_400_000_000_000
    assert scenario.training.software.torch == "2.10"
    assert scenario.operations.failures.restart == 600
    assert scenario.operations.failures.incidents.diagnose.p90 == 4 * 86400
    assert scenario.operations.stragglers.node_sigma == pytest.approx(0.01)
    assert scenario.acquire.own.lead_time == 14 * 7 * 86400
    assert scenario.use.hours == 0.85
    assert scenario.facility.electricity == pytest.approx(0.12 / 3.6e6)
    assert scenario.facility.colocation == pytest.approx(130 / 1000 / (730.5 * 3600))


def test_origins_tell_who_stated_what(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(FULL)
    loaded = load(path, sets=["training.micro_batch=2"], what_if="roce-200")
    origins = {key: str(origin) for key, origin in loaded.origins.items()}
    assert origins["cluster.nodes"] == f"{path}:5:3"
    assert origins["training.parallelism.tp"] == f"{path}:16:17"
    assert origins["operations.stragglers.slow_nodes.0.factor"] == f"{path}:27:56"
    assert origins["cluster.fabric"] == "what_if roce-200"
    assert origins["training.micro_batch"] == "--set"
    assert origins["acquire.own.price"].startswith(str(path))
    assert str(load_text(SHORT).origins["training.precision"]) == "default"
    assert Scenario.load(path).scenario.cluster.nodes == 64
    assert loaded.file == str(path)


def test_a_value_written_short_has_its_origin_inside_too():
    loaded = load_text(SHORT + "training: {global_batch: 4M tokens, sharding: fsdp}\n", "f.yaml")
    assert str(loaded.origins["training.global_batch.tokens"]) == "f.yaml:3:12"
    assert str(loaded.origins["training.sharding.strategy"]) == "f.yaml:3:37"
    assert str(loaded.origins["training.sharding.offload"]) == "default"


def test_sets_reach_everywhere_and_win():
    sets = [
        "cluster.fabric.oversubscription=2",
        "cluster.node.ram=1 TB",
        "training.parallelism.tp=4",
        "training.software.torch=2.10",
        "acquire=3y",
        "operations={elastic: none}",
    ]
    scenario = load_text(SHORT, sets=sets).scenario
    assert scenario.cluster.fabric.base == "ib-x"
    assert scenario.cluster.fabric.oversubscription.leaf == 2
    assert scenario.cluster.node.base == "a"
    assert scenario.cluster.node.ram == 1e12
    assert scenario.training.parallelism.tp == 4
    assert scenario.training.software.torch == "2.10"
    assert scenario.acquire.rent.term == "3y"
    assert scenario.operations.elastic == "none"
    changed = load_text(FULL, sets=["operations.stragglers.slow_nodes.0.factor=1.5"]).scenario
    assert changed.operations.stragglers.slow_nodes[0].factor == 1.5
    assert changed.operations.stragglers.slow_nodes[0].count == 1


def test_wrong_sets_are_named_all_at_once():
    sets = ["training.micro_batch=x", "cluster.nodez=3", "a.b=1", "training.precision=[1"]
    assert problems(SHORT.replace("nodes: 2", "nodes: none"), sets=sets) == [
        "--set training.precision=[1: not valid YAML: while parsing a flow sequence, did not find expected ',' or ']'",
        "--set cluster.nodez=3: unknown key; did you mean 'node'?",
        "--set training.micro_batch=x: 'x' should be a whole number of at least 1, or 'auto'",
        "--set a.b=1: a: unknown key; use name, model, cluster, training, operations, acquire, use or facility",
        "f.yaml:2:20: cluster.nodes: 'none' is not a quantity; write it like 8, '12k', '7.5M' or '1.4T'",
    ]
    for text in ("training", "=3", "training..tp=3"):
        with pytest.raises(UsageError, match=r"write dotted\.path=value"):
            load_text(SHORT, sets=[text])


def test_what_ifs_are_checked_with_the_file_and_applied_by_name():
    loaded = load_text(FULL, "f.yaml")
    changed = apply_what_if(loaded, "roce-200")
    assert changed.scenario.cluster.fabric == "roce-200"
    assert changed.scenario.training == loaded.scenario.training
    assert apply_what_if(changed, "wide").scenario.cluster.nodes == 32
    assert problems(SHORT + "what_ifs: {a: {cluster.fabrik: x}, b: 3, c: {cluster.nodes: 0}}\n") == [
        "f.yaml:3:36: what_ifs.b should be a mapping; write {dotted.path: value}",
    ]
    assert problems(SHORT + "what_ifs: {a: {cluster.fabrik: x}, c: {cluster.nodes: 0}}\n") == [
        "f.yaml:3:16: what_if a: cluster.fabrik: unknown key; did you mean 'fabric'?",
        "f.yaml:3:40: what_if c: cluster.nodes: 0 should be at least 1",
    ]
    with pytest.raises(InputError, match=r"what_if 'roce' is not known; did you mean 'roce-200'\?"):
        apply_what_if(loaded, "roce")


def test_a_null_takes_a_value_back():
    assert load_text(FULL, sets=["cluster.fabric=null"]).scenario.cluster.fabric is None


def test_plain_data_and_changes_without_a_file():
    loaded = load_mapping({"model": "m", "cluster": {"node": "a", "nodes": 1}}, sets=["cluster.nodes=2"])
    assert loaded.scenario.cluster.nodes == 2
    assert str(loaded.origins["model"]) == "arguments"
    changed = apply_changes(loaded, {"training.micro_batch": 4, "cluster.node": "b"}, Origin("candidate", "c"))
    assert changed.scenario.cluster.node == "b"
    assert str(changed.origins["training.micro_batch"]) == "candidate c"
    assert apply_sets(changed, ["model=n"]).scenario.model == "n"


@pytest.mark.parametrize("text", ["", "[]", "3", "- model: m"])
def test_a_scenario_is_a_mapping(text):
    assert "a scenario is a mapping" in problems(text)[0]


def test_later_layers_meet_foreign_words_of_earlier_ones():
    text = SHORT + "tensor_model_parallel_size: 8\ntraining: {sharding: zero-1}\n"
    loaded = load_text(text, sets=["training.tensor_parallel_size=4", "training.sharding.group=node"])
    assert loaded.scenario.training.parallelism.tp == 4
    assert loaded.scenario.training.sharding.strategy == "zero-1"
    assert [note.split(": ")[1] for note in loaded.notes] == [
        "tensor_model_parallel_size read as training.parallelism.tp",
        "tensor_parallel_size read as training.parallelism.tp",
    ]


DATA = yaml.safe_load(FULL)
JUNK = st.sampled_from([None, "", "x", 0, -1, 1.5, True, [], [1], {}, {"x": 1}, "10 m", "8 GB", 10**30, "auto", "none"])


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_damaged_scenarios_load_or_are_refused_with_a_place(data):
    damaged = copy.deepcopy(DATA)
    for _ in range(data.draw(st.integers(1, 3))):
        here = damaged
        while isinstance(here, dict) and here:
            key = data.draw(st.sampled_from(sorted(here)))
            if not isinstance(here[key], dict) or data.draw(st.booleans()):
                here[data.draw(st.sampled_from([key, key, f"{key}x"]))] = copy.deepcopy(data.draw(JUNK))
                break
            here = here[key]
    text = yaml.safe_dump(damaged)
    with contextlib.suppress(InputError):
        assert to_dict(load_text(text, "f.yaml").scenario)
        return
    assert all(item.startswith("f.yaml:") and item.split(":")[1].isdigit() for item in problems(text))
