"""How sure a difference is: what both rest on drops out, the rest adds in squares."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.uncertainty import ErrorTerm, difference
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.study.judging import gain_band, lever, measure, unshared

SIGMA, SHARE = st.floats(0.001, 0.5), st.floats(0.01, 1.0)
TERMS = st.lists(
    st.builds(ErrorTerm, st.sampled_from(["gemm:x", "attention:x", "memory:y", "price:own"]), SHARE, SIGMA),
    max_size=4,
    unique_by=lambda term: term.evidence,
)
RATIO = st.floats(0.2, 5)


@given(RATIO, TERMS, TERMS, SHARE, SIGMA)
def test_an_error_that_both_share_moves_nothing(ratio, own, others, share, sigma):
    common = ErrorTerm("model:both", share, sigma)
    assert gain_band(ratio, [*own, common], [*others, common]) == pytest.approx(gain_band(ratio, own, others), rel=1e-9)


@given(RATIO, TERMS)
def test_all_shared_is_sure(ratio, terms):
    low, high, sure = gain_band(ratio, terms, terms)
    assert low == pytest.approx(ratio - 1, abs=1e-12)
    assert high == pytest.approx(ratio - 1, abs=1e-12)
    assert sure == float(ratio > 1)


@given(RATIO, TERMS, TERMS)
def test_the_two_sides_mirror(ratio, own, others):
    low, high, sure = gain_band(ratio, own, others)
    back = gain_band(1 / ratio, others, own)
    assert (1 + low) * (1 + back[1]) == pytest.approx(1, rel=1e-9)
    assert (1 + high) * (1 + back[0]) == pytest.approx(1, rel=1e-9)
    if unshared(own, others) and math.hypot(*unshared(own, others).values()) > 0:
        assert sure + back[2] == pytest.approx(1, abs=1e-9)


@given(RATIO, TERMS, TERMS, SIGMA)
def test_more_doubt_widens(ratio, own, others, sigma):
    narrow = gain_band(ratio, own, others)
    wide = gain_band(ratio, [*own, ErrorTerm("new:z", 1.0, sigma)], others)
    assert wide[0] < narrow[0]
    assert wide[1] > narrow[1]
    assert abs(wide[2] - 0.5) <= abs(narrow[2] - 0.5) + 1e-12


def test_a_tenth_of_doubt_on_one_side():
    """By hand: 80 % of a normal value lie within 1.28155 standard deviations."""
    low, high, sure = gain_band(1.2, [ErrorTerm("a", 1.0, 0.1)], [])
    assert low == pytest.approx(1.2 * math.exp(-0.128155) - 1, rel=1e-5)
    assert high == pytest.approx(1.2 * math.exp(0.128155) - 1, rel=1e-5)
    assert sure == pytest.approx(0.9659, abs=5e-5)  # Phi(ln 1.2 / 0.1)


@given(st.floats(0.5, 2), TERMS, TERMS)
def test_it_agrees_with_draws(ratio, own, others):
    """`difference` draws what `gain_band` has in closed form: being better is being below the baseline."""
    spread = math.hypot(*unshared(own, others).values())
    low, high, sure = gain_band(ratio, own, others)
    drawn = difference(1.0, own, ratio, others)
    assert 1 + drawn.low == pytest.approx(1 + low, rel=0.1 * spread + 1e-9)
    assert 1 + drawn.high == pytest.approx(1 + high, rel=0.1 * spread + 1e-9)
    if spread > 0 and ratio != 1:
        assert drawn.probability_better == pytest.approx(1 - sure, abs=0.05)


@given(st.floats(1e-3, 1e3), TERMS, st.integers(0, 5))
def test_nothing_differs_from_itself(value, terms, seed):
    found = difference(value, terms, value, terms, seed)
    assert (found.value, found.relative, found.low, found.high, found.probability_better) == (0, 0, 0, 0, 0.5)


def test_unshared_parts_keep_their_side():
    own = [ErrorTerm("gemm:x", 0.5, 0.2), ErrorTerm("price:own", 1.0, 0.1)]
    others = [ErrorTerm("gemm:x", 0.8, 0.2), ErrorTerm("price:1y", 1.0, 0.3)]
    assert unshared(own, others) == pytest.approx({"gemm:x": -0.06, "price:own": 0.1, "price:1y": -0.3})


@pytest.mark.parametrize(
    ("evidence", "words"),
    [
        ("gemm:b200-sxm", "GEMM microbenchmarks on b200-sxm"),
        ("attention:b200-sxm", "attention microbenchmarks on b200-sxm"),
        ("memory:h100", "a stream benchmark on h100"),
        ("collectives:nvlink5/ib/8", "nccl-tests on nvlink5/ib/8"),
        ("price:market of h100-80gb-sxm, 1y", "quotes (market of h100-80gb-sxm, 1y)"),
        ("failures:meta-rsc-1", "how often such machines fail (here rates of meta-rsc-1)"),
        ("model:hopper:megatron", "step times of a short run of each"),
    ],
)
def test_what_settles_it_is_the_largest_doubt(evidence, words):
    terms = [ErrorTerm("gemm:small", 1.0, 0.01), ErrorTerm("memory:both", 1.0, 0.4)]
    found = measure([*terms, ErrorTerm(evidence, 1.0, 0.2)], [ErrorTerm("memory:both", 1.0, 0.4)])
    assert tuple(found) == (words,)


def test_the_lever_is_the_largest_loss():
    seconds = dict.fromkeys(CAUSES, 0.01) | {"ideal": 5.0, "data_parallel": 2.0}
    fall = Waterfall(tuple(seconds[cause] for cause in CAUSES))
    found = lever(SimpleNamespace(waterfall=fall, step=SimpleNamespace(time_s=float(np.sum(fall.seconds)))))
    assert "28.2% of the step" in found
    assert "faster fabric" in found
