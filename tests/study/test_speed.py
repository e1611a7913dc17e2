"""The verdict by speed: who wins, against whom it is held, what speaks for and against it."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.uncertainty import ErrorTerm
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.shapes import NetworkRates
from simcluster.study.speed import by_speed, nothing_fits, wires

IB = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-hdr-200", "ib", 25e9, 8)
FAST = replace(IB, fabric="ib-ndr-400", nic_bytes_per_s=50e9)
GB, GIB = 1e9, 2.0**30


def design(name, rate=1e6, peak=70 * GB, capacity=80 * GB, sigma=0.0, network=IB, **lost):
    """A design that trains so many tokens a second in steps of a million tokens, with its own error of `sigma`."""
    time_s = 1e6 / rate
    seconds = {**dict.fromkeys(CAUSES, 0.0), **lost}
    seconds["ideal"] = time_s - sum(lost.values())
    memory = SimpleNamespace(fits=peak <= capacity, peak_bytes=peak, capacity_bytes=capacity)
    evaluation = SimpleNamespace(
        step=SimpleNamespace(time_s=time_s, tokens_per_s=rate),
        memory=memory,
        waterfall=Waterfall(tuple(seconds[cause] for cause in CAUSES)),
        error_terms=(ErrorTerm("model", 1.0, 0.3), ErrorTerm(f"gemm:{name}", 1.0, sigma)),
        resolved=SimpleNamespace(machine=SimpleNamespace(network=network)),
    )
    return SimpleNamespace(name=name, evaluation=evaluation)


def percents(text):
    return [float(found) / 100 for found in re.findall(r"(-?[0-9.]+)%", text)]


# --- who wins, and against whom ---------------------------------------------------------------------------------------

RATES = st.lists(st.integers(100, 10_000), min_size=2, max_size=5, unique=True)  # thousands of tokens a second
SIGMAS = st.lists(st.sampled_from([0.0, 0.02, 0.1, 0.3]), min_size=5, max_size=5)
ROOM = st.lists(st.booleans(), min_size=5, max_size=5)


def designs(rates, sigmas, room):
    return [
        design(f"n{index}", 1e3 * rate, peak=(70 if fits else 90 + index) * GB, sigma=sigma)
        for index, (rate, sigma, fits) in enumerate(zip(rates, sigmas, room))
    ]


@given(RATES, SIGMAS, ROOM)
def test_only_the_fastest_that_fits_is_chosen(rates, sigmas, room):
    found = by_speed(designs(rates, sigmas, room))
    fitting = [index for index in range(len(rates)) if room[index]]
    best = max(fitting, key=lambda index: rates[index], default=None)
    assert found.choice in (None, f"n{best}")
    if best is not None and len(fitting) == 1:
        assert found.choice == f"n{best}"
    if found.choice is None and best is not None:
        assert f"n{best}" in found.sentence
        assert found.flips_if == () or all("made to fit" in flip for flip in found.flips_if)


@given(RATES, SIGMAS, ROOM, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_changes_nothing(rates, sigmas, room, random):
    several = designs(rates, sigmas, room)
    turned = several[:]
    random.shuffle(turned)
    assert by_speed(turned) == by_speed(several)


@given(RATES, SIGMAS)
def test_a_choice_is_nine_to_one_against_every_rival(rates, sigmas):
    """Phi(ln(own rate / other rate) / sqrt(both errors squared)), whatever the rival's place in the ranking."""
    found = by_speed(designs(rates, sigmas, [True] * 5))
    best = max(range(len(rates)), key=lambda index: rates[index])
    sure = []
    for index in range(len(rates)):
        if index != best:
            spread = math.hypot(sigmas[best], sigmas[index])
            gain = math.log(rates[best] / rates[index])
            sure.append(0.5 * math.erfc(-gain / spread / math.sqrt(2)) if spread else 1.0)
    if found.choice:
        assert min(sure) >= 0.9 - 1e-9
    elif "are alike" not in found.sentence:
        assert min(sure) < 0.9


