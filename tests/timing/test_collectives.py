"""Collective times: closed forms, physical ceilings, monotony, evidence, speed of loading."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.data import data_root
from simcluster.errors import InputError
from simcluster.shapes import GroupShape, NetworkRates
from simcluster.timing.collective_evidence import fabric_path, scale_up_path, stand
from simcluster.timing.collective_lines import (
    Span,
    alltoall_lines,
    group_nic_bytes_per_s,
    ring_lines,
    tree_wire_factor,
)
from simcluster.timing.collective_profile import PAYLOAD, load_collective_profile, parse_collective_profile
from simcluster.timing.collectives import collective_plan, collective_time

PROFILE = load_collective_profile()
MIB = 1 << 20

DGX_A100 = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-hdr-200", "ib", 25e9, 8)
DGX_H100 = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "ib-ndr-400", "ib", 50e9, 8)
H200 = NetworkRates("h200-141gb-sxm", "nvlink4", 450e9, 8, 8, "roce-400", "roce", 50e9, 8)
P4D = NetworkRates("a100-40gb-sxm", "nvlink3", 300e9, 8, 8, "efa-v1", "efa", 12.5e9, 4)
P5 = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "efa-v2", "efa", 12.5e9, 32)
P6 = NetworkRates("b200-sxm", "nvlink5", 900e9, 8, 8, "efa-v4", "efa", 50e9, 8)
ROCE_200 = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "roce-200", "roce", 25e9, 8)
TCP = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "tcp", "tcp", 12.5e9, 1)
NVL72 = NetworkRates("gb200", "nvlink5-mnnvl", 900e9, 72, 4, "ib-ndr-400", "ib", 50e9, 4)
L40S = NetworkRates("l40s", "pcie4", 32e9, 8, 8, "roce-200", "roce", 25e9, 2)
MI300X = NetworkRates("mi300x", "xgmi", 448e9, 8, 8, "roce-400", "roce", 50e9, 8)
OMNIPATH = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 4, 4, "opa-100", "opa", 12.5e9, 4)
SLINGSHOT = NetworkRates("a100-40gb-sxm", "nvlink3-mesh-4", 300e9, 4, 4, "slingshot-11", "slingshot", 25e9, 2)
NETWORKS = [DGX_A100, DGX_H100, H200, P4D, P5, P6, ROCE_200, TCP, NVL72, L40S, MI300X, OMNIPATH, SLINGSHOT]
KINDS = ["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"]

networks = st.sampled_from(NETWORKS)
kinds = st.sampled_from(KINDS)
sizes = st.floats(1, 64e9)


@st.composite
def groups(draw, most_domains=512):
    local = draw(st.sampled_from([1, 2, 4]))
    domains = draw(st.integers(1, most_domains))
    return GroupShape(local * domains, domains, draw(st.sampled_from([1, 2, 4, 8])))


def seconds(network, kind, size, group, **keywords):
    return collective_time(PROFILE, network, kind, size, group, **keywords).seconds


def busbw(network, kind, size, group):
    n = group.ranks
    factor = {"all_reduce": 2 * (n - 1) / n, "sendrecv": 1.0}.get(kind, (n - 1) / n)
    return factor * size / seconds(network, kind, size, group)


@pytest.mark.parametrize(
    ("network", "kind", "group", "low", "high"),
    [
        (DGX_A100, "all_reduce", GroupShape(8), 215e9, 240e9),  # stated by NVIDIA: 232
        (DGX_H100, "all_reduce", GroupShape(8), 440e9, 490e9),  # NVLS: 480
        (P6, "all_reduce", GroupShape(8), 690e9, 850e9),  # NVLS: 840
        (DGX_A100, "all_reduce", GroupShape(32, 4), 170e9, 195e9),  # stated: 192
        (DGX_H100, "all_reduce", GroupShape(32, 4), 345e9, 390e9),  # stated: 370 to 380
        (DGX_H100, "all_reduce", GroupShape(16, 2), 420e9, 495e9),  # two nodes beat the ring over the cards
        (DGX_H100, "alltoall", GroupShape(32, 4), 48e9, 68e9),  # the cards carry 24 of 31 parts
        (NVL72, "all_reduce", GroupShape(72), 780e9, 930e9),  # 840 (GB200) to 930 (GB300) measured
        (P4D, "all_reduce", GroupShape(32, 4), 26e9, 50e9),
        (TCP, "all_reduce", GroupShape(16, 2), 0.5e9, 12.5e9),
    ],
)
def test_large_buffers_reach_the_known_bus_bandwidths(network, kind, group, low, high):
    assert low < busbw(network, kind, 8e9, group) < high


@pytest.mark.parametrize(
    ("network", "kind", "group", "known_s"),
    [
        (DGX_H100, "all_reduce", GroupShape(8), 16e-6),
        (DGX_H100, "all_gather", GroupShape(8), 10.8e-6),
        (DGX_A100, "all_reduce", GroupShape(8), 22e-6),
        (P6, "all_reduce", GroupShape(8), 26.5e-6),
        (DGX_H100, "all_reduce", GroupShape(32, 4), 41e-6),
        (P5, "all_reduce", GroupShape(16, 2), 69e-6),
    ],
)
def test_small_buffers_cost_the_measured_latency(network, kind, group, known_s):
    assert seconds(network, kind, 4096.0, group) == pytest.approx(known_s, rel=0.25)


def test_ring_follows_the_alpha_beta_form():
    up = dataclasses.replace(
        PROFILE.scale_up["nvlink4"],
        ring_base_s=(0.0, 0.0, 0.0),
        ring_hop_s=(3.4e-6,) * 3,
        ring_efficiency=(1.0, 1.0, 1.0),
        ring_copy=math.inf,
    )
    line = ring_lines(Span(8, 1, up, 360e9), passes=2)[2]
    assert line.alpha_s + line.beta_s_per_byte * 1e9 == pytest.approx(4.90871e-3, rel=1e-5)
    gather = ring_lines(Span(8, 1, up, 360e9), passes=1)[2]
    assert gather.alpha_s + gather.beta_s_per_byte * 201_326_592 == pytest.approx(513.135e-6, rel=1e-5)


def test_alltoall_on_several_domains_is_limited_by_its_remote_share():
    fabric = dataclasses.replace(PROFILE.fabrics["ib-ndr-400"], alltoall_efficiency=(1.0, 1.0))
    up = dataclasses.replace(PROFILE.scale_up["nvlink4"], alltoall_copy=math.inf)
    line = alltoall_lines(Span(16, 2, up, 450e9, fabric, 400e9))[1]
    assert 15 / 16 / line.beta_s_per_byte == pytest.approx(15 / 8 * 50e9)  # busbw = (n-1)/(n-r) of a card


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("protocol", ["ll", "ll128", "simple"])
def test_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather(network, protocol):
    group = GroupShape(4 * 16, 16)
    both = [
        seconds(network, kind, 1e8, group, algorithm=f"ring/{protocol}") for kind in ("reduce_scatter", "all_gather")
    ]
    base = fabric_path(PROFILE, network).ring_base_s[["ll", "ll128", "simple"].index(protocol)]
    assert seconds(network, "all_reduce", 1e8, group, algorithm=f"ring/{protocol}") == pytest.approx(sum(both) - base)


@given(networks, kinds, groups(), st.lists(sizes, min_size=2, max_size=8))
@settings(max_examples=150, deadline=None)
def test_more_bytes_never_take_less_time(network, kind, group, drawn):
    times = seconds(network, kind, np.sort(np.array(drawn)), group)
    assert (np.diff(times) >= 0).all()


@given(
    networks,
    st.sampled_from(["all_reduce", "all_gather", "alltoall", "broadcast"]),
    st.sampled_from([1, 2, 4]),
    sizes,
    st.data(),
)
@settings(max_examples=150, deadline=None)
def test_more_domains_never_take_less_time(network, kind, local, size, data):
    few, many = sorted((data.draw(st.integers(2, 3000)), data.draw(st.integers(2, 3000))))
    pair = GroupShape(local * few, few), GroupShape(local * many, many)
    for algorithm in ("ring", "tree") if kind == "all_reduce" else (None,):
        times = [seconds(network, kind, size, group, algorithm=algorithm) for group in pair]
        assert times[0] <= times[1] * (1 + 1e-12)


@given(networks, st.sampled_from(["all_reduce", "all_gather", "alltoall"]), sizes, st.integers(2, 8), st.integers(2, 8))
@settings(max_examples=150, deadline=None)
def test_more_ranks_in_a_domain_never_take_less_time(network, kind, size, one, other):
    few, many = sorted((one, other))
    assert seconds(network, kind, size, GroupShape(few)) <= seconds(network, kind, size, GroupShape(many)) * (1 + 1e-12)


@pytest.mark.parametrize(("low", "middle", "high"), [(16, 24, 32), (64, 96, 128), (2048, 3072, 4096)])
@pytest.mark.parametrize("size", [4096.0, 1e6, 1e9])
def test_sizes_of_group_without_logs_lie_between_their_neighbours(low, middle, high, size):
    times = [seconds(DGX_H100, "all_reduce", size, GroupShape(n, n // 8)) for n in (low, middle, high)]
    assert times == sorted(times)


@given(networks, kinds, groups(), sizes, st.integers(1, 8))
@settings(max_examples=150, deadline=None)
def test_more_sharers_are_never_faster(network, kind, group, size, extra):
    shared = dataclasses.replace(group, sharers=group.sharers + extra)
    assert seconds(network, kind, size, shared) >= seconds(network, kind, size, group)


@given(networks, kinds, groups(), sizes, st.floats(1, 4))
@settings(max_examples=150, deadline=None)
def test_a_faster_card_is_never_slower(network, kind, group, size, factor):
    faster = dataclasses.replace(network, nic_bytes_per_s=factor * network.nic_bytes_per_s)
    assert seconds(faster, kind, size, group) <= seconds(network, kind, size, group)


@given(networks, kinds, sizes)
@settings(max_examples=40, deadline=None)
def test_one_rank_costs_nothing(network, kind, size):
    assert seconds(network, kind, size, GroupShape(1)) == 0


@given(networks, kinds, groups().filter(lambda g: g.ranks > 1), sizes)
@settings(max_examples=300, deadline=None)
def test_no_link_carries_more_than_its_line_rate(network, kind, group, size):
    """Wire bytes of the cards of a domain, and of a GPU's scale-up link, over the time."""
    plan = collective_plan(PROFILE, network, kind, group)
    n, local = group.ranks, group.ranks / group.domains
    for line in plan.lines:
        payload = PAYLOAD[["ll", "ll128", "simple"].index(line.protocol)]
        took = line.alpha_s + line.beta_s_per_byte * size
        passes = 2 if kind == "all_reduce" else 1
        share = 1.0 if kind in ("sendrecv", "broadcast") else 1 - 1 / n
        if line.algorithm in ("tree", "nvls-tree"):
            card_bytes, gpu_bytes = (
                tree_wire_factor(group.domains) * size,
                (2 if line.algorithm == "tree" else 1) * size,
            )
        elif kind == "alltoall":
            card_bytes, gpu_bytes = local * (n - local) / n * size, (local - 1) / n * size
        elif line.algorithm == "nvls":
            card_bytes, gpu_bytes = 0.0, size * (1 + 1 / n if kind == "all_reduce" else share)
        else:
            card_bytes = gpu_bytes = passes * share * size
        if group.domains > 1:
            lot = GroupShape(2, 2, group.sharers) if kind == "sendrecv" else group
            assert card_bytes / payload / took <= group_nic_bytes_per_s(network, lot) * (1 + 1e-9)
        if local > 1 and not (kind == "sendrecv" and group.domains > 1):
            assert gpu_bytes / payload / took <= network.scale_up_bytes_per_s * (1 + 1e-9)
    assert plan.lines


