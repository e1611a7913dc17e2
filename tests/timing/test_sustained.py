"""The shipped sustained rates: bounded, sourced, and used for their generation alone."""

import pytest

from simcluster.errors import InputError
from simcluster.timing import sustained
from simcluster.timing.sustained import SustainedRate, load_sustained, model_residual, sustained_rate


def test_every_rate_lies_within_its_bounds_and_says_where_it_comes_from():
    prior, fitted = load_sustained()
    for rate in (prior, *fitted.values()):
        assert 0 < rate.low <= rate.value <= rate.high <= 1
        assert 0 < rate.sigma < 1
        assert rate.source
        assert rate.date
        assert rate.kind == "estimate"
    assert prior.rows == 0
    assert all(rate.rows > 0 for rate in fitted.values())


def test_no_fit_stands_at_a_bound():
    _, fitted = load_sustained()
    assert not [name for name, rate in fitted.items() if rate.at_bound]


def test_an_unknown_generation_has_the_prior():
    prior, fitted = load_sustained()
    assert sustained_rate("unheard-of") == prior
    for name, rate in fitted.items():
        assert sustained_rate(name) is rate


@pytest.mark.parametrize(
    ("value", "rows", "expected"), [(0.5, 3, True), (1.0, 3, True), (0.8, 3, False), (0.5, 0, False)]
)
def test_at_bound(value, rows, expected):
    assert SustainedRate(value, 0.1, 0.5, 1.0, "s", "2026", "estimate", rows).at_bound is expected


def test_the_residual_is_a_relative_spread():
    assert 0 < model_residual() < 0.5


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ({"value": 0.4, "sigma": 0.1, "low": 0.5, "high": 1.0, "source": "s", "date": "d", "kind": "k"}, "outside"),
        ({"value": 0.8, "speed": 3}, "speed"),
    ],
)
def test_a_broken_file_is_told_not_guessed(raw, words):
    with pytest.raises(InputError, match=words) as caught:
        sustained._rate(raw, "hopper")
    assert "hopper" in str(caught.value)