def test_it_is_held_against_the_one_that_it_is_least_sure_to_beat():
    """The slower rival is the less certain one: 20 % behind, but known to a third alone."""
    known, vague = design("known", 0.9e6), design("vague", 0.8e6, sigma=0.3)
    found = by_speed([known, vague, design("best")])
    assert found.choice is None
    assert found.sentence.startswith("No clear difference: best would do 25% more tokens per second than vague (")
    sure = by_speed([known, design("vague", 0.8e6, sigma=0.01), design("best")])
    assert sure.choice == "best"
    assert "11.1% more tokens per second than known, the next of 3 (" in sure.sentence


@given(st.floats(1.02, 5.0), st.floats(0.0, 0.01), st.floats(1e-3, 1e3))
def test_figures_of_the_sentence(ratio, sigma, scale):
    """Gain r - 1, interval r e^(+-1.28155 sqrt(2) sigma) - 1, and an hour at 1 - 1/r less evens it out."""
    found = by_speed([design("slow", 1e6 * scale, sigma=sigma), design("fast", 1e6 * scale * ratio, sigma=sigma)])
    side = math.exp(1.2815516 * math.sqrt(2) * sigma)
    figures = percents(found.sentence.replace("80% interval", ""))
    assert figures == pytest.approx([ratio - 1, ratio / side - 1, ratio * side - 1], rel=6e-3, abs=6e-5)
    if found.choice:
        (flip,) = found.flips_if
        assert percents(flip) == pytest.approx([1 - 1 / ratio], rel=6e-3)
        assert (1 - percents(flip)[0]) * ratio == pytest.approx(1, abs=0.02)


def test_a_percent_divides_alike_from_different():
    assert by_speed([design("a", 1e6), design("b", 1.0099e6)]).choice is None
    assert by_speed([design("a", 1e6), design("b", 1.0101e6)]).choice == "b"
    same = by_speed([design("a"), design("b")])
    assert (same.choice, same.flips_if) == (None, ())
    assert same.sentence.endswith("are alike: the step differs by 0 s of 1 s (0%).")


# --- memory -----------------------------------------------------------------------------------------------------------


def test_the_fastest_of_those_too_large_is_worth_a_word():
    """10 GB over are 9.31 GiB; it would do twice the rate of the best."""
    large, larger = design("large", 3e6, peak=90 * GB), design("larger", 4e6, peak=90 * GB)
    found = by_speed([large, design("small", 2e6), larger, design("slow", 1e6)])
    assert found.choice == "small"
    flip = found.flips_if[-1]
    assert flip == "larger, 9.31 GiB over the memory, is made to fit: it would do 100% more tokens per second"
    assert len(found.flips_if) == 2
    slow = by_speed([design("small", 2e6), design("large", 1.9e6, peak=90 * GB)])
    assert (slow.choice, slow.flips_if) == ("small", ())


def test_a_rival_that_fits_goes_before_one_that_does_not():
    found = by_speed([design("large", 3e6, peak=90 * GB), design("small", 2e6), design("slow", 1e6)])
    assert "than slow" in found.sentence
    alone = by_speed([design("large", 3e6, peak=90 * GB), design("small", 2e6)])
    assert alone.sentence == "Take small: large does not fit in memory."
    assert alone.settle_with == ()


@given(st.lists(st.tuples(st.floats(1.01, 5.0), st.sampled_from([40.0, 80.0, 192.0])), min_size=1, max_size=5))
def test_the_nearest_to_fit_is_so_by_its_share_of_the_memory(sizes):
    several = [
        design(f"n{index}", peak=share * room * GB, capacity=room * GB) for index, (share, room) in enumerate(sizes)
    ]
    found = by_speed(several)
    assert found == nothing_fits(several)
    assert (found.choice, found.flips_if, found.settle_with) == (None, (), ())
    name, over, unit = re.search(r"memory; (\S+) comes nearest and is ([0-9.]+) (\S+) over", found.sentence).groups()
    share, room = sizes[int(name[1:])]
    assert share == pytest.approx(min(share for share, _ in sizes), rel=1e-12)
    size = {"MiB": GIB / 1024, "GiB": GIB, "TiB": 1024 * GIB}[unit]
    assert float(over) * size == pytest.approx((share - 1) * room * GB, rel=6e-3)


# --- why --------------------------------------------------------------------------------------------------------------


