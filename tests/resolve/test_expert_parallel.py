"""Expert parallelism: degrees, groups, and how many copies of a token cross between nodes."""

import itertools
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.resolve.expert_parallel import expert_copies, expert_groups
from simcluster.shapes import Architecture, GroupShape
from simcluster.timing.software import SoftwareFamily

MOE = "model={experts: 8, top_k: 2, expert_ffn: 1024}"
DEDUPLICATING = SoftwareFamily("x", dispatcher="deepep")


def arch(experts, top_k):
    return Architecture("any", 1, 64, 4, 4, 16, 256, 100, experts=experts, top_k=top_k, expert_ffn=64)


@pytest.mark.parametrize(("nodes", "copies"), [(8, 5.2947), (4, 3.6142)])
def test_distinct_nodes_of_256_experts(nodes, copies):
    """E[distinct nodes] of 8 experts of 256 is 5.2947 on 8 nodes, 3.6142 on 4."""
    share = expert_copies(arch(256, 8), DEDUPLICATING, GroupShape(8 * nodes, nodes, 1), 8 * nodes)
    assert share * 8 == pytest.approx(copies, abs=5e-5)


@given(st.integers(2, 4), st.integers(1, 3), st.data())
def test_copies_counted_one_choice_at_a_time(nodes, held, data):
    """Over all choices of k experts: other nodes among them, over experts that lie on other nodes."""
    experts = nodes * held
    top_k = data.draw(st.integers(1, min(experts, 4)))
    others = experts_away = 0
    for choice in itertools.combinations(range(experts), top_k):
        places = [expert // held for expert in choice]
        others += len({place for place in places if place})
        experts_away += sum(place > 0 for place in places)
    assert others <= experts_away <= top_k * comb(experts, top_k)
    expected = others / experts_away
    found = expert_copies(arch(experts, top_k), DEDUPLICATING, GroupShape(2 * nodes, nodes, 1), 2 * nodes)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("dispatcher", "group", "ep"),
    [("all-to-all", GroupShape(16, 2, 1), 16), ("deepep", GroupShape(8, 1, 1), 8), ("deepep", GroupShape(1), 1)],
)
def test_every_copy_crosses_otherwise(dispatcher, group, ep):
    assert expert_copies(arch(64, 6), SoftwareFamily("x", dispatcher=dispatcher), group, ep) == 1.0


@pytest.mark.parametrize(
    ("ep", "etp", "expected"),
    [
        (8, 1, {"ep": GroupShape(8, 1, 1), "etp": GroupShape(1, 1, 1)}),
        (4, 2, {"ep": GroupShape(4, 1, 1), "etp": GroupShape(2, 1, 1)}),
        (16, 1, {"ep": GroupShape(16, 2, 1), "etp": GroupShape(1, 1, 1)}),
        (8, 2, {"ep": GroupShape(8, 2, 2), "etp": GroupShape(2, 1, 1)}),
        (4, 8, {"ep": GroupShape(4, 4, 8), "etp": GroupShape(8, 1, 1)}),
    ],
)
def test_ranks_of_an_expert_are_neighbours(ep, etp, expected):
    assert expert_groups(ep, etp, 64, 8, 8) == expected


def test_a_rack_is_one_domain():
    assert expert_groups(64, 1, 72, 72, 4)["ep"] == GroupShape(64, 1, 1)


@pytest.mark.parametrize(
    ("plan", "ep", "etp"),
    [
        ("{tp: 1, pp: 1, ep: 8}", 8, 1),
        ("{tp: 2, pp: 1, ep: 8}", 8, 2),  # 16 ranks hold 8 x 2
        ("{tp: 4, pp: 1, ep: 8}", 8, 1),  # 8 x 4 = 32 do not fit: experts stay whole
        ("{tp: 4, pp: 1, ep: 2, etp: 1}", 2, 1),
        ("{tp: 1, pp: 1}", 1, 1),
    ],
)
def test_degrees(settle, plan, ep, etp):
    layout = settle(MOE, f"training.parallelism={plan}", "training.micro_batch=1").layout
    assert (layout.ep, layout.etp) == (ep, etp)


