"""The verdict by cost: the cheapest token, whom it may lose to, and what would turn it."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.scenario import load_mapping, to_dict
from simcluster.study import compare

OWN = ["acquire=own"]
LISTED = ["acquire.rent={term: 1y, storage: 0 USD/month}"]


def rented(usd, term="on-demand"):
    """A rent of GPUs alone."""
    return [f"acquire.rent.term={term}", f"acquire.rent.price={usd} USD/GPU-h", "acquire.rent.storage=0 USD/month"]


@pytest.fixture(scope="module")
def among(run, catalogue):
    """`among(name=sets, …)` compares the base scenario with 20B tokens, got in different ways."""
    base = to_dict(run({"training": {"tokens": "20B"}}).resolved.scenario)

    def call(**changes):
        return compare([(name, load_mapping(base, sets=sets)) for name, sets in changes.items()], catalogue)

    return call


def usd(comparison, name):
    (one,) = [one for one in comparison.candidates if one.name == name]
    return one.evaluation.cost.usd_per_million_tokens


def test_the_cheapest_wins_with_days_and_dollars(among):
    found = among(dear=rented(4.0), cheap=rented(2.0)).verdict
    assert found.choice == "cheap"
    assert found.sentence.startswith("Take cheap: 20B tokens in ")
    assert "50% less than dear (80% interval 50% to 50%)" in found.sentence
    assert any(text.startswith("dear is had for less than 2.00 USD a GPU-hour (here 4.00)") for text in found.flips_if)


def test_order_does_not_matter(among):
    one, other = among(a=rented(4.0), b=rented(2.0)), among(b=rented(2.0), a=rented(4.0))
    assert one.verdict == other.verdict


@settings(max_examples=10)
@given(st.floats(0.5, 50), st.floats(0.5, 50))
def test_no_one_is_cheaper_than_the_choice(among, one, other):
    comparison = among(one=rented(f"{one:.4f}"), other=rented(f"{other:.4f}", "3y"), own=OWN)
    costs = {name: usd(comparison, name) for name in ("one", "other", "own")}
    cheapest = min(costs, key=costs.get)
    verdict = comparison.verdict
    assert verdict.choice in (cheapest, None)
    assert re.search(rf"\b{cheapest}\b", verdict.sentence.split(" USD")[0])


def test_the_same_price_is_alike(among):
    found = among(a=rented(2.0), b=rented(2.001)).verdict
    assert found.choice is None
    assert "the same within" in found.sentence
    assert not any("is had for less" in text for text in found.flips_if)


def test_a_list_price_leaves_doubt_and_asks_for_a_quote(among):
    """Both machines are the same; what is not known is the price."""
    priced = usd(among(a=rented(1.0), b=LISTED), "b") / usd(among(a=rented(1.0), b=LISTED), "a")
    verdict = among(quote=rented(0.97 * priced), list=LISTED).verdict
    assert verdict.choice is None
    assert verdict.sentence.startswith("No clear winner")
    assert any(
        "quotes (1y of what is market of a100-80gb-sxm" in text or "quotes (market of a100-80gb-sxm, 1y)" in text
        for text in verdict.settle_with
    )


def test_what_does_not_fit_cannot_win(among):
    big = [*rented(0.5), "training.micro_batch=16", "training.recompute=none", "training.sequence_length=65536"]
    comparison = among(big=big, small=rented(5.0))
    assert not comparison.candidates[0].evaluation.memory.fits
    assert comparison.verdict.choice == "small"
    assert "big does not fit in memory" in comparison.verdict.sentence
    assert among(big=big, more=big).verdict.choice is None


def test_idle_hours_flip_it_where_it_says(among):
    """Own costs as much as the rent at the stated hours (electricity follows the hours: within 2 %)."""
    price = 1.3 * _used(among)
    verdict = among(own=OWN, rent=rented(price)).verdict
    (flip,) = [text for text in verdict.flips_if if "of the hours" in text]
    least = float(re.search(r"less than ([\d.]+)% of the hours \(here 85%\)", flip)[1]) / 100
    assert least == pytest.approx(0.85 / 1.3, rel=0.1)
    there = among(own=[*OWN, f"use.hours={least}"], rent=rented(price))
    assert usd(there, "own") == pytest.approx(usd(there, "rent"), rel=0.02)


def _used(among):
    """A used hour of owning, corrected for what failures take of either."""
    found = among(own=OWN, rent=rented(1.0))
    return usd(found, "own") / usd(found, "rent")


def test_a_lone_run_flips_it(among):
    """A run of hours does not need a cluster of one's own."""
    verdict = among(own=OWN, rent=rented(5.0)).verdict
    (flip,) = [text for text in verdict.flips_if if text.startswith("nothing else uses the machines after this run")]
    assert "rent" in flip
    assert not any("nothing else" in text for text in among(a=rented(2), b=rented(5)).verdict.flips_if)