def test_two_reasons_and_the_strongest_objection():
    slow = design("slow", 0.5e6, data_parallel=0.7, recompute=0.5, tensor_parallel=0.3)
    fast = design("fast", 1e6, pipeline_bubble=0.4, memory_bound=0.1)
    words = by_speed([slow, fast]).why.split("; ")
    assert [re.search(r"take (.*) more", word).group(1) for word in words[:2]] == ["700 ms", "500 ms"]
    assert words[0].startswith("exposed gradient reduction")
    assert words[1].startswith("activations computed again")
    assert words[2] == "although stages that wait for the pipeline to fill and drain take 400 ms less there"
    assert len(words) == 3


def test_a_small_objection_is_left_out():
    """Half the largest reason is the limit."""
    slow = design("slow", 0.5e6, data_parallel=0.7)
    assert "although" not in by_speed([slow, design("fast", 1e6, pipeline_bubble=0.34)]).why
    assert "although" in by_speed([slow, design("fast", 1e6, pipeline_bubble=0.36)]).why


def test_faster_wires_are_a_reason_and_slower_ones_an_objection():
    slow, fast = design("slow", 0.5e6, data_parallel=0.9), design("fast", 1e6)
    for network, other, said in ((FAST, IB, True), (IB, FAST, False)):
        slow.evaluation.resolved.machine.network, fast.evaluation.resolved.machine.network = other, network
        words = by_speed([slow, fast]).why.split("; ")
        (wire,) = wires(IB, FAST)
        assert (words[0] == wire) == said
        assert (words[-1] == f"although {wire}") == (not said)
        assert any(word.startswith("exposed gradient") for word in words)


# --- wires ------------------------------------------------------------------------------------------------------------

NETWORKS = st.builds(
    replace,
    st.just(IB),
    fabric=st.sampled_from(["ib-hdr-200", "ib-ndr-400", "roce-400"]),
    protocol=st.sampled_from(["ib", "roce", "none"]),
    nic_bytes_per_s=st.sampled_from([12.5e9, 25e9, 50e9]),
    nics_per_node=st.sampled_from([1, 4, 8]),
    gpus_per_node=st.sampled_from([4, 8]),
)


@given(NETWORKS, NETWORKS)
def test_wires_are_told_by_the_line_rate_of_a_gpu(one, other):
    """Cards a node times a card's rate over GPUs a node; nothing where one node needs no fabric."""
    found = wires(one, other)
    rates = [net.nics_per_node * net.nic_bytes_per_s / net.gpus_per_node for net in (one, other)]
    if one == other or "none" in (one.protocol, other.protocol):
        assert found == []
    elif rates[0] == rates[1]:
        assert ("differ in protocol only" in "".join(found)) == (one.fabric != other.fabric)
    else:
        (said,) = found
        fast, slow = (one, other) if rates[0] > rates[1] else (other, one)
        assert said.startswith(f"{fast.fabric} with {fast.nics_per_node} cards for {fast.gpus_per_node} GPUs carries ")
        assert float(re.search(r"carries ([0-9.]+) times", said).group(1)) == pytest.approx(
            max(rates) / min(rates), rel=6e-3
        )
        assert f"of {slow.fabric} with {slow.nics_per_node} cards" in said
        assert wires(other, one) == found


def test_rates_in_words():
    """8 cards of 400 Gbit/s for 8 GPUs, and 4 of 200 Gbit/s for 8: 400 against 100 Gbit/s, four times as much."""
    (said,) = wires(FAST, replace(IB, nics_per_node=4))
    assert said == (
        "ib-ndr-400 with 8 cards for 8 GPUs carries 4 times the line rate of ib-hdr-200 with 4 cards for 8 GPUs "
        "(400 Gbit/s against 100 Gbit/s a GPU)"
    )


@pytest.mark.parametrize(("first", "second"), [("ib", "roce"), ("roce", "ib")])
def test_the_same_line_rate_leaves_the_protocol(first, second):
    (said,) = wires(replace(IB, fabric="one", protocol=first), replace(IB, fabric="two", protocol=second))
    assert said == "the wires are alike (200 Gbit/s a GPU), one and two differ in protocol only"
