"""Dollars: items sum, hours and goodput divide, prices scale, owning meets renting at the break-even rent."""

import math
from dataclasses import asdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

PAID_IDLE = ("own", "1y", "3y")
BY_USE = ("on-demand", "spot")
TERMS = (*PAID_IDLE, *BY_USE)
TERM_MONTHS = {"1y": 12, "3y": 36, "on-demand": 0, "spot": 0}
HOURS = st.floats(0.05, 1.0)
PRICES = st.floats(0.01, 100)
MONTH_H = 730


def job(term="own", hours=0.85, price=None, tokens="20B", **more):
    """A change of the base scenario; `price` of a GPU, or of a GPU and hour."""
    acquire = {"own": {}} if term == "own" else {"rent": {"term": term, "storage": "0 USD/month"}}
    if price is not None:
        holder = acquire["own" if term == "own" else "rent"]
        holder["price"] = f"{price} USD/GPU" if term == "own" else f"{price} USD/GPU-h"
    return {"training": {"tokens": tokens}, "acquire": acquire, "use": {"hours": hours}, **more}


@settings(max_examples=25)
@given(st.sampled_from(TERMS), HOURS, PRICES)
def test_every_figure_follows_from_the_month(run, term, hours, price):
    evaluation = run(job(term, hours, price))
    cost, found, gpus = evaluation.cost, evaluation.run, 16
    hour = cost.per_gpu_hour
    assert hour.provisioned_usd == pytest.approx(sum(cost.monthly_usd.values()) / (gpus * MONTH_H), rel=1e-12)
    assert hour.used_usd == pytest.approx(hour.provisioned_usd / hours, rel=1e-12)
    paid = 1 - found.interruptions_per_s.get("Pre-emption", 0) * 3600  # an hour for other machines is not paid
    assert (paid < 1) == (term == "spot")
    assert hour.useful_usd == pytest.approx(hour.used_usd / found.goodput * paid, rel=1e-12)
    useful_s = gpus * 1e6 / evaluation.step.tokens_per_s
    assert cost.usd_per_million_tokens == pytest.approx(hour.useful_usd * useful_s / 3600, rel=1e-12)
    assert cost.total_usd == pytest.approx(found.wall_s * paid / 3600 * gpus * hour.used_usd, rel=1e-12)
    assert min(cost.monthly_usd.values()) >= 0


@pytest.mark.parametrize("term", TERMS)
def test_total_and_token_agree(run, term):
    """Goodput is that of the run, its start included."""
    cost = run(job(term)).cost
    assert cost.total_usd == pytest.approx(cost.usd_per_million_tokens * 20e9 / 1e6, rel=1e-9)


@settings(max_examples=20)
@given(st.sampled_from(PAID_IDLE), HOURS, HOURS)
def test_hours_of_use_make_paid_machines_cheaper(run, term, one, other):
    few, many = (run(job(term, hours)).cost for hours in sorted((one, other)))
    assert many.usd_per_million_tokens <= few.usd_per_million_tokens * (1 + 1e-12)
    if term != "own":
        ratio = max(one, other) / min(one, other)
        assert few.usd_per_million_tokens == pytest.approx(many.usd_per_million_tokens * ratio, rel=1e-9)


@settings(max_examples=10)
@given(st.sampled_from(BY_USE), HOURS)
def test_machines_by_the_hour_do_not_care(run, term, hours):
    assert run(job(term, hours)).cost.usd_per_million_tokens == pytest.approx(
        run(job(term, 1.0)).cost.usd_per_million_tokens, rel=1e-12
    )


@settings(max_examples=20)
@given(st.sampled_from(("1y", "3y", "on-demand", "spot")), PRICES, st.floats(0.1, 10))
def test_rents_scale_with_their_price(run, term, price, factor):
    one, other = run(job(term, price=price)).cost, run(job(term, price=price * factor)).cost
    for key in ("usd_per_million_tokens", "total_usd", "alone_usd", "commitment_usd"):
        assert getattr(other, key) == pytest.approx(factor * getattr(one, key), rel=1e-9), key