def test_capital_commitment_start_and_watts_are_told(among):
    own = among(own=OWN, rent=rented(9.0)).verdict.why
    assert re.search(r"it takes [\d.]+[kM] USD of capital and starts \d+ days after the order", own)
    assert re.search(r"it draws [\d.]+ kW at the meter, [\d.]+ J a token", own)
    assert re.search(r"rent is done [\d.]+ (hours|h|days) after the order", own)
    term = among(own=OWN, bound=rented(0.2, "3y")).verdict.why
    assert re.search(r"it binds for [\d.]+[kM] USD \(3y\)", term)


def test_without_tokens_a_token_is_priced(run, catalogue):
    base = to_dict(run().resolved.scenario)
    named = [(name, load_mapping(base, sets=rented(price))) for name, price in (("a", 1), ("b", 2))]
    found = compare(named, catalogue)
    assert re.match(r"Take a: [\d.]+ USD a million tokens, 50% less than b", found.verdict.sentence)
    assert not any("nothing else" in text for text in found.verdict.flips_if)


def test_one_without_a_price_is_judged_by_speed(among):
    found = among(paid=rented(1), silent=[])
    assert any("the cost of silent is counted too" in text for text in found.verdict.flips_if)
    assert "usd_per_million_tokens" not in found.candidates[1].delta


def test_a_shared_price_moves_no_interval(among):
    """The list price of a term is the same error in both; only the hours differ."""
    found = among(a=["acquire=1y"], b=["acquire=1y", "use.hours=50%"])
    delta = found.candidates[1].delta["usd_per_million_tokens"]
    assert delta.relative == pytest.approx(0.85 / 0.5 - 1, rel=1e-6)
    assert delta.low == pytest.approx(delta.high, rel=1e-9)
    assert delta.probability_better == 0


def test_a_candidate_equals_itself(among):
    found = among(a=OWN, b=OWN)
    for delta in found.candidates[1].delta.values():
        assert (delta.value, delta.relative, delta.low, delta.high, delta.probability_better) == (0, 0, 0, 0, 0.5)
    assert {"usd_per_million_tokens", "wall_days", "energy_per_token_j"} <= set(found.candidates[1].delta)


def test_free_machines_are_refused(among):
    with pytest.raises(InputError, match=r"acquire\.rent\.price"):
        among(free=rented(0), paid=rented(2))


def test_a_stated_flip_holds_with_storage_on_top(among):
    """At the named rent, storage as before, the rival costs the same."""
    dear = ["acquire.rent.term=1y", "acquire.rent.price=4 USD/GPU-h", "acquire.rent.storage=5000 USD/month"]
    cheap = [*rented(2.0, "1y")[:2], "acquire.rent.storage=1000 USD/month"]
    verdict = among(dear=dear, cheap=cheap).verdict
    (flip,) = [text for text in verdict.flips_if if text.startswith("dear is had for less than")]
    limit = float(re.search(r"less than ([\d.]+) USD", flip)[1])
    there = among(dear=[*dear, f"acquire.rent.price={limit} USD/GPU-h"], cheap=cheap)
    assert usd(there, "dear") == pytest.approx(usd(there, "cheap"), rel=0.005)


def test_a_run_that_is_done_before_the_machines_come_needs_no_bridge(among):
    assert "until then" not in among(own=OWN, rent=rented(9.0)).verdict.why


def test_runs_that_outlive_what_is_bound_are_noted(among):
    found = among(own=[*OWN, "use.horizon=2 h"], hourly=rented(9.0), bound=[*rented(3.0, "1y"), "use.horizon=1 year"])
    (note,) = [text for text in found.notes if "got again" in text]
    assert note.startswith("own: ")