@pytest.mark.parametrize(
    ("network", "group", "expected"),
    [
        (DGX_H100, GroupShape(64, 8), 400e9),
        (DGX_H100, GroupShape(8, 8, sharers=8), 50e9),
        (DGX_H100, GroupShape(8, 8, sharers=1), 50e9),  # alone, but next to one card only
        (DGX_H100, GroupShape(16, 8, sharers=4), 100e9),
        (P4D, GroupShape(8, 8, sharers=8), 6.25e9),  # two GPUs to a card
        (P5, GroupShape(8, 8, sharers=8), 50e9),  # four cards to a GPU
        (dataclasses.replace(DGX_H100, oversubscription=2.0), GroupShape(64, 8), 200e9),
        (NVL72, GroupShape(144, 2), 3.6e12),
        (NVL72, GroupShape(2, 2, sharers=4), 50e9),
    ],
)
def test_cards_of_a_group(network, group, expected):
    assert group_nic_bytes_per_s(network, group) == pytest.approx(expected)


def test_grades_say_what_the_time_rests_on():
    def grade(network, group, kind="all_reduce"):
        return collective_time(PROFILE, network, kind, 1e8, group).grade

    assert grade(DGX_H100, GroupShape(64, 8)) == 0
    assert grade(DGX_H100, GroupShape(8, 8, sharers=8)) == 1  # sharing is composed, not logged
    assert grade(DGX_H100, GroupShape(64, 8), "broadcast") == 2
    assert grade(DGX_A100, GroupShape(16, 2)) == 1  # logged with the same fabric on another GPU
    assert grade(DGX_A100, GroupShape(512, 64)) == 2  # far beyond those logs
    assert grade(ROCE_200, GroupShape(64, 8)) == 2
    assert grade(OMNIPATH, GroupShape(64, 16)) == 3
    assert grade(dataclasses.replace(DGX_H100, oversubscription=2.0), GroupShape(64, 8)) == 2
    assert stand(PROFILE, ROCE_200, "all_reduce", GroupShape(64, 8)).stand_in == "roce-400"