def _all_stated(factor=1.0):
    own = {
        "price": f"{150_000 * factor} USD/node",
        "network": f"{2000 * factor} USD/GPU",
        "storage": f"{50_000 * factor} USD",
        "staff": f"{100_000 * factor} USD/year",
    }
    facility = {"electricity": f"{0.1 * factor} USD/kWh", "colocation": f"{150 * factor} USD/kW-month"}
    return {**job(), "acquire": {"own": own}, "facility": facility}


@settings(max_examples=10)
@given(st.floats(0.1, 10))
def test_owning_scales_with_all_its_prices(run, factor):
    one, other = run(_all_stated()).cost, run(_all_stated(factor)).cost
    for key in ("usd_per_million_tokens", "total_usd", "alone_usd", "capital_usd"):
        assert getattr(other, key) == pytest.approx(factor * getattr(one, key), rel=1e-9), key
    assert other.monthly_usd == pytest.approx({name: factor * usd for name, usd in one.monthly_usd.items()}, rel=1e-9)


@settings(max_examples=20)
@given(st.sampled_from(("1y", "3y")), HOURS, PRICES, st.integers(1, 5000))
def test_a_run_without_other_work_pays_the_whole_term(run, term, hours, price, billions):
    evaluation = run(job(term, hours, price, f"{billions}B"))
    cost, owed = evaluation.cost, price * 16 * MONTH_H * TERM_MONTHS[term]
    assert cost.commitment_usd == pytest.approx(owed, rel=1e-9)
    assert cost.alone_usd == pytest.approx(max(price * 16 * evaluation.run.wall_s / 3600, owed), rel=1e-9)


@settings(max_examples=10)
@given(st.sampled_from(BY_USE), HOURS, PRICES)
def test_by_the_hour_a_lone_run_costs_its_share(run, term, hours, price):
    cost = run(job(term, hours, price)).cost
    assert cost.commitment_usd == 0
    assert cost.alone_usd == pytest.approx(cost.total_usd, rel=1e-12)
    if term == "on-demand":
        assert cost.alone_usd == pytest.approx(price * 16 * run(job(term, hours, price)).run.wall_s / 3600, rel=1e-9)


def test_bought_machines_are_sold_after_a_lone_run(run):
    """By hand: capital less a resale that falls geometrically, level payments over the months of the run.

    Nobody pays more for used machines than for those that are a year old, however short the run.
    """
    change = _all_stated()
    change["acquire"]["own"] |= {"residual": "20%", "wacc": "10%", "misc": "4%"}
    change |= {"use": {"horizon": "4 years", "hours": 0.85}}
    evaluation = run(change)
    cost, terms = evaluation.cost, evaluation.means.acquire
    hardware = terms.nodes_usd + terms.network_usd + terms.storage_usd
    assert cost.capital_usd == pytest.approx(1.04 * hardware)
    months = evaluation.run.wall_s / 3600 / MONTH_H
    i = 1.1 ** (1 / 12) - 1
    assert months < 12
    sold = cost.capital_usd * terms.early_residual
    charge = (cost.capital_usd - sold / (1 + i) ** months) * i / (1 - (1 + i) ** -months)
    running = sum(cost.monthly_usd.values()) - cost.monthly_usd["capital"]
    assert cost.alone_usd == pytest.approx((charge + running) * months, rel=1e-9)


def test_a_month_of_owning_by_hand(run):
    change = _all_stated()
    change["acquire"]["own"] |= {"residual": "0%", "wacc": "0%", "misc": "0%", "support": "6%"}
    change |= {"use": {"horizon": "4 years", "hours": 1.0}}
    evaluation = run(change)
    cost, power = evaluation.cost, evaluation.power
    hardware = (2 + evaluation.means.run.spares) * 150_000 + 16 * 2000 + 50_000
    assert cost.capital_usd == hardware
    assert cost.monthly_usd == pytest.approx(
        {
            "capital": hardware / 48,
            "electricity": power.facility_average_w / 1e3 * MONTH_H * 0.1,
            "colocation": power.it_nameplate_w / 1e3 * 150,
            "staff": 100_000 / 12,
            "support": 0.06 * hardware / 12,
            "other": evaluation.means.acquire.insurance * hardware / 12,
        },
        rel=1e-9,
    )


