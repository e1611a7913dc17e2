"""Layouts: stated ones stay, absent ones are chosen and said so, `same_layout` gives all that of the first."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.evaluation import evaluate
from simcluster.scenario import load_mapping, to_dict
from simcluster.study import compare, settled
from simcluster.study.layouts import layout_changes, layout_words, with_layout

FOLLOWS = ("dp", "micro_batches", "sequences", "shards")  # from GPUs and batch


@pytest.fixture(scope="module")
def load(run):
    base = to_dict(run().resolved.scenario)
    return lambda *sets: load_mapping(base, sets=sets)


def _plan(layout):
    return replace(layout, **dict.fromkeys(FOLLOWS, 0))


def test_a_stated_layout_is_not_touched(load, catalogue):
    loaded = load()
    assert settled(loaded, catalogue).resolved.layout == evaluate(loaded, catalogue).resolved.layout
    assert "training.parallelism" not in {one.path for one in settled(loaded, catalogue).assumptions}


@pytest.mark.parametrize("absent", ["training.parallelism=auto", "training.parallelism=null"])
def test_an_absent_one_is_chosen_and_said_so(load, catalogue, absent):
    found = settled(load(absent, "training.micro_batch=null"), catalogue)
    (chosen,) = [one for one in found.assumptions if one.path == "training.parallelism"]
    layout = found.resolved.layout
    assert found.memory.fits
    for axis in ("tp", "pp", "dp"):
        assert f"{axis} {getattr(layout, axis)}" in chosen.value
    assert chosen.value == layout_words(layout)
    assert chosen.why.startswith("chosen: the fastest of ")


def test_the_chosen_one_is_no_slower_than_a_stated_one(load, catalogue):
    best = settled(load("training.parallelism=auto", "training.micro_batch=null"), catalogue)
    assert best.step.time_s <= settled(load(), catalogue).step.time_s * (1 + 1e-9)


def test_what_is_stated_stays(load, catalogue):
    found = settled(load("training.parallelism=auto", "training.micro_batch=2", "training.recompute=full"), catalogue)
    assert found.resolved.layout.micro_batch == 2
    assert found.resolved.layout.recompute == "full"
    assert not {"training.micro_batch", "training.recompute"} & {one.path for one in found.assumptions}


LAYOUTS = st.sampled_from(
    [
        {"tp": 1, "pp": 1},
        {"tp": 8, "pp": 1, "sequence_parallel": True},
        {"tp": 2, "pp": 4, "virtual_stages": 2},
        {"tp": 4, "pp": 2, "schedule": "gpipe"},
        {"tp": 1, "pp": 2, "cp": 2},
    ]
)
RECOMPUTE = st.sampled_from(["none", "selective", "full", "{modules: [mlp_act, layernorm]}"])


def _sets(parallelism, **more):
    text = ", ".join(f"{key}: {str(value).lower()}" for key, value in parallelism.items())
    return (f"training.parallelism={{{text}}}", *(f"training.{key}={value}" for key, value in more.items()))


@settings(max_examples=25)
@given(LAYOUTS, LAYOUTS, st.sampled_from([1, 2]), st.sampled_from(["none", "zero-1", "zero-2"]), RECOMPUTE)
def test_all_get_the_layout_of_the_first(load, catalogue, one, other, micro_batch, strategy, recompute):
    first = (*_sets(one, micro_batch=micro_batch, recompute=recompute), f"training.sharding.strategy={strategy}")
    second = (*_sets(other, global_batch=128), "cluster.nodes=4")
    layout = evaluate(load(*first), catalogue).resolved.layout
    found = compare([("a", load(*first)), ("b", load(*second))], catalogue, same_layout=True)
    a, b = (candidate.evaluation.resolved.layout for candidate in found.candidates)
    assert a == layout
    assert _plan(b) == _plan(a)
    assert b.dp == 2 * a.dp
    assert b.sequences == 128


def test_a_chosen_layout_is_shared_too(load, catalogue):
    named = [(str(nodes), load("training.parallelism=auto", f"cluster.nodes={nodes}")) for nodes in (2, 4)]
    found = compare(named, catalogue, same_layout=True)
    a, b = (candidate.evaluation.resolved.layout for candidate in found.candidates)
    assert _plan(a) == _plan(b)
    assert a == settled(named[0][1], catalogue).resolved.layout


def test_who_changed_it_is_told(load, catalogue):
    layout = evaluate(load(), catalogue).resolved.layout
    changed = with_layout(load("training.parallelism={tp: 8, pp: 1}"), layout)
    assert changed.scenario.training.parallelism.tp == 2
    assert "--same-layout" in str(changed.origins["training.parallelism.tp"])
    assert layout_changes(layout)["training.micro_batch"] == layout.micro_batch


def test_missing_prices_are_told_with_the_layout(load, catalogue):
    with pytest.raises(InputError, match="hardware_db/nodes/hgx-h20"):
        settled(
            load("training.parallelism=auto", "cluster.node=hgx-h20", "cluster.fabric=null", "acquire=own"), catalogue
        )