def test_sigma_grows_with_the_grade():
    sigmas = [
        collective_time(PROFILE, net, "all_reduce", 1e8, GroupShape(64, 8)).sigma
        for net in (DGX_H100, ROCE_200, OMNIPATH)
    ]
    assert sigmas == sorted(sigmas)
    assert 0.03 <= sigmas[0] < 0.2


def test_arrays_agree_with_scalars_and_keep_their_shape():
    sizes = np.geomspace(1, 1e10, 24).reshape(4, 6)
    group = GroupShape(64, 8)
    table = collective_time(PROFILE, DGX_H100, "all_reduce", sizes, group)
    assert table.seconds.shape == table.sigma.shape == table.bound.shape == (4, 6)
    for index in np.ndindex(4, 6):
        one = collective_time(PROFILE, DGX_H100, "all_reduce", float(sizes[index]), group)
        assert table.seconds[index] == pytest.approx(one.seconds, rel=1e-14)
        assert (table.bound[index], table.sigma[index]) == (one.bound, one.sigma)
    assert table.bound[0, 0] == "latency"
    assert table.bound[-1, -1] == "bandwidth"


def test_a_message_between_nodes_uses_one_gpus_cards():
    for network, rate in ((DGX_H100, 50e9), (P5, 50e9), (P4D, 12.5e9)):
        assert 0.84 * rate < busbw(network, "sendrecv", 4e9, GroupShape(2, 2)) < 0.96 * rate
    shared = busbw(P4D, "sendrecv", 4e9, GroupShape(2, 2, sharers=8))
    assert shared < 0.96 * 4 * 12.5e9 / 8
    assert busbw(DGX_H100, "sendrecv", 4e9, GroupShape(2)) > 330e9


