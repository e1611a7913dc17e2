from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.scenario import Scenario, load_text
from simcluster.scenario.checks import check, product_finding
from simcluster.scenario.training import Parallelism

MODEL = {"layers": 32, "hidden": 4096, "heads": 32, "ffn": 11008, "vocab": 32000}


def scenario(**training: object) -> Scenario:
    operations = training.pop("operations", {})
    data = {
        "model": MODEL,
        "cluster": {"node": {"gpu": "h100", "gpus": 8}, "nodes": 8},
        "training": {"sequence_length": 4096, **training},
        "operations": operations,
    }
    return Scenario.model_validate(data)


def messages(case: Scenario) -> list[str]:
    return [f"{item.path}: {item.message}; {item.advice}" for item in check(case)]


SLOW = {"stragglers": {"slow_nodes": [{"count": 9, "factor": 1.1}]}}
NAMED = "operations.stragglers.slow_nodes"


def named(*nodes):
    return {"stragglers": {"slow_nodes": [{"node": node, "factor": 1.1} for node in nodes]}}


SPREAD = {"failures": {"incidents": {"per_month": 1, "diagnose": {"median": "2 h", "p90": "1 h"}}}}
LAYOUT = "training.parallelism"


@pytest.mark.parametrize(
    ("training", "said"),
    [
        ({"parallelism": {"tp": 8, "pp": 3}}, f"{LAYOUT}: tp 8 x pp 3 x cp 1 = 24 does not divide the 64 GPUs"),
        ({"parallelism": {"tp": 8, "dp": 4}}, "= 32, but there are 64 GPUs (8 nodes x 8); dp 8 would fit"),
        ({"parallelism": {"tp": 8}, "global_batch": 100, "micro_batch": 1}, "use 96 or 104, or change dp"),
        (
            {"parallelism": {"tp": 8}, "global_batch": 96, "micro_batch": 5},
            "12 a replica, not equal micro-batches of 5 (micro_batch 5 x dp 8 = 40); micro_batch 3, 4, 6 would fit, or",
        ),
        ({"global_batch": {"tokens": 100}}, "100 tokens are less than one sequence of 4096"),
        ({"parallelism": {"cp": 64}, "sequence_length": 100}, f"{LAYOUT}.cp: 64 does not divide the sequence of 100"),
        ({"parallelism": {"virtual_stages": 2}}, "2 needs a pipeline, but pp is 1"),
        ({"parallelism": {"pp": 4, "virtual_stages": 2, "schedule": "zb-h1"}}, "goes with schedule 1f1b, not zb-h1"),
        ({"parallelism": {"pp": 4, "schedule": "none"}}, "none leaves pp 4 without a schedule; use 1f1b"),
        ({"parallelism": {"pp": 2, "stages": [16, 15, 1]}}, "3 entries for pp 2 x virtual_stages 1 = 2; list 2"),
        ({"parallelism": {"pp": 2, "stages": [16, 15]}}, "hold 31 layers, the model has 32"),
        ({"parallelism": {"tp": 64}}, f"{LAYOUT}.tp: 64 does not divide the 32 heads (0.5 a rank); use 8, 16, 32"),
        ({"parallelism": {"pp": 64}}, "is more than the 32 layers"),
        ({"parallelism": {"tp": 8, "dp": 8, "ep": 3}}, "ep 3 does not divide tp 8 x cp 1 x dp 8 = 64 ranks of a stage"),
        ({"parallelism": {"tp": 8, "ep": 4, "etp": 3}}, "ep 4 x etp 3 = 12 does not divide tp 8 x cp 1 x dp 8 = 64"),
        ({"sharding": {"strategy": "hsdp"}}, "hsdp shards over less than all ranks"),
        ({"operations": SLOW}, "9 slow nodes, but the cluster has 8"),
        ({"operations": named(0, 8)}, f"{NAMED}.1.node: 8 is no node of 8; count from 0 to 7"),
        ({"operations": named(5, 5)}, f"{NAMED}.1.node: 5 is there twice"),
        ({"operations": SPREAD}, "p90 is below the median"),
    ],
)
def test_each_rule_speaks(training, said):
    found = messages(scenario(**training))
    assert len(found) == 1, found
    assert said in found[0]


def test_dualpipe_wants_an_even_number_of_stages():
    case = scenario(parallelism={"pp": 3, "schedule": "dualpipe"})
    assert "dualpipe needs an even pp, not 3; use pp 4 or 1f1b" in messages(case)[-1]


@pytest.mark.parametrize(
    "training",
    [
        {},
        {"parallelism": "auto", "global_batch": 7, "micro_batch": 2},
        {"parallelism": {"tp": 8, "pp": 2, "dp": 4, "virtual_stages": 2}, "global_batch": 64, "micro_batch": 2},
        {"parallelism": {"tp": 1, "sequence_parallel": True}},
        {"parallelism": {"pp": 2, "stages": [17, {"layers": 15, "head": True}]}},
        {"parallelism": {"tp": 8, "dp": 8, "ep": 8, "etp": 1}, "micro_batch": "auto", "global_batch": 9},
        {"global_batch": {"tokens": 4_000_000}, "parallelism": {"tp": 8}, "micro_batch": 3},
        {"sharding": {"strategy": "hsdp", "group": "node"}},
    ],
)
def test_sound_or_open_plans_pass(training):
    assert check(scenario(**training)) == []


def test_product_rule_for_rooms_that_know_the_gpus():
    assert product_finding(Parallelism(tp=8, pp=4, dp=16), 512) is None
    assert product_finding(Parallelism(tp=8), 512) is None
    finding = product_finding(Parallelism(tp=8, pp=4, dp=15), 512)
    assert finding is not None
    assert finding.advice == "dp 16 would fit"


def test_checks_speak_beside_other_mistakes_but_not_about_them():
    text = """\
model: m
cluster: {node: {gpu: h100, gpus: 8}, nodes: 8}
training: {precision: x, global_batch: 100, micro_batch: 3, parallelism: {tp: 8, pp: 2, dp: 4, virtual_stages: 2, %s}}
"""
    with pytest.raises(InputError) as caught:
        load_text(text % "schedule: gpipe", "f.yaml")
    assert [item.mark.column for item in caught.value.problems] == [12, 26, 96]
    with pytest.raises(InputError) as caught:
        load_text(text % "schedule: x", "f.yaml")
    assert [item.mark.column for item in caught.value.problems] == [12, 115]
