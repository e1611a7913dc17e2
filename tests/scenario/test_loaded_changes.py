"""Changes of a loaded scenario by its own methods."""

from __future__ import annotations

import pytest

from simcluster.errors import InputError, UsageError
from simcluster.scenario import load_text

TEXT = """
name: job
model: llama-7b
cluster: {node: dgx-h100, nodes: 4, fabric: ib-ndr-400}
what_ifs: {roce: {cluster.fabric: roce-200}}
"""
LOADED = load_text(TEXT, "a.yaml")


def test_a_named_what_if_and_its_content_written_out_are_the_same():
    named, mapped, worded = (
        LOADED.what_if("roce"),
        LOADED.what_if({"cluster.fabric": "roce-200"}),
        LOADED.what_if(cluster__fabric="roce-200"),
    )
    assert named.scenario == mapped.scenario == worded.scenario != LOADED.scenario
    assert str(named.origins["cluster.fabric"]) == "what_if roce"
    assert str(mapped.origins["cluster.fabric"]) == "what_if fabric=roce-200"
    assert str(mapped.origins["cluster.nodes"]).startswith("a.yaml:4")


def test_changes_add_up_and_name_the_result():
    changed = LOADED.what_if("roce", cluster__nodes=8).set("training.micro_batch=2", "training.global_batch=64")
    assert (changed.scenario.cluster.fabric, changed.scenario.cluster.nodes) == ("roce-200", 8)
    assert changed.scenario.training.micro_batch == 2
    assert set(changed.name.split(", ")) == {
        "job", "roce", "nodes=8", "training.micro_batch=2", "training.global_batch=64",
    }  # fmt: skip
    assert LOADED.name == "job"


def test_a_mapping_is_named_as_in_yaml():
    fabric = {"protocol": "roce", "link": "200 Gbit/s"}
    assert LOADED.what_if(cluster__fabric=fabric).name == "job, fabric={protocol: roce, link: 200 Gbit/s}"


def test_no_change_is_the_scenario_itself():
    assert LOADED.what_if() is LOADED
    assert LOADED.set().scenario == LOADED.scenario


def test_mistakes_are_input_errors_with_advice():
    with pytest.raises(InputError, match="roce"):
        LOADED.what_if("rocee")
    with pytest.raises(InputError, match="fabric"):
        LOADED.what_if(cluster__fabrik="roce-200")
    with pytest.raises(UsageError, match=r"dotted\.path=value"):
        LOADED.set("micro_batch")
