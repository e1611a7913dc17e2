"""The decision in words: it names a winner only when there is one."""

import re
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.shapes import NetworkRates
from simcluster.study.speed import wires
from simcluster.study.verdict import verdict

IB = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-hdr-200", "ib", 25e9, 8)
ROCE = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "roce-200", "roce", 25e9, 8)
FAST = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-ndr-400", "ib", 50e9, 8)
NONE = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "none", "none", 0.0, 0)


def candidate(name, seconds=1.0, fits=True, sigma=0.05, evidence="model", network=IB, **lost):
    """A design whose step takes `seconds` for a million tokens."""
    losses = {"kernel_inefficiency": 0.3 * seconds, **lost}
    losses["ideal"] = seconds - sum(losses.values())
    step = SimpleNamespace(time_s=seconds, tokens_per_s=1e6 / seconds, tokens_per_s_per_gpu=1e6 / seconds / 8)
    memory = SimpleNamespace(fits=fits, peak_bytes=70e9 if fits else 90e9, capacity_bytes=80e9)
    terms = (ErrorTerm("shared", 1.0, 0.2), ErrorTerm(f"gemm:{evidence}", 1.0, sigma))
    evaluation = SimpleNamespace(
        step=step,
        memory=memory,
        waterfall=Waterfall(tuple(losses.get(cause, 0.0) for cause in CAUSES)),
        error_terms=terms,
        resolved=SimpleNamespace(machine=SimpleNamespace(network=network)),
        cost=None,
    )
    return SimpleNamespace(name=name, evaluation=evaluation, delta={})


def test_a_sure_winner_is_named_with_amount_and_interval():
    found = verdict([candidate("slow", 2.0), candidate("fast", 1.0)])
    assert found.choice == "fast"
    assert re.fullmatch(
        r"Take fast: 100% more tokens per second than slow \(80% interval 100% to 100%\)\.", found.sentence
    )
    assert found.flips_if == ("an hour of slow costs at least 50% less than one of fast",)


def test_order_does_not_matter():
    pair = candidate("slow", 2.0), candidate("fast", 1.0)
    assert verdict(pair) == verdict(pair[::-1])


def test_of_three_the_best_is_held_against_the_next():
    found = verdict([candidate("c", 3.0), candidate("a", 1.0), candidate("b", 2.0)])
    assert found.sentence.startswith("Take a: 100% more tokens per second than b, the next of 3 (")


def test_unsure_is_said_and_nobody_chosen():
    found = verdict([candidate("one", 1.03, evidence="x"), candidate("two", 1.0, evidence="y")])
    assert found.choice is None
    assert found.sentence.startswith(
        "No clear difference: two would do 3% more tokens per second than one (80% interval -"
    )
    assert found.flips_if == ()


def test_the_interval_is_that_of_the_draws():
    found = verdict([candidate("one", 1.2, evidence="x"), candidate("two", 1.0, evidence="y")])
    low, high = map(float, re.search(r"interval (-?[0-9.]+)% to ([0-9.]+)%", found.sentence).groups())
    assert low == pytest.approx(100 * (1.2 * 2.718281828 ** (-1.2816 * 0.05 * 2**0.5) - 1), abs=1.5)
    assert high == pytest.approx(100 * (1.2 * 2.718281828 ** (1.2816 * 0.05 * 2**0.5) - 1), abs=1.5)


def test_alike_is_alike_however_sure():
    found = verdict([candidate("one", 1.005), candidate("two", 1.0)])
    assert found.choice is None
    assert found.sentence == "two and one are alike: the step differs by 5 ms of 1 s (0.5%)."


def test_what_does_not_fit_cannot_win():
    found = verdict([candidate("big", 1.0, fits=False), candidate("small", 2.0)])
    assert (found.choice, found.sentence) == ("small", "Take small: big does not fit in memory.")
    too_large = "big, 9.31 GiB over the memory, is made to fit: it would do 100% more tokens per second"
    assert found.flips_if == (too_large,)
    assert verdict([candidate("slow and big", 3.0, fits=False), candidate("small", 2.0)]).flips_if == ()
    three = verdict([candidate("big", 0.5, fits=False), candidate("a", 1.0), candidate("b", 2.0)])
    assert three.choice == "a"
    assert "than b" in three.sentence


def test_nothing_fits():
    found = verdict([candidate("a", 1.0, fits=False), candidate("b", 2.0, fits=False)])
    assert found.choice is None
    assert found.sentence == "None of them fits in memory; a comes nearest and is 9.31 GiB over."


def test_why_names_the_largest_gaps():
    found = verdict(
        [candidate("slow", 2.0, data_parallel=0.8, recompute=0.2), candidate("fast", 1.0, pipeline_bubble=0.01)]
    )
    words = found.why.split("; ")
    assert words[0].startswith(
        "exposed gradient reduction, parameter gathers, gradient norm take 800 ms more of a step in slow"
    )
    assert len(words) == 2
    against = verdict([candidate("slow", 2.0, data_parallel=1.5), candidate("fast", 1.0, pipeline_bubble=0.9)]).why
    assert against.endswith("although stages that wait for the pipeline to fill and drain take 900 ms less there")
    assert verdict([candidate("a"), candidate("b")]).why == "nothing that was simulated differs"


def test_the_lever_is_the_largest_loss_of_the_best():
    found = verdict([candidate("slow", 2.0), candidate("fast", 1.0, tensor_parallel=0.4)])
    assert found.better_lever.startswith("exposed exchanges of tensor parallelism take 40% of the step: ")


@pytest.mark.parametrize("cause", CAUSES[:-1])
def test_every_loss_has_a_lever(cause):
    assert verdict([candidate("a", 1.0, **{cause: 0.6, "ideal": 0.0}), candidate("b", 3.0)]).better_lever


def test_what_to_measure_is_what_they_do_not_share():
    found = verdict([candidate("one", 1.2, evidence="x"), candidate("two", 1.0, evidence="y", sigma=0.2)])
    assert found.settle_with == ("GEMM microbenchmarks on y",)


@given(st.floats(0.1, 10), st.floats(0.1, 10), st.sampled_from([0.0, 0.05, 0.3]))
def test_choice_and_sentence_agree(one, two, sigma):
    found = verdict(
        [candidate("one", one, sigma=sigma, evidence="x"), candidate("two", two, sigma=sigma, evidence="y")]
    )
    faster = "one" if one < two else "two"
    if found.choice is None:
        assert found.sentence.startswith(("No clear", f"{faster} and", "one and", "two and"))
    else:
        assert found.choice == faster
        assert found.sentence.startswith(f"Take {faster}: ")


def test_wires_in_words():
    assert wires(IB, IB) == []
    assert wires(IB, NONE) == wires(NONE, IB) == []
    (alike,) = wires(IB, ROCE)
    assert alike == "the wires are alike (200 Gbit/s a GPU), ib-hdr-200 and roce-200 differ in protocol only"
    (faster,) = wires(IB, FAST)
    assert faster == (
        "ib-ndr-400 with 8 cards for 8 GPUs carries 2 times the line rate of ib-hdr-200 with 8 cards for 8 GPUs "
        "(400 Gbit/s against 200 Gbit/s a GPU)"
    )
    assert wires(FAST, IB) == wires(IB, FAST)
