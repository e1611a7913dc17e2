"""Degrees and batch, settled and checked."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.scenario.findings import divisors


@given(st.integers(1, 5000))
def test_divisors(number):
    assert divisors(number) == [value for value in range(1, number + 1) if number % value == 0]


def test_divisors_of_a_large_prime_are_found_at_once():
    start = time.perf_counter()
    assert divisors(999_999_937) == [1, 999_999_937]
    assert time.perf_counter() - start < 1


def test_what_follows_from_the_words(settle):
    layout = settle().layout
    assert (layout.tp, layout.pp, layout.dp, layout.cp) == (2, 2, 4, 1)
    assert (layout.sequences, layout.micro_batches, layout.micro_batch) == (32, 4, 2)
    assert layout.shards == 4
    assert settle("training.sharding.strategy=none").layout.shards == 1
    assert settle("training.sharding.group=2").layout.shards == 2


@pytest.mark.parametrize("batch", ["64k tokens", "65536 tokens", "{tokens: 65536}"])
def test_a_batch_in_tokens(settle, batch):
    assert settle(f"training.global_batch={batch}").layout.sequences == 64


def test_a_length_that_nobody_stated_is_checked_too(refused):
    sets = ("training.sequence_length=null", "training.parallelism={cp: 3, tp: 1}", "cluster.node.gpus=6")
    assert any("3 does not divide the sequence of 4096" in one for one in refused(*sets))


def test_defaults_of_an_unstated_batch(settle):
    resolved = settle("training.global_batch=null", "training.sequence_length=null", "training.micro_batch=null")
    layout = resolved.layout
    assert (layout.sequence_length, layout.micro_batch) == (4096, 1)
    assert layout.sequences % layout.dp == 0
    assert layout.sequences * 4096 == pytest.approx(4e6, rel=0.01)
    assert {"training.global_batch", "training.sequence_length", "training.micro_batch"} <= {
        one.path for one in resolved.assumptions
    }


def test_heads_that_do_not_divide_are_padded_and_said(settle):
    resolved = settle("model=gpt2-xl", "training.recompute=none")
    assert resolved.arch.heads == 25
    assert resolved.plan.arch.heads == 26
    (why,) = [one.why for one in resolved.assumptions if one.path == "model.heads"]
    assert why.startswith("tp 2 does not divide 25 heads; padded, each rank holds 13")


def test_sequence_parallel_needs_a_group(settle):
    assert settle("training.parallelism={tp: 1, pp: 2, sequence_parallel: true}").layout.sequence_parallel is False
    assert settle("training.parallelism={tp: 2, pp: 2, sequence_parallel: false}").layout.sequence_parallel is False


def test_stages_at_the_ends_may_say_what_is_so_anyway(settle):
    plain = settle("training.parallelism.stages=[4, 4]")
    said = settle("training.parallelism.stages=[{layers: 4, embedding: true}, {layers: 4, head: true}]")
    assert plain.plan.contents == said.plan.contents


def test_a_split_backward_without_a_pipeline_is_told(settle):
    """One stage has no bubble to fill: the schedule does not matter, and that is said."""
    settled = settle("training.parallelism={tp: 4, pp: 1, schedule: zb-h1}")
    assert settled.layout.schedule == "1f1b"
    told = {one.path: one.why for one in settled.assumptions}
    assert told["training.parallelism.schedule"] == "zb-h1 with pp 1: without a pipeline there is no bubble"
