"""The event engine against max-plus and networkx, and against hand-computed contention, interference and faults."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.des import Change, simulate
from simcluster.engine.maxplus import solve
from simcluster.errors import SimclusterError
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder
from simcluster.program.step import StepShape, step_program
from simcluster.program.wiring import NO_FLOW, Flow, Wiring, no_wiring


@st.composite
def programs(draw, most=20):
    """Tasks in serial streams; lags reach back no further than the task that has them is long."""
    count, streams = draw(st.integers(1, most)), draw(st.integers(1, 4))
    durations = draw(st.lists(st.floats(0.0, 5.0), min_size=count, max_size=count))
    builder, lags, last = GraphBuilder(), [], {}
    for task in range(count):
        stream = draw(st.integers(0, streams - 1))
        after = [(last[stream], NO_LAG)] if stream in last else []
        for producer in draw(st.lists(st.integers(-1, task - 1), max_size=3)):
            lags.append(draw(st.floats(-1.0, 3.0)))
            lags[-1] = max(lags[-1], -durations[task])
            after.append((producer, len(lags) - 1))
        last[stream] = builder.add(task, stream, after)
    return builder.finish(), np.array(durations), np.array(lags)


def wired(graph, **changes):
    none = no_wiring(graph)
    names = ("links", "bytes_per_s", "flows", "transfer", "message", "carried", "extra_s", "sm_bound", "hbm_bound")
    return Wiring(**{name: changes.pop(name, getattr(none, name)) for name in names}, **changes)


def chain(*durations, streams=None):
    """Tasks one after the other."""
    builder = GraphBuilder()
    for task in range(len(durations)):
        builder.add(task, streams[task] if streams else 0, [(task - 1, NO_LAG)] if task else ())
    return builder.finish(), np.array(durations)


@given(programs())
@settings(max_examples=200, deadline=None)
def test_equals_max_plus(program):
    graph, durations, lags = program
    expected = solve(graph, durations[:, None], lags[:, None])[:, 0]
    run = simulate(graph, durations, lags)
    np.testing.assert_allclose(run.ends, expected, rtol=1e-12, atol=1e-12)
    assert (run.starts <= run.ends).all()


@given(programs(most=10))
@settings(max_examples=60, deadline=None)
def test_equals_networkx(program):
    graph, durations, lags = program
    table = np.append(lags, 0.0)
    oracle = nx.MultiDiGraph()
    for task in range(len(graph)):
        oracle.add_edge("start", task, weight=durations[task])
        for edge in range(graph.pointer[task], graph.pointer[task + 1]):
            producer = int(graph.predecessor[edge])
            lag = table[graph.lag[edge]]
            oracle.add_edge("start" if producer == SOURCE else producer, task, weight=lag + durations[task])
    assert simulate(graph, durations, lags).total == pytest.approx(nx.dag_longest_path_length(oracle), rel=1e-12)


@given(
    st.sampled_from([("gpipe", 1), ("1f1b", 1), ("1f1b", 2), ("1f1b", 3)]),
    st.integers(2, 4),
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=40, deadline=None)
def test_steps_equal_max_plus(schedule, pp, rounds, reduce_early, gather_early, seed):
    """Unequal stages, messages that take time, buckets that start inside a backward, gathers due inside a forward."""
    name, virtual = schedule
    counts = ((2,) * virtual,) * pp
    program = step_program(
        StepShape(name, pp, rounds * pp, virtual, None, counts, counts, reduce_early, gather_early, True)
    )
    rng = np.random.default_rng(seed)
    durations = rng.uniform(0.1, 2.0, program.duration_rows)
    lags = np.zeros(program.lag_rows)
    lags[: program.release_base] = rng.uniform(0.0, 0.3, program.release_base)
    lags[program.release_base :] = rng.uniform(-0.1, 0.0, program.lag_rows - program.release_base)
    expected = solve(program.graph, durations[:, None], lags[:, None])[:, 0]
    np.testing.assert_allclose(simulate(program.graph, durations, lags).ends, expected, rtol=1e-12)


def test_a_task_stalls_where_it_needs_another():
    builder = GraphBuilder()
    slow = builder.add(0, 0)
    builder.add(1, 1, [(slow, 0)])
    run = simulate(builder.finish(), np.array([5.0, 3.0]), np.array([-2.0]))
    assert run.starts.tolist() == [0.0, 0.0]  # runs its first two seconds, waits from 2 to 5
    assert run.ends.tolist() == [5.0, 6.0]


def test_a_task_hands_over_before_it_ends():
    builder = GraphBuilder()
    long = builder.add(0, 0)
    builder.add(1, 1, [(long, 0)])
    run = simulate(builder.finish(), np.array([5.0, 1.0]), np.array([-3.0]))
    assert run.ends.tolist() == [5.0, 3.0]


def test_a_lag_that_reaches_back_before_its_predecessor_is_refused():
    builder = GraphBuilder()
    short = builder.add(0, 0)
    builder.add(0, 1, [(short, 0)])
    with pytest.raises(ValueError, match="too early"):
        simulate(builder.finish(), np.array([1.0]), np.array([-3.0]))
    assert simulate(builder.finish(), np.array([1.0]), np.array([-1e18])).ends.tolist() == [1.0, 1.0]


def test_two_flows_on_one_link_halve_each_other_in_mid_transfer():
    """100 B alone take 10 s; the second starts at 4 s with 30 B: both at 5 B/s until it is done at 10 s."""
    builder = GraphBuilder()
    builder.add(0, 0)
    builder.add(1, 1, [(SOURCE, 0)])
    graph = builder.finish()
    flows = (Flow(100.0, ((0, 1.0),)), Flow(30.0, ((0, 1.0),)))
    wiring = wired(graph, links=("a",), bytes_per_s=np.array([10.0]), flows=flows, transfer=np.array([0, 1]))
    run = simulate(graph, np.zeros(2), np.array([4.0]), wiring)
    assert run.ends.tolist() == [13.0, 10.0]
    assert run.carried.tolist() == [130.0]


def test_a_message_is_carried_between_tasks_and_holds_its_sender_if_that_waits():
    """Task 0 sends 20 B over 10 B/s after a latency of 1 s; 1 waits for it and half a second more, 2 for it alone."""
    builder = GraphBuilder()
    sender = builder.add(0, 0)
    builder.add(0, 1, [(sender, 0)])
    builder.add(0, 0, [(sender, 0)])
    graph = builder.finish()
    wiring = wired(
        graph,
        links=("a",),
        bytes_per_s=np.array([10.0]),
        flows=(Flow(20.0, ((0, 1.0),), 1.0),),
        message=np.array([0, NO_FLOW, NO_FLOW]),
        carried=np.array([True, True]),
        extra_s=np.array([0.5, 0.0]),
    )
    run = simulate(graph, np.array([2.0]), np.array([99.0]), wiring)
    assert run.ends.tolist() == [2.0, 7.5, 7.0]


def interfering(sm_bound, hbm_bound, **held):
    """A task of 10 s, and a transfer of 4 s beside it that starts at 2 s."""
    builder = GraphBuilder()
    builder.add(0, 0)
    builder.add(1, 1, [(SOURCE, 0)])
    graph = builder.finish()
    wiring = wired(
        graph,
        links=("a",),
        bytes_per_s=np.array([1.0]),
        flows=(Flow(4.0, ((0, 1.0),), streams=(0,), **held),),
        transfer=np.array([NO_FLOW, 0]),
        sm_bound=np.array([sm_bound, 0.0]),
        hbm_bound=np.array([hbm_bound, 0.0]),
    )
    return graph, wiring


def test_communication_slows_what_computes_beside_it():
    """20 of 132 multiprocessors: a GEMM runs at 0.848 of its rate for four of its seconds."""
    graph, wiring = interfering(1.0, 0.0, sms=20 / 132)
    run = simulate(graph, np.array([10.0, 0.0]), np.array([2.0]), wiring)
    assert run.ends.tolist() == pytest.approx([10.0 + 4 * 20 / 132, 6.0], rel=1e-12)


def test_what_needs_neither_multiprocessors_nor_memory_is_not_slowed():
    graph, wiring = interfering(0.0, 0.0, sms=0.5, hbm=0.5)
    assert simulate(graph, np.array([10.0, 0.0]), np.array([2.0]), wiring).ends[0] == pytest.approx(10.0)
    graph, wiring = interfering(0.5, 0.5, sms=0.5, hbm=0.2)
    rate = 1 / (1 + 0.5 * 1.0 + 0.5 * 0.25)
    run = simulate(graph, np.array([10.0, 0.0]), np.array([2.0]), wiring)
    assert run.ends[0] == pytest.approx(10.0 + 4 * (1 - rate))


def test_a_stream_that_slows_down_in_mid_step_and_recovers():
    graph, durations = chain(4.0, 4.0)
    slow = [Change(2.0, "stream", 0, 0.5), Change(8.0, "stream", 0, 1.0)]
    assert simulate(graph, durations, changes=slow).ends.tolist() == [6.0, 11.0]


def test_a_stall_outlasts_a_change_of_speed():
    builder = GraphBuilder()
    slow = builder.add(0, 0)
    builder.add(1, 1, [(slow, 0)])
    halved = [Change(4.0, "stream", 1, 0.5)]
    run = simulate(builder.finish(), np.array([5.0, 3.0]), np.array([-2.0]), changes=halved)
    assert run.ends.tolist() == [5.0, 7.0]


@pytest.mark.parametrize(("factor", "expected"), [(0.5, 16.0), (0.875, 4 + 6 / 0.875)])
def test_a_link_that_loses_part_at_40_percent(factor, expected):
    graph, durations = chain(0.0)
    link = {"links": ("a",), "bytes_per_s": np.array([10.0])}
    wiring = wired(graph, **link, flows=(Flow(100.0, ((0, 1.0),)),), transfer=np.array([0]))
    assert simulate(graph, durations, None, wiring).total == 10.0
    run = simulate(graph, durations, None, wiring, [Change(4.0, "link", 0, factor)])
    assert run.total == pytest.approx(expected, rel=1e-12)


def test_a_link_that_fails_for_good_is_named():
    graph, durations = chain(1.0, 0.0, 1.0)
    link = {"links": ("stage 0 network out",), "bytes_per_s": np.array([10.0])}
    transfer = np.array([NO_FLOW, 0, NO_FLOW])
    wiring = wired(graph, **link, flows=(Flow(100.0, ((0, 1.0),)),), transfer=transfer)
    down, up = Change(5.0, "link", 0, 0.0), Change(20.0, "link", 0, 1.0)
    with pytest.raises(SimclusterError, match="stage 0 network out, down for good; 2 of 3"):
        simulate(graph, durations, None, wiring, [down])
    assert simulate(graph, durations, None, wiring, [down, up]).total == pytest.approx(27.0)


def test_background_traffic_takes_its_share():
    graph, durations = chain(0.0)
    link = {"links": ("a",), "bytes_per_s": np.array([10.0])}
    other = (Flow(float("inf"), ((0, 1.0),), limit_bytes_per_s=2.0),)
    wiring = wired(graph, **link, flows=(Flow(80.0, ((0, 1.0),)),), transfer=np.array([0]), background=other)
    assert simulate(graph, durations, None, wiring).total == pytest.approx(10.0)


def test_what_waits_for_itself_is_refused():
    builder = GraphBuilder()
    builder.add(0, after=[(1, NO_LAG)])
    builder.add(0, after=[(0, NO_LAG)])
    with pytest.raises(SimclusterError, match="never happens"):
        simulate(builder.finish(), np.ones(1))
