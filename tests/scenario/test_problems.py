from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.scenario import load_text
from simcluster.scenario.problems import keys_at

BAD = """\
modle: x
tp: 8
cluster:
  node: {gpu: h100, gpus: 8, nics: fast, ram: 2048}
  nodes: 0
  fabric: {protocol: rcoe, link: 400, tires: 2}
  background: [{from: storage}, {job: a.yaml, rate: 3 GB/s}]
training:
  global_batch: 4M
  precision: bf-16
  parallelism: {tp: yes, pp: 4.5, schedule: 1F1B, stages: [1, {layer: 3}]}
  sharding: zero-9
  recompute: sel
  grad_compression: powersgd
  software: {overrides: 3, date: june}
operations:
  checkpoint: {interval: 10 parsec, verify: maybe}
  stragglers: {node_sigma: 20, slow_nodes: {count: 1}}
acquire: {own: {price: cheap}, rent: {price: 2}}
use: {horizon: 4, hours: 85}
facility: {pue: 0.5, electricity: 0.12}
"""
EXPECTED = """\
1:1: model: is missing; state it
1:1: modle: unknown key; did you mean 'model'?
2:1: tp: unknown key; did you mean training.parallelism.tp?
4:30: cluster.node.nics: 'fast' should be like '8x 400 Gbit/s'
4:42: cluster.node.ram: 2048 has no unit; write it like '80 GB', '80 GiB' or '7.68 TB'
5:3: cluster.nodes: 0 should be at least 1
6:12: cluster.fabric.protocol: 'rcoe' is not known here; did you mean 'roce'?
6:28: cluster.fabric.link: 400 has no unit; write it like '400 Gbit/s' or '50 GB/s'
6:39: cluster.fabric.tires: unknown key; did you mean 'tiers'?
7:16: cluster.background.0: needs from and rate, or job
7:33: cluster.background.1: needs from and rate, or job
9:3: training.global_batch: '4M' should be a number of sequences, or like '4M tokens'
10:3: training.precision: 'bf-16' is not known here; did you mean 'bf16'?
11:17: training.parallelism.tp: 'yes' is not a quantity; write it like 8, '12k', '7.5M' or '1.4T'
11:26: training.parallelism.pp: 4.5 is not a whole number
11:35: training.parallelism.schedule: '1F1B' is not known here; did you mean '1f1b'?
11:63: training.parallelism.stages.1.layers: is missing; state it
11:64: training.parallelism.stages.1.layer: unknown key; did you mean 'layers'?
12:3: training.sharding.strategy: 'zero-9' is not known here; did you mean 'zero-3'?
13:3: training.recompute: 'sel' is not known here; use none, selective, full or a mapping
14:3: training.grad_compression: 'powersgd' is not a gradient compression; \
use one like none, bf16, fp8, powersgd(4), topk(0.01), local-sgd(16)
15:14: training.software.overrides: 3 should be a mapping
15:28: training.software.date: 'june' should be a date like '2024-06'
17:16: operations.checkpoint.interval: '10 parsec' has the unknown unit 'parsec'; \
write it like '500 ms', '10 min', '12 h', '4 days', '14 weeks' or '4 years'
17:37: operations.checkpoint.verify: 'maybe' should be true or false
18:16: operations.stragglers.node_sigma: 20 should be at most 1, like 20% or 0.2
18:32: operations.stragglers.slow_nodes: {'count': 1} should be a list
19:17: acquire.own.price: 'cheap' should be 'catalogue', or like '300000 USD/node' or '40000 USD/GPU'
19:39: acquire.rent.price: 2 should be 'list', or like '98 USD/h' (a node) or '2.5 USD/GPU-h'
20:7: use.horizon: 4 has no unit; write it like '500 ms', '10 min', '12 h', '4 days', '14 weeks' or '4 years'
20:19: use.hours: 85 should be at most 1, like 20% or 0.2
21:12: facility.pue: 0.5 should be at least 1
21:22: facility.electricity: 0.12 has no unit; write it like '0.12 USD/kWh' or '120 USD/MWh'
"""


def test_everything_that_is_wrong_is_told_once_with_place_and_advice():
    with pytest.raises(InputError) as caught:
        load_text(BAD, "f.yaml")
    assert str(caught.value).splitlines() == [f"f.yaml:{line}" for line in EXPECTED.splitlines()]


def test_inputs_of_ten_thousand_mistakes_stay_readable():
    keys = ", ".join(f"k{index}: 1" for index in range(10_000))
    with pytest.raises(InputError) as caught:
        load_text(f"model: m\ncluster: {{node: a, nodes: 1, {keys}}}\n")
    assert len(caught.value.problems) == 101
    assert "and 9900 problems more" in str(caught.value)
    with pytest.raises(InputError) as caught:
        load_text(f"model: m\ncluster: {{node: a, nodes: {'9' * 5000}}}\n")
    assert len(str(caught.value)) < 300


def test_keys_at_follows_unions_and_aliases():
    assert "gpus" in keys_at(("cluster", "node"))
    assert keys_at(("cluster", "background")) == ["from", "rate", "job"]
    assert keys_at(("training", "software", "overrides")) == []
    assert "tied_embeddings" in keys_at(("model",))
