"""What running and paying depends on: every key that a user can state counts, or is named as not modelled."""

from dataclasses import asdict

import pytest

from simcluster.evaluation import Evaluation
from simcluster.scenario.money import Acquire, Facility, Own, Rent, Use
from simcluster.scenario.operations import Checkpoint, Failures, Incidents, Operations, Storage, Stragglers

YEAR_S = 31557600.0
TERMS = ("own", "3y", "spot")  # bought, bound, taken away
BASE = ("training.tokens=100B", "facility.pue=1.2")
# A value of every key that is none of those assumed.
RUNNING = {
    "cluster.spares": "4",
    "operations.checkpoint.interval": "20 min",
    "operations.checkpoint.mode": "sync",
    "operations.checkpoint.keep": "50000",
    "operations.checkpoint.verify": "true",
    "operations.failures.rates": "meta-rsc-2",
    "operations.failures.restart": "30 min",
    "operations.failures.incidents.per_month": "2",
    "operations.failures.incidents.diagnose": "{median: 2 h, p90: 5 h}",
    "operations.elastic": "torchelastic",
    "operations.stragglers.node_sigma": "2%",
    "operations.stragglers.slow_nodes": "[{count: 1, factor: 1.1}]",
    "operations.storage.system": "{drives: 800, drive: nvme-8tb, nic: 100 Gbit/s, replicas: 2}",
    "operations.storage.dataset_bytes_per_token": "20000",
    "use.hours": "50%",
    "facility.pue": "1.7",
}
MONEY = {
    "use.horizon": "2 years",
    "facility.electricity": "0.2 USD/kWh",
    "facility.colocation": "200 USD/kW-month",
}
OWNING = {
    "acquire.own.price": "300000 USD/node",
    "acquire.own.residual": "5%",
    "acquire.own.wacc": "3%",
    "acquire.own.lead_time": "3 weeks",
    "acquire.own.network": "3000 USD/GPU",
    "acquire.own.storage": "123456 USD",
    "acquire.own.misc": "1%",
    "acquire.own.support": "1%",
    "acquire.own.insurance": "0.3%",
    "acquire.own.staff": "1000000 USD/year",
    "acquire.own.rival": "1.5 USD/GPU-h",
}
RENTING = {
    "acquire.rent.price": "9 USD/GPU-h",
    "acquire.rent.term": "1y",
    "acquire.rent.storage": "1000 USD/month",
    "acquire.rent.egress": "100 USD/month",
    "acquire.rent.support": "3%",
}


def _keys(part, path):
    return {f"{path}.{name}" for name in part.model_fields}


def test_no_key_is_missing_here():
    """A key that is added to the scenario has to be added above."""
    parts = (
        (Checkpoint, "operations.checkpoint"),
        (Failures, "operations.failures"),
        (Incidents, "operations.failures.incidents"),
        (Operations, "operations"),
        (Stragglers, "operations.stragglers"),
        (Storage, "operations.storage"),
        (Own, "acquire.own"),
        (Rent, "acquire.rent"),
        (Acquire, "acquire"),
        (Use, "use"),
        (Facility, "facility"),
    )
    known = {key for part, path in parts for key in _keys(part, path)}
    holders = {path for _, path in parts}
    assert known - holders == {*RUNNING, *MONEY, *OWNING, *RENTING} - {"cluster.spares"}


def _result(resolved):
    evaluation = Evaluation(resolved)
    return asdict(evaluation.run), asdict(evaluation.power), asdict(evaluation.cost) if evaluation.cost else None


@pytest.fixture(scope="module")
def plain():
    """Results without the key, by way to get the machines."""
    return {}


def _counts(settle, plain, path, value, sets):
    """The key moves days, watts or dollars, or is named; and is not assumed either way."""
    if sets not in plain:
        plain[sets] = _result(settle(*sets))
    stated = settle(*sets, f"{path}={value}")
    evaluation = Evaluation(stated)
    assert evaluation.assumptions
    assumed = [one.path for one in evaluation.assumptions]
    assert path not in assumed
    assert not any(one.startswith(f"{path}.") for one in assumed)
    moved = _result(stated) != plain[sets]
    named = any(path == one or path.startswith(f"{one}.") for one in evaluation.unmodelled)
    assert moved != named


