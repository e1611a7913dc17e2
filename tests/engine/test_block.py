"""Blocks on one machine: device time, host time, and what each idealisation takes away."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.block import COLUMNS, solve_block
from simcluster.program.block import BlockOp, ExchangePlan, backward_block, forward_block
from simcluster.program.pricing import CLASSES, PricedOps
from simcluster.shapes import Gemm, Streaming, Transfer
from simcluster.workload.elements import Element

GEMM = Gemm("g", 8, 8, 8)
MEMORY = Streaming("s", 1.0)
EXCHANGE = Transfer("t", "all_reduce", 1.0, "tp")
ELEMENTS = (
    Element("norm", (MEMORY,), (MEMORY,), part="norm"),
    Element("col", (GEMM,), (GEMM,), (GEMM,), "column", "linear"),
    Element("core", (MEMORY,), (MEMORY,), part="core_attention"),
    Element("row", (GEMM,), (GEMM,), (GEMM,), "row", "linear"),
)
KIND = {Gemm: CLASSES.index("gemm"), Streaming: CLASSES.index("memory"), Transfer: CLASSES.index("tensor")}


def priced(ops, seconds=None, host=0.0, grade=1, sigma=0.1):
    count = len(ops)
    seconds = np.full(count, 1.0) if seconds is None else np.asarray(seconds, dtype=float)
    return PricedOps(
        seconds=seconds * [op.share for op in ops],
        host_s=np.full(count, float(host)),
        grade=np.full(count, grade),
        sigma=np.full(count, sigma),
        kind=np.array([KIND[type(op.operator)] for op in ops]),
    )


def solved(ops, **how):
    times = solve_block(ops, priced(ops, **how))
    return times, {name: float(times.device[index]) for index, name in enumerate(COLUMNS)}


def chain(*operators):
    return [BlockOp(op, 0, (index - 1,) if index else ()) for index, op in enumerate(operators)]


@given(st.lists(st.floats(0, 10), min_size=4, max_size=4))
def test_one_rank_takes_the_sum_of_its_kernels(seconds):
    ops = forward_block(ELEMENTS, ExchangePlan(1, 1.0, False))
    times, device = solved(ops, seconds=seconds)
    assert device["actual"] == pytest.approx(sum(seconds))
    assert times.hosted[0] == pytest.approx(sum(seconds))
    assert times.busy.sum() == pytest.approx(sum(seconds))


@given(
    st.data(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1, 4]),
    st.sampled_from(["none", "part", "whole"]),
    st.floats(0, 2),
)
def test_idealisations_never_cost(data, sp, bulk, chunks, recompute, host):
    dropped = {"core_attention": 1.0} if recompute == "part" else {}
    again = ELEMENTS if recompute == "whole" else ()
    ops = backward_block(ELEMENTS, ExchangePlan(4, 1.0, sp, bulk, chunks), dropped, again)
    seconds = data.draw(st.lists(st.floats(0, 10), min_size=len(ops), max_size=len(ops)))
    times, device = solved(ops, seconds=seconds, host=host)
    values = list(device.values())
    assert all(after <= before + 1e-9 for before, after in itertools.pairwise(values))
    assert (times.hosted >= times.device - 1e-9).all()
    assert (np.diff(times.hosted) <= 1e-9).all()
    again = np.array([op.recompute for op in ops])
    kinds, spent = priced(ops, seconds=seconds).kind, priced(ops, seconds=seconds).seconds
    kept = (kinds != KIND[Transfer]) & ~again
    assert device["no_recompute"] == pytest.approx(spent[kept].sum())
    assert device["no_overhead"] == pytest.approx(spent[kept & (kinds != KIND[Streaming])].sum())


def test_columns_by_hand():
    ops = [*chain(GEMM, MEMORY), BlockOp(EXCHANGE, 1, (1,)), BlockOp(GEMM, 0, (2,), recompute=True)]
    _, device = solved(ops, seconds=[1, 2, 4, 8])
    assert device["actual"] == 15
    assert device["no_tensor"] == 11
    assert device["no_recompute"] == 3
    assert device["no_overhead"] == 1


def test_an_exchange_beside_a_kernel_is_not_exposed():
    ops = [*chain(GEMM), BlockOp(EXCHANGE, 1, (0,)), BlockOp(GEMM, 0, (0,))]
    times, device = solved(ops, seconds=[1, 3, 2])
    assert device["actual"] == 4
    assert times.busy[KIND[Transfer]] == 3  # busy all the same


def test_a_slow_host_sets_the_pace():
    ops = chain(GEMM, GEMM, GEMM)
    times, device = solved(ops, seconds=[1, 1, 1], host=5.0)
    assert device["actual"] == 3
    assert times.hosted[0] == 15 + 1  # each kernel waits for its own issue
    assert times.host[0] == 15
    assert times.hosted[COLUMNS.index("no_overhead")] == 3
    times, _ = solved(ops, seconds=[10, 1, 1], host=2.0)
    assert times.hosted[0] == 2 + 12  # the host is ahead after the first


def test_evidence_is_weighted_by_time():
    ops = chain(GEMM, GEMM)
    prices = priced(ops, seconds=[1, 3])
    prices.grade[:], prices.sigma[:] = [0, 2], [0.1, 0.3]
    times = solve_block(ops, prices)
    assert times.evidence[KIND[Gemm]] == pytest.approx([1.5, 0.25])
    assert times.evidence[KIND[Streaming]] == pytest.approx([0, 0])


def test_nothing_takes_no_time():
    times = solve_block([], priced([]))
    assert times.device.tolist() == times.hosted.tolist() == times.host.tolist() == [0.0] * len(COLUMNS)
    assert not times.busy.any()
