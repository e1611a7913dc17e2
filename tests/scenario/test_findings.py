"""Rules that tie numbers together: they speak where they should, and their advice is sound."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from simcluster.scenario.findings import (
    accumulation_finding,
    batch_finding,
    depth_finding,
    divisors,
    divisors_near,
    heads_finding,
    interleaving_finding,
    kv_heads_finding,
    product_finding,
    sequence_finding,
    virtual_stages_of,
)
from simcluster.scenario.training import Parallelism

SIZE = st.integers(1, 200)


def numbers(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"\d+", text)]


@given(batch=st.integers(1, 5000), micro=st.integers(1, 40), dp=st.integers(1, 300))
def test_batch(batch, micro, dp):
    """Every factor is in the message; each size that is advised fits."""
    finding = batch_finding(batch, micro, dp)
    assert (finding is None) == (batch % (micro * dp) == 0)
    if finding is None:
        return
    assert {batch, dp} <= set(numbers(finding.message))
    if batch < dp:
        replicas, enough = numbers(finding.advice)
        assert batch_finding(batch, 1, replicas) is None
        assert batch_finding(enough, micro, dp) is None
        return
    advised, _, batches = finding.advice.partition("would fit")
    for size in numbers(advised) if batches else ():
        assert batch_finding(batch, size, dp) is None
    for size in numbers(batches or advised):
        assert batch_finding(size, micro, dp) is None


@given(tp=st.integers(1, 9), pp=st.integers(1, 9), cp=st.integers(1, 4), nodes=st.integers(1, 40))
def test_product(tp, pp, cp, nodes):
    finding = product_finding(Parallelism(tp=tp, pp=pp, cp=cp), 8 * nodes, nodes=nodes)
    assert (finding is None) == (8 * nodes % (tp * pp * cp) == 0)
    if finding:
        assert numbers(finding.message) == [tp, pp, cp, tp * pp * cp, 8 * nodes, nodes, 8]
        assert all(8 * nodes % size == 0 for size in numbers(finding.advice))
    exact = product_finding(Parallelism(tp=tp, pp=pp, cp=cp, dp=3), tp * pp * cp * 3)
    assert exact is None


@given(heads=SIZE, tp=SIZE)
def test_heads(heads, tp):
    finding = heads_finding(heads, tp)
    if heads % tp == 0:
        assert finding is None
    if finding:
        assert all(heads % size == 0 for size in numbers(finding.advice))


@given(kv=st.integers(1, 32), groups=st.integers(1, 8), tp=st.integers(1, 64))
def test_kv_heads(kv, groups, tp):
    finding = kv_heads_finding(kv * groups, kv, tp)
    if finding:
        assert groups > 1
        for size in numbers(finding.advice):
            assert kv_heads_finding(kv * groups, kv, size) is None


@given(length=st.integers(1, 10_000), cp=st.integers(1, 64))
def test_sequence(length, cp):
    finding = sequence_finding(length, cp)
    assert (finding is None) == (length % cp == 0)
    if finding:
        assert all(sequence_finding(length, size) is None for size in numbers(finding.advice))


@given(layers=st.integers(1, 130), pp=st.integers(1, 16), each=st.integers(1, 16))
def test_virtual_stages(layers, pp, each):
    found = virtual_stages_of(Parallelism(pp=pp, layers_per_virtual_stage=each), layers)
    if isinstance(found, int):
        assert found * pp * each == layers
        assert depth_finding(Parallelism(pp=pp, virtual_stages=found), layers) is None
    else:
        assert layers % (pp * each)


@given(pp=st.integers(2, 8), micro_batches=st.integers(1, 64), dp=st.integers(1, 8))
def test_interleaving(pp, micro_batches, dp):
    finding = interleaving_finding(micro_batches, pp, 2, 1, dp)
    assert (finding is None) == (micro_batches % pp == 0)
    assert interleaving_finding(micro_batches, pp, 1, 1, dp) is None


def test_accumulation_names_every_factor():
    assert accumulation_finding(128, 2, 8, 8) is None
    finding = accumulation_finding(128, 2, 8, 4)
    assert finding
    assert numbers(finding.message) == [2, 8, 4, 64, 128]


@given(number=st.integers(1, 10_000), wanted=SIZE)
def test_divisors_near_are_the_nearest(number, wanted):
    near, every = list(divisors_near(number, wanted)), divisors(number)
    assert set(near) <= set(every)
    assert len(near) == min(3, len(every))
    farthest = max(abs(size - wanted) for size in near)
    assert all(abs(size - wanted) >= farthest for size in set(every) - set(near))