def test_rent_breaks_even_at_the_price_of_a_used_hour(run):
    """Paid for used hours it is what such an hour costs; below it renting is cheaper, above it owning."""
    cost = run(job()).cost
    even = cost.break_even
    assert even.rent_usd_per_gpu_hour == pytest.approx(cost.per_gpu_hour.used_usd, rel=1e-9)
    assert even.rent_usd_per_gpu_hour_paid == pytest.approx(cost.per_gpu_hour.provisioned_usd, rel=1e-9)
    assert (even.npv_own_usd > 0) == (even.rival_usd_per_gpu_hour > even.rent_usd_per_gpu_hour)
    assert even.month is None or even.month_without_resale is None or even.month <= even.month_without_resale


def test_dear_machines_never_pay(run):
    even = run(job(price=1_000_000)).cost.break_even
    assert (even.month, even.month_without_resale) == (None, None)
    assert even.npv_own_usd < 0


def test_only_bought_machines_have_capital_and_a_start(run):
    for term in TERMS:
        cost = run(job(term)).cost
        assert cost.acquire == term
        assert (cost.capital_usd > 0) == (cost.starts_after_s > 0) == (cost.break_even is not None) == (term == "own")


@settings(max_examples=10)
@given(st.integers(0, 6))
def test_spare_nodes_are_paid_for(run, spares):
    none, some = (run({**_all_stated(), "cluster": {"spares": count}}).cost for count in (0, spares))
    misc = run(_all_stated()).means.acquire.misc
    assert some.capital_usd - none.capital_usd == pytest.approx(spares * 150_000 * (1 + misc))


def test_spare_nodes_of_a_rent_are_paid_for_too(run):
    none, some = (run({**job("1y", price=2), "cluster": {"spares": count}}).cost for count in (0, 4))
    assert sum(some.monthly_usd.values()) == pytest.approx(3 * sum(none.monthly_usd.values()))


@pytest.mark.parametrize("term", ["own", "1y"])
def test_doubt_moves_a_token_by_its_share(run, catalogue, term):
    """A price of the catalogue moves the cost of a token as its share says; the oracle states the price anew."""
    evaluation = run(
        {"training": {"tokens": "20B"}, "acquire": {"own": {}} if term == "own" else {"rent": {"term": term}}}
    )
    shares = {one.evidence: one.share for one in evaluation.cost.error_terms}
    assert len(shares) == len(evaluation.cost.error_terms)
    terms = evaluation.means.acquire
    if term == "own":
        value, name = terms.nodes_usd / (2 + evaluation.means.run.spares), "nodes_usd"
        dearer = {"own": {"price": f"{1.01 * value} USD/node"}}
    else:
        value, name = terms.usd_per_gpu_s * 3600, "usd_per_gpu_s"
        dearer = {"rent": {"term": term, "price": f"{1.01 * value} USD/GPU-h"}}
    moved = run({"training": {"tokens": "20B"}, "acquire": dearer}).cost.usd_per_million_tokens
    slope = math.log(moved / evaluation.cost.usd_per_million_tokens) / math.log(1.01)
    assert shares[f"price:{terms.doubts[name].row}"] == pytest.approx(slope, rel=0.01)
    low, high = evaluation.token_cost_band
    assert low < evaluation.cost.usd_per_million_tokens < high
    assert math.sqrt(low * high) == pytest.approx(evaluation.cost.usd_per_million_tokens, rel=1e-9)


def test_what_is_stated_is_sure(run):
    change = _all_stated()
    names = ("misc", "residual", "support", "insurance", "wacc")
    change["acquire"]["own"] |= dict.fromkeys(names, "7%")
    assert run(change).cost.error_terms == ()
    assert run(job("1y", price=2)).cost.error_terms == ()


def test_unlike_offers_do_not_cancel(run):
    """Two clouds' lists for one GPU and term are two prices; one offer named twice is one."""
    nodes = ("nebius-b200-sxm", "coreweave-hgx-b200")
    found = [
        {one.evidence for one in run({"cluster": {"node": node, "fabric": None}, **job("on-demand")}).cost.error_terms}
        for node in (*nodes, nodes[0])
    ]
    assert found[0] == found[2]
    assert found[0].isdisjoint(found[1])