@pytest.mark.parametrize(
    ("change", "group", "kind", "algorithm", "words"),
    [
        ({}, GroupShape(8, 9), "all_reduce", None, "domains"),
        ({}, GroupShape(0), "all_reduce", None, "at least 1"),
        ({"fabric": "none", "nic_bytes_per_s": 0.0}, GroupShape(16, 2), "all_reduce", None, "fabric"),
        ({}, GroupShape(8), "gossip", None, "all_reduce, all_gather"),
        ({}, GroupShape(8), "all_reduce", "butterfly", "use one of ring"),
    ],
)
def test_impossible_groups_are_input_errors(change, group, kind, algorithm, words):
    with pytest.raises(InputError, match=words):
        collective_time(PROFILE, dataclasses.replace(DGX_H100, **change), kind, 1.0, group, algorithm=algorithm)


def test_negative_sizes_are_input_errors():
    for size in (-1.0, np.array([1.0, -1.0]), math.nan):
        with pytest.raises(InputError):
            collective_time(PROFILE, DGX_H100, "all_reduce", size, GroupShape(8))


def test_an_unknown_link_takes_its_family_and_says_so():
    newer = dataclasses.replace(DGX_H100, gpu="next", scale_up="nvlink6", scale_up_bytes_per_s=1.8e12)
    assert scale_up_path(PROFILE, newer).id.startswith("nvlink5")
    assert collective_time(PROFILE, newer, "all_reduce", 1e9, GroupShape(8)).grade == 2


def test_profile_errors_name_the_place():
    text = (data_root("calibration") / "profiles" / "collectives.yaml").read_text(encoding="utf-8")
    broken = text.replace("  ring_copy:", "  ring_cpy:", 1).replace("p2p_efficiency: 0.", "p2p_efficiency: 7.", 1)
    with pytest.raises(InputError) as caught:
        parse_collective_profile(broken, "mine.yaml")
    assert len(caught.value.problems) >= 3
    assert "mine.yaml:" in str(caught.value)
    assert "ring_cpy" in str(caught.value)
    with pytest.raises(InputError, match=r"mine.yaml:\d"):
        parse_collective_profile("a: [1", "mine.yaml")
    with pytest.raises(InputError, match="format"):
        parse_collective_profile("a: 1", "mine.yaml")