@pytest.mark.parametrize("term", TERMS)
@pytest.mark.parametrize("path", RUNNING)
def test_every_key_of_running_counts_or_is_named(settle, plain, path, term):
    more = ("operations.failures.incidents.per_month=1",) if path.endswith("diagnose") else ()
    if path == "operations.failures.incidents.per_month":
        path, value = "operations.failures.incidents", "{per_month: 2, diagnose: {median: 1 h, p90: 3 h}}"
    else:
        value = RUNNING[path]
    _counts(settle, plain, path, value, (*BASE, f"acquire={term}", *more))


@pytest.mark.parametrize("path", [*MONEY, *OWNING])
def test_every_key_of_owning_counts(settle, plain, path):
    _counts(settle, plain, path, {**MONEY, **OWNING}[path], (*BASE, "acquire=own"))


@pytest.mark.parametrize("path", RENTING)
@pytest.mark.parametrize("term", ["on-demand", "3y", "spot"])
def test_every_key_of_renting_counts(settle, plain, path, term):
    _counts(settle, plain, path, RENTING[path], (*BASE, f"acquire.rent.term={term}"))


def test_a_horizon_shorter_than_the_term_counts(settle, plain):
    _counts(settle, plain, "use.horizon", "2 years", (*BASE, "acquire.rent.term=3y"))


@pytest.mark.parametrize(
    ("term", "path"),
    [
        *((term, path) for term in ("on-demand", "spot") for path in MONEY),
        *(("3y", path) for path in MONEY if path.startswith("facility")),
    ],
)
def test_what_a_rent_does_not_read_is_named(settle, plain, term, path):
    _counts(settle, plain, path, MONEY[path], (*BASE, f"acquire={term}"))


@pytest.mark.parametrize("path", MONEY)
def test_what_nobody_pays_is_named(settle, plain, path):
    _counts(settle, plain, path, MONEY[path], BASE)


@pytest.mark.parametrize(("term", "years"), [("own", None), ("on-demand", 1), ("spot", 1), ("1y", 1), ("3y", 3)])
def test_the_horizon_is_the_term(settle, catalogue, term, years):
    means = settle(f"acquire={term}").means()
    listed = {one.path: one.value for one in means.assumptions}
    if years is None:
        assert means.horizon_s > YEAR_S
    else:
        assert means.horizon_s == years * YEAR_S
    assert listed["use.horizon"] == means.horizon_s
    stated = settle(f"acquire={term}", "use.horizon=30 months").means()
    assert stated.horizon_s == pytest.approx(2.5 * YEAR_S)
    assert "use.horizon" not in {one.path for one in stated.assumptions}


def test_the_resale_follows_a_stated_horizon(settle):
    shares = [settle("acquire=own", f"use.horizon={years} years").means().acquire.residual for years in (1, 2, 4, 6)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 2 * shares[-1]


def test_nothing_of_it_changes_a_step(settle):
    keys = {**RUNNING, **MONEY, **OWNING}
    changed = settle(*BASE, *(f"{path}={value}" for path, value in keys.items()))
    plain = settle(*BASE)
    assert changed.plan == plain.plan
    assert changed.layout == plain.layout
    assert Evaluation(changed).step == Evaluation(plain).step
    assert {one.path for one in changed.assumptions} == {one.path for one in plain.assumptions}


def test_it_is_settled_once_and_only_when_asked(settle, monkeypatch):
    from simcluster.resolve import means as room

    asked = []
    monkeypatch.setattr(room, "run_terms", lambda *_: asked.append(1))
    settle("training.tokens=1T")
    assert asked == []
    monkeypatch.undo()
    resolved = settle("acquire=own")
    assert resolved.means() is resolved.means()


def test_problems_of_step_and_money_come_together(refused, text):
    text = text.replace("dgx-a100-80gb", "hgx-h20").replace("ib-hdr-200", "ib-ndr-400")
    found = refused("training.precision=fp32", text=text + "acquire: own\noperations: {failures: {rates: nobody}}\n")
    assert {"acquire.own.price" in one for one in found} == {True, False}
    assert any("nobody" in one for one in found)
    assert any("precision fp32" in one for one in found)
    assert len(found) == 3


def test_where_values_come_from(settle):
    means = settle("acquire=own", "use.hours=70%").means()
    assert means.hours == pytest.approx(0.7)
    assert means.values["acquire.own.wacc"][1].startswith("assumed: ")
    assert {one.path: one.value for one in means.assumptions} == {
        path: value for path, (value, origin) in means.values.items() if origin.startswith("assumed")
    }
