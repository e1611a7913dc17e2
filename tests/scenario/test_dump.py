from __future__ import annotations

import json
import re

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.scenario import Scenario, digest, from_dict, load_text, to_dict

COUNTS = st.sampled_from([1, 2, 4, 8])
PLANS = st.just("auto") | st.fixed_dictionaries(
    {"tp": COUNTS, "pp": COUNTS},
    optional={"schedule": st.sampled_from(["1f1b", "gpipe"]), "stages": st.just([3, {"layers": 4, "head": True}])},
)
TRAINING = st.fixed_dictionaries(
    {},
    optional={
        "parallelism": PLANS,
        "global_batch": st.sampled_from([64, "64 sequences", "4M tokens"]),
        "micro_batch": st.sampled_from(["auto", 2]),
        "recompute": st.sampled_from(["none", "full", {"modules": ["mlp"]}]),
        "grad_compression": st.sampled_from(["none", "topk(1%)", "local-sgd(16)"]),
        "sharding": st.fixed_dictionaries({"group": st.sampled_from(["all", "node", 16])}),
    },
)
ACQUIRE = st.sampled_from(
    [
        None,
        {"own": {"price": "40000 USD/GPU", "lead_time": "14 weeks"}},
        {"own": {"price": "300000 USD/node"}},
        {"rent": {"price": "2.5 USD/GPU-h", "term": "spot"}},
        {"rent": {"price": "98 USD/h"}},
    ],
)
SCENARIOS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["m", {"layers": 2, "hidden": 8, "heads": 2, "ffn": 16, "vocab": 100}]),
        "cluster": st.fixed_dictionaries(
            {
                "node": st.sampled_from(["n", {"gpu": "h100", "gpus": 8, "nics": "8x 400 Gbit/s", "ram": "2 TiB"}]),
                "nodes": COUNTS,
                "background": st.sampled_from([[], [{"from": "storage", "rate": "20 GB/s"}]]),
            },
        ),
    },
    optional={"training": TRAINING, "acquire": ACQUIRE, "use": st.just({"horizon": "4 years"})},
)


@settings(deadline=None)
@given(SCENARIOS)
def test_plain_data_reads_back_the_same(data):
    scenario = Scenario.model_validate(data)
    plain = to_dict(scenario)
    again = from_dict(json.loads(json.dumps(plain, allow_nan=False)))
    assert again == scenario
    assert digest(again) == digest(scenario)
    assert list(to_dict(again)) == list(plain)


def test_digest_sees_values_and_not_their_spelling():
    text = "model: m\ncluster: {node: a, nodes: 2}\nuse: {horizon: %s}\n"
    days = digest(load_text(text % "365.25 days").scenario)
    assert re.fullmatch("[0-9a-f]{64}", days)
    assert days == digest(load_text(text % "1 year").scenario)
    assert days == digest(load_text("training: {precision: bf16}\n" + text % "1 year").scenario)
    assert days != digest(load_text(text % "2 years").scenario)


def test_what_nobody_stated_is_left_out_or_none():
    scenario = load_text("model: m\ncluster: {node: a, nodes: 2}\n").scenario
    assert "acquire" not in to_dict(scenario)
    assert to_dict(scenario, defaults=True)["acquire"] is None
    assert yaml.safe_dump(to_dict(scenario))
