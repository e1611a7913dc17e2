from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simcluster.scenario.tree import DEFAULT, Node, Origin, find, from_data, leaves, merge, nested, plain, without

LEFT, RIGHT = Origin("what_if", "left"), Origin("what_if", "right")
DATA = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3) | st.lists(inner, max_size=2),
    max_leaves=8,
)
MAPPINGS = st.dictionaries(st.sampled_from("abc"), DATA, max_size=3)


def node(data, origin=LEFT):
    return from_data(data, lambda _path: origin)


@given(MAPPINGS)
def test_plain_inverts_from_data(data):
    assert plain(node(data)) == data
    assert len(list(leaves(data))) >= len(data)


@given(MAPPINGS, MAPPINGS)
def test_merge_keeps_what_the_layer_states_and_the_rest_of_the_base(base, layer):
    merged = merge(node(base), node(layer, RIGHT))
    for path in leaves(layer):
        found, depth = find(merged, path)
        assert depth == len(path)
        value, _ = find(node(layer), path)
        if not isinstance(value.value, dict):
            assert plain(found) == plain(value)
            assert found.origin == RIGHT
    for key in set(base) - set(layer):
        assert plain(find(merged, (key,))[0]) == base[key]
    assert plain(merge(merged, node(layer))) == plain(merged)


def test_merge_addresses_items_of_a_list_only_inside_it():
    base = node({"a": [{"x": 1}, {"x": 2}]})
    assert plain(merge(base, node({"a": {"1": {"x": 9}}}))) == {"a": [{"x": 1}, {"x": 9}]}
    assert plain(merge(base, node({"a": {"2": {"x": 9}}}))) == {"a": {"2": {"x": 9}}}


def test_merge_of_named_entries_and_alternatives():
    base = node({"cluster": {"node": "dgx", "fabric": {"protocol": "ib", "tiers": 2}}, "acquire": {"rent": {"t": 1}}})
    layer = node({"cluster": {"node": {"ram": 1}, "fabric": {"tiers": 3}}, "acquire": {"own": {}}})
    merged = merge(base, layer)
    assert plain(merged) == {
        "cluster": {"node": {"base": "dgx", "ram": 1}, "fabric": {"protocol": "ib", "tiers": 3}},
        "acquire": {"own": {}},
    }
    new = {"fabric": {"protocol": "roce", "link": "1 GB/s"}, "node": {"gpu": "h100", "gpus": 4}}
    assert plain(merge(merged, node({"cluster": new})))["cluster"] == new
    other_gpu = plain(merge(merged, node({"cluster": {"node": {"gpu": "h100"}}})))["cluster"]["node"]
    assert other_gpu == {"base": "dgx", "ram": 1, "gpu": "h100"}


def test_find_without_and_nested():
    tree = node({"a": {"b": [1, 2]}, "c": None})
    assert find(tree, ("a", "x", "y"))[1] == 1
    assert plain(without(tree, ("a", "b", 0))) == {"a": {"b": [None, 2]}}
    assert plain(without(tree, ("a", "b"))) == {"a": {}}
    assert plain(without(tree, ("z",))) == {"a": {"b": [1, 2]}}
    assert "c" in without(tree, ("a",)).value
    assert plain(nested(("x", "y"), Node(3, DEFAULT))) == {"x": {"y": 3}}