def test_a_lone_run_that_outlives_its_machines_buys_others(run):
    """Whole lives at the level cost, and machines that are sold early in the last one."""
    change = {**_all_stated(), "use": {"horizon": "8 h", "hours": 1.0}, "training": {"tokens": "20B"}}
    evaluation = run(change)
    kept_s = 8 * 3600 * 730 / 730.5  # bills count months of 730 h
    lives = evaluation.run.wall_s // kept_s
    month = sum(evaluation.cost.monthly_usd.values())
    assert evaluation.cost.alone_usd > month * lives * kept_s / (730 * 3600)
    assert evaluation.cost.alone_usd >= evaluation.cost.total_usd * (1 - 1e-9)


@pytest.mark.parametrize("residual", ["0%", "0.1%", "30%"])
def test_a_short_lone_run_does_not_ask_what_machines_bring_in_the_end(run, residual):
    """Machines that are worth nothing after years still bring what year-old ones do."""
    change = _all_stated()
    change["acquire"]["own"]["residual"] = residual
    plain = run(_all_stated()).cost.alone_usd
    assert run(change).cost.alone_usd == pytest.approx(plain, rel=1e-9)


def test_unlike_hours_do_not_change_a_lone_run_by_the_hour(run):
    rent = {"rent": {"term": "on-demand", "price": "2 USD/GPU-h", "storage": "100000 USD/month"}}
    costs = [
        run({"training": {"tokens": "20B"}, "acquire": rent, "use": {"hours": hours}}).cost.alone_usd
        for hours in (0.5, 1.0)
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def test_bills_of_a_month_are_the_stated_ones(run):
    rent = {"rent": {"term": "1y", "price": "2 USD/GPU-h", "storage": "2000 USD/month", "egress": "500 USD/month"}}
    monthly = run({"acquire": rent}).cost.monthly_usd
    assert (monthly["storage"], monthly["egress"]) == (pytest.approx(2000), pytest.approx(500))


def test_losing_spot_machines_is_a_doubt_of_its_own(run):
    evaluation = run(job("spot"))
    run_terms = {one.evidence: one for one in evaluation.run_error_terms}
    paid = {one.evidence: one for one in evaluation.token_error_terms}
    assert run_terms["preemptions:spot"].sigma > 0
    assert paid["preemptions:spot"].share < run_terms["preemptions:spot"].share
    stated = {**job("spot"), "operations": {"failures": {"rates": {"interruptions_per_node_day": 0.01}}}}
    names = {one.evidence for one in run(stated).run_error_terms}
    assert "preemptions:spot" in names
    assert not any(name.startswith("failures") for name in names)


def test_without_a_word_on_getting_them_there_is_no_cost(run):
    evaluation = run({"training": {"tokens": "20B"}})
    assert evaluation.cost is None
    assert evaluation.token_cost_band == (0.0, 0.0)
    assert evaluation.token_error_terms == evaluation.run_error_terms


@pytest.mark.parametrize("term", TERMS)
def test_without_tokens_there_is_no_total(run, term):
    cost = run(job(term, tokens=None)).cost
    assert (cost.total_usd, cost.alone_usd) == (None, None)
    assert cost.usd_per_million_tokens > 0


def test_failures_cost_money(run):
    few, many = (
        run(job(operations={"failures": {"rates": {"interruptions_per_node_day": rate}}}, cluster={"spares": 1})).cost
        for rate in (0.001, 0.1)
    )
    assert few.monthly_usd == pytest.approx(many.monthly_usd, rel=1e-9)
    assert many.usd_per_million_tokens > few.usd_per_million_tokens


def test_it_is_plain_data(run):
    for term in TERMS:
        for value in asdict(run(job(term)).cost).values():
            assert not isinstance(value, float) or math.isfinite(value)


@pytest.mark.parametrize(("block", "key", "value"), [("use", "hours", "0%"), ("use", "horizon", "0 days")])
def test_no_hours_are_refused_where_they_are_written(run, block, key, value):
    from simcluster.errors import InputError

    with pytest.raises(InputError) as caught:
        run({**job(), block: {key: value}}).cost  # noqa: B018
    assert f"{block}.{key}" in str(caught.value)
