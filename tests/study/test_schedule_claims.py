"""Claims heard in talks about batches, tensor against pipeline parallelism, and schedules; what makes them true."""

from __future__ import annotations

import math

import pytest
from scipy.optimize import brentq

from simcluster.evaluation import evaluate
from simcluster.parallel.schedules import gpipe, one_f_one_b
from simcluster.scenario import load_mapping

SAMPLES = (64, 256)  # one and four for each GPU


def job(catalogue, batch, **cluster):
    change = {
        "name": "13b-64xa100",
        "model": "llama-13b",
        "cluster": {"node": "dgx-a100-80gb", "nodes": 8, **cluster},
        "training": {
            "sequence_length": 2048,
            "global_batch": batch,
            "micro_batch": 1 if batch == 64 else 4,
            "parallelism": {"tp": 1, "pp": 1},
            "sharding": {"strategy": "fsdp"},
            "software": {"family": "pytorch-fsdp", "date": "2024-06"},
            "recompute": "full",
        },
    }
    return evaluate(load_mapping(change), catalogue)


def longer(catalogue, **cluster):
    """By how much a sample takes longer at one a GPU than at four."""
    few, many = (job(catalogue, batch, **cluster).step.time_s / batch for batch in SAMPLES)
    return few / many - 1


def test_small_batches_cost_little_on_rails_and_at_most_four_times(catalogue):
    """Below two samples a GPU training takes "300 % longer": only where nothing but a slow wire counts."""
    rails = longer(catalogue, fabric="ib-hdr-200")
    slow = longer(catalogue, fabric={"base": "roce-100", "links_per_node": 1})
    slower = longer(catalogue, fabric={"base": "roce-100", "links_per_node": 1, "link": "10 Gbit/s"})
    assert 0 <= rails < 0.6
    assert rails < slow < slower <= 3.0 + 1e-9
    assert slower > 2.5


def test_four_stages_at_38_percent_are_52_percent_with_the_bubble_of_eight_micro_batches():
    """52 % with tensor parallelism against 38 % with a pipeline: the gap is a bubble, gone with more micro-batches."""
    share = lambda m: 1 / (1 + one_f_one_b.bubble_s(4, 1.0, 2.0) / (3 * m))  # noqa: E731
    m = brentq(lambda count: 0.52 * share(count) - 0.38, 1, 100)
    assert m == pytest.approx(8.14, abs=0.01)
    assert 0.52 * share(64) == pytest.approx(0.497, abs=0.001)


def test_four_stages_alone_cannot_hold_175b(catalogue):
    """174.6e9 / 4 x 18 bytes: 786 GB on a GPU of 80."""
    change = {
        "name": "gpt-3",
        "model": "gpt-3-175b",
        "cluster": {"node": "dgx-a100-80gb", "nodes": 8, "fabric": "ib-hdr-200"},
        "training": {
            "sequence_length": 2048,
            "global_batch": 64,
            "micro_batch": 1,
            "parallelism": {"tp": 1, "pp": 4},
            "sharding": {"strategy": "none"},
            "software": {"family": "megatron-core", "date": "2024-06"},
        },
    }
    report = evaluate(load_mapping(change), catalogue).memory
    states = ("weights", "gradients", "optimizer")
    held = sum(float(report.stages[1].components[name]) for name in states)
    assert held == pytest.approx(174.6e9 / 4 * 18, rel=0.02)
    assert not report.fits


def step(bubble, m, work):
    """Time of a sample with m micro-batches."""
    return (bubble + m * work) / m


def test_1f1b_gains_34_percent_by_more_micro_batches_or_less_recompute_only():
    """Bubbles are the same; what 1F1B saves is memory, for 9.8 micro-batches in place of 4, or no recompute."""
    assert gpipe.bubble_s(4, 1.0, 2.0) == one_f_one_b.bubble_s(4, 1.0, 2.0)
    bubble = one_f_one_b.bubble_s(4, 1.0, 2.0)
    m = brentq(lambda count: step(bubble, 4, 3.0) / step(bubble, count, 3.0) - 1.34, 4, 100)
    assert m == pytest.approx(9.8, abs=0.05)
    deep = one_f_one_b.bubble_s(8, 1.0, 2.0)
    assert brentq(lambda count: step(deep, 8, 3.0) / step(deep, count, 3.0) - 1.34, 8, 100) == pytest.approx(
        17.5, abs=0.1
    )
    again = gpipe.bubble_s(4, 1.0, 3.0)
    assert step(again, 8, 4.0) / step(bubble, 8, 3.0) == pytest.approx(4 / 3)
    most = step(bubble, 8, 3.0) / 3.0  # against no bubble at all
    assert most == pytest.approx(1.375)
    assert brentq(lambda count: step(bubble, 8, 3.0) / step(bubble, count, 3.0) - 1.34, 8, 1000) == pytest.approx(
        115, abs=1
    )


def test_with_exposed_messages_1f1b_is_the_slower_one(run):
    """At the same number of micro-batches each round trip of its loop shows; GPipe's only in fill and drain."""
    blocking = {"software": {"overrides": {"overlap_p2p": False}}}
    times = {
        name: run({"training": {"parallelism": {"tp": 2, "pp": 4, "schedule": name}, **blocking}}).step.time_s
        for name in ("gpipe", "1f1b")
    }
    assert times["gpipe"] <= times["1f1b"] * (1 + 1e-12)
    assert math.isclose(times["gpipe"], times["1f1b"], rel_tol=0.1)
