"""Fair rates and fluid flows: worked examples, and what must hold for any links and flows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.flows import Fluid, max_min_rates, simulate_flows, symmetric_classes
from simcluster.program.wiring import Flow

LINKS = [10.0, 6.0, 8.0]
PATHS = [[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]]
SIZES = [30.0, 28.0, 15.0, 60.0]


def path(row):
    return tuple((link, float(used)) for link, used in enumerate(row) if used)


@st.composite
def networks(draw):
    """Capacities, usage, weights, limits; every flow uses some link."""
    links = draw(st.integers(1, 5))
    flows = draw(st.integers(1, 8))
    capacity = draw(st.lists(st.floats(0.5, 100.0), min_size=links, max_size=links))
    used = st.sampled_from([0.0, 0.0, 0.5, 1.0, 2.0])
    usage = draw(st.lists(st.lists(used, min_size=links, max_size=links), min_size=flows, max_size=flows))
    for row in usage:
        if not any(row):
            row[draw(st.integers(0, links - 1))] = 1.0
    weight = draw(st.lists(st.sampled_from([0.2, 1.0, 3.0]), min_size=flows, max_size=flows))
    limit = draw(st.lists(st.sampled_from([math.inf, 5.0, 0.3]), min_size=flows, max_size=flows))
    return np.array(capacity), np.array(usage), np.array(weight), np.array(limit)


def test_four_flows_on_three_links():
    assert max_min_rates(LINKS, PATHS).tolist() == [3, 7, 3, 5]


def test_a_flush_and_a_ring_share_a_card_by_weight():
    both = [[1.0], [1.0]]
    assert max_min_rates([50e9], both).tolist() == [25e9, 25e9]
    assert max_min_rates([50e9], both, [0.2, 1.0]) == pytest.approx([8.3333333e9, 41.6666667e9], rel=1e-7)


def test_four_flows_end_and_the_others_take_their_place():
    run = simulate_flows(LINKS, [Flow(size, path(row)) for size, row in zip(SIZES, PATHS)])
    assert run.ends_s == pytest.approx([7.5, 4.0, 5.0, 9.375], rel=1e-12)
    rates = {time: rates for time, rates in run.history if rates}
    assert rates[0.0] == {0: 3, 1: 7, 2: 3, 3: 5}
    assert rates[4.0] == {0: 3, 2: 3, 3: 5}
    assert rates[5.0] == {0: 6, 3: 8}
    assert rates[7.5] == {3: 8}


@given(networks())
def test_no_link_is_full_beyond_capacity_and_every_flow_has_a_bottleneck(network):
    capacity, usage, weight, limit = network
    rates = max_min_rates(*network)
    load = rates @ usage
    assert (load <= capacity * (1 + 1e-9)).all()
    level = rates / weight
    for flow, used in enumerate(usage):
        at_limit = rates[flow] >= limit[flow] * (1 - 1e-9)
        full = np.flatnonzero((used > 0) & (load >= capacity * (1 - 1e-9)))
        largest = any(level[flow] >= level[usage[:, link] > 0].max() * (1 - 1e-9) for link in full)
        assert at_limit or largest


@given(networks(), st.randoms(use_true_random=False))
def test_order_and_symmetry_do_not_matter(network, random):
    capacity, usage, weight, limit = network
    rates = max_min_rates(*network)
    order = list(range(len(usage)))
    random.shuffle(order)
    assert max_min_rates(capacity, usage[order], weight[order], limit[order]) == pytest.approx(rates[order], rel=1e-9)
    _, member, count = symmetric_classes(usage, weight, limit)
    assert count.sum() == len(usage)
    for kind in range(len(count)):
        assert np.ptp(rates[member == kind]) == 0


@given(networks(), st.lists(st.floats(0.0, 5.0), min_size=8, max_size=8), st.floats(0.1, 50.0))
def test_bytes_are_conserved_and_no_flow_beats_its_links(network, arrivals, size):
    capacity, usage, weight, limit = network
    sizes = [size * (1 + number) for number in range(len(usage))]
    rows = zip(sizes, usage, weight, limit)
    flows = [Flow(one, path(row), 0.1, float(w), float(cap)) for one, row, w, cap in rows]
    run = simulate_flows(capacity.tolist(), flows, arrivals[: len(flows)])
    assert run.carried == pytest.approx(np.array(sizes) @ usage, rel=1e-9, abs=1e-5)
    integral = np.zeros(len(capacity))
    for (start, rates), (end, _) in zip(run.history, run.history[1:]):
        load = sum((rate * usage[number] for number, rate in rates.items()), np.zeros(len(capacity)))
        assert (load <= capacity * (1 + 1e-9)).all()
        integral += load * (end - start)
    assert integral == pytest.approx(run.carried, rel=1e-6, abs=1e-5)
    assert run.ends_s.max() >= (np.array(sizes) @ usage / capacity).max() * (1 - 1e-9)
    for flow, arrival, end in zip(flows, arrivals, run.ends_s):
        fastest = min([flow.limit_bytes_per_s, *(capacity[link] / used for link, used in flow.path)])
        assert end >= arrival + flow.latency_s + flow.bytes / fastest - 1e-9


@given(networks(), st.floats(0.25, 8.0))
def test_faster_links_shorten_all_ends_alike(network, factor):
    capacity, usage, weight, _ = network
    flows = [Flow(10.0 + number, path(row), weight=float(w)) for number, (row, w) in enumerate(zip(usage, weight))]
    slow = simulate_flows(capacity.tolist(), flows).ends_s
    fast = simulate_flows((capacity * factor).tolist(), flows).ends_s
    assert fast * factor == pytest.approx(slow, rel=1e-6)


def test_a_flow_alone_pays_latency_and_its_slowest_link():
    assert simulate_flows([10.0, 4.0], [Flow(8.0, ((0, 1.0), (1, 0.5)), 0.25)], [1.0]).ends_s[0] == 1.25 + 1.0


def test_a_link_that_fails_stops_its_flows_until_it_is_back():
    flows = [Flow(10.0, ((0, 1.0),)), Flow(10.0, ((1, 1.0),))]
    run = simulate_flows([1.0, 1.0], flows, changes=[(4.0, 0, 0.0), (9.0, 0, 2.0)])
    assert run.ends_s.tolist() == [12.0, 10.0]
    assert simulate_flows([1.0], flows[:1], changes=[(4.0, 0, 0.0)]).ends_s[0] == math.inf


def test_flows_on_other_links_are_left_alone():
    fluid = Fluid([1.0, 1.0])
    fluid.start(0, Flow(5.0, ((0, 1.0),)), 0.0)
    assert fluid.start(1, Flow(5.0, ((1, 1.0),)), 1.0) == [(1, 6.0)]


def test_a_flow_without_links_or_bytes_takes_no_time():
    assert simulate_flows([0.0], [Flow(5.0), Flow(0.0, ((0, 1.0),), 0.5)]).ends_s.tolist() == [0.0, 0.5]