def test_an_unstated_degree_is_listed(settle):
    resolved = settle(MOE, "training.parallelism={tp: 2, pp: 1, ep: 4}", "training.micro_batch=1")
    assert "training.parallelism.etp" in {one.path for one in resolved.assumptions}


@pytest.mark.parametrize(
    ("plan", "rule", "ep", "etp"),
    [
        ("{tp: 2, pp: 1}", "one", 1, 2),
        ("{tp: 2, pp: 1}", "all", 8, 2),  # 16 ranks and 8 experts share 8
        ("{tp: 2, pp: 4}", "all", 4, 1),  # 4 ranks of a stage
        ("{tp: 4, pp: 1, etp: 4}", "all", 4, 4),
        ("{tp: 2, pp: 1, ep: 2}", "all", 2, 2),
    ],
)
def test_an_unstated_ep_is_the_softwares(settle, plan, rule, ep, etp):
    sets = (f"training.parallelism={plan}", "training.micro_batch=1", f"training.software.overrides.default_ep={rule}")
    resolved = settle(MOE, *sets)
    assert (resolved.layout.ep, resolved.layout.etp) == (ep, etp)
    assumed = {one.path: one.value for one in resolved.assumptions}
    assert assumed.get("training.parallelism.ep") == (None if "ep: 2" in plan else ep)


TENSOR = "training.parallelism={tp: 4, pp: 1, ep: %d, etp: %s, sequence_parallel: %s}"


@pytest.mark.parametrize(
    ("ep", "etp", "advice"),
    [(8, "null", "set it true"), (8, 1, "set it true"), (2, 1, "set it true, or etp: 4"), (2, 2, "or etp: 4")],
)
def test_experts_behind_tensor_ranks_need_sequence_parallelism(settle, refused, ep, etp, advice):
    (problem,) = refused(MOE, TENSOR % (ep, etp, "false"), "training.micro_batch=1")
    assert f"sequence_parallel: false with tp 4 and etp {etp if etp != 'null' else 1}: all ranks" in problem
    assert problem.endswith(advice)
    assert settle(MOE, TENSOR % (ep, etp, "true"), "training.micro_batch=1").layout.sequence_parallel


def test_whole_tensor_groups_and_open_plans_need_none(settle):
    assert settle(MOE, TENSOR % (2, 4, "false"), "training.micro_batch=1").layout.etp == 4
    old = "training.software.overrides.sequence_parallel=false"  # assumed, not stated
    assert not settle(MOE, TENSOR % (8, 1, "null"), old, "training.micro_batch=1").layout.sequence_parallel


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ([MOE, "training.parallelism={tp: 1, pp: 1, ep: 3}"], "3 does not divide 8 experts"),
        ([MOE, "training.parallelism={tp: 1, pp: 4, ep: 8}"], "8 x etp 1 does not divide tp 1 x cp 1 x dp 4 = 4"),
        (["training.parallelism={tp: 1, pp: 1, ep: 2}"], "has no experts"),
    ],
)
def test_what_cannot_be_is_said(refused, sets, words):
    found = refused(*sets, "training.micro_batch=1")
    assert any(words in problem for problem in found), found


def test_experts_that_share_a_node_cost_less(run):
    """The same layer with its experts inside a node and over two: only the second crosses the fabric."""
    change = {"experts": 16, "top_k": 4, "expert_ffn": 1024}
    inside, across = (
        run({"model": change, "training": {"parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None, "ep": ep}}})
        for ep in (8, 16)
    )
    lost = [dict(one.waterfall.items())["expert_context_parallel"] for one in (inside, across)]
    assert 0 < 2 * lost[0] < lost[1]
