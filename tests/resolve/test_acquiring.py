"""Prices and watts: what is stated is billed, what is not comes from the catalogue and is listed with its doubt."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.hardware.owning import own_defaults
from simcluster.hardware.prices import node_price
from simcluster.hardware.rents import rent_price
from simcluster.resolve import resolve
from simcluster.resolve.terms import OwnTerms, RentTerms
from simcluster.scenario import inline_candidate

STATELESS = [HealthCheck.function_scoped_fixture]  # `settle` resolves anew at each call
HOUR_S, YEAR_S = 3600.0, 31557600.0
MONTH_S = YEAR_S / 12
STATED = {
    "acquire.own.price": "120000 USD/node",
    "acquire.own.network": "2000 USD/GPU",
    "acquire.own.storage": "50000 USD",
    "acquire.own.misc": "5%",
    "acquire.own.residual": "12%",
    "acquire.own.wacc": "8%",
    "acquire.own.support": "3%",
    "acquire.own.insurance": "0.5%",
    "acquire.own.rival": "1.75 USD/GPU-h",
    "acquire.own.staff": "100000 USD/year",
    "acquire.own.lead_time": "6 weeks",
    "facility.electricity": "0.1 USD/kWh",
    "facility.colocation": "150 USD/kW-month",
    "facility.pue": "1.25",
    "use.horizon": "4 years",
    "use.hours": "80%",
    "cluster.spares": "1",
}


@pytest.fixture
def means(settle):
    return lambda *sets: settle(*sets).means()


def test_all_that_is_stated_is_taken(means):
    found = means(*(f"{path}={value}" for path, value in STATED.items()))
    assert found.acquire == OwnTerms(
        nodes_usd=3 * 120_000,
        network_usd=16 * 2000,
        storage_usd=50_000,
        misc=0.05,
        residual=0.12,
        early_residual=pytest.approx(0.525 / 1.05),
        wacc=0.08,
        support=0.03,
        insurance=0.005,
        staff_usd_per_s=pytest.approx(100_000 / YEAR_S),
        lead_time_s=6 * 7 * 86400,
        electricity_usd_per_j=pytest.approx(0.1 / 3.6e6),
        colocation_usd_per_w_s=pytest.approx(0.15 / MONTH_S),
        doubts={},
    )
    assert (found.power.pue, found.horizon_s, found.hours, found.run.spares) == (1.25, 4 * YEAR_S, 0.8, 1)
    assert found.market == RentTerms("on-demand", pytest.approx(1.75 / HOUR_S), 1.0, 0.0, 0.0, 0.0, {})


def test_nothing_that_is_stated_is_listed_as_assumed(means):
    every = {one.path for one in means(*(f"{path}={value}" for path, value in STATED.items())).assumptions}
    free = {one.path for one in means("acquire=own").assumptions}
    gone = {_LISTED_AS.get(path, path) for path in STATED}
    assert gone <= free
    assert every == free - gone


_LISTED_AS = {
    "acquire.own.price": "acquire.own.price_usd_per_node",
    "acquire.own.network": "acquire.own.network_usd",
    "acquire.own.rival": "acquire.own.rival_usd_per_gpu_hour",
}


def test_what_is_not_stated_is_that_of_the_catalogue(settle, catalogue):
    resolved = settle("acquire=own")
    means = resolved.means()
    usual = own_defaults(catalogue, resolved.cluster.node, 8 * (2 + means.run.spares), means.horizon_s)
    terms = means.acquire
    assert terms.nodes_usd == node_price(catalogue, resolved.cluster.node).value * (2 + means.run.spares)
    assert (terms.misc, terms.residual, terms.wacc) == (
        usual.misc_share.value,
        pytest.approx(usual.residual_share.value / (1 + usual.misc_share.value)),  # what is not hardware brings nothing
        usual.wacc_per_year.value,
    )
    assert (terms.support, terms.insurance) == (usual.support_share.value, usual.insurance_share.value)
    assert terms.staff_usd_per_s * YEAR_S == pytest.approx(usual.staff_usd_per_year.value)
    money = {name for name in OwnTerms.__dataclass_fields__ if name not in ("lead_time_s", "doubts", "early_residual")}
    assert set(terms.doubts) == money
    assert min(one.sigma for one in terms.doubts.values()) > 0
    values = {one.path: one.value for one in means.assumptions}
    assert values["acquire.own.price_usd_per_node"] * (2 + means.run.spares) == terms.nodes_usd
    assert all(one.why for one in means.assumptions)


@settings(max_examples=20, suppress_health_check=STATELESS)
@given(st.integers(0, 9), st.floats(1, 1e5), st.sampled_from(["node", "GPU"]))
def test_spares_are_bought_and_the_network_is_not(settle, spares, usd, per):
    """A price of a GPU is one of its share of the server."""
    means = settle(
        f"acquire.own={{price: {usd:.2f} USD/{per}, network: {usd:.2f} USD/GPU}}", f"cluster.spares={spares}"
    ).means()
    each = float(f"{usd:.2f}")
    assert means.acquire.nodes_usd == pytest.approx(each * (8 if per == "GPU" else 1) * (2 + spares))
    assert means.acquire.network_usd == pytest.approx(each * 16)


@pytest.mark.parametrize(("price", "hourly"), [("2.4 USD/GPU-h", 2.4), ("16 USD/h", 2.0)])
@pytest.mark.parametrize("term", ["on-demand", "1y", "3y", "spot"])
def test_a_stated_rent_is_by_gpu_or_by_node(means, term, price, hourly):
    extras = "storage: 730.5 USD/month, egress: 1461 USD/month, support: 3%"
    found = means(f"acquire.rent={{term: {term}, price: {price}, {extras}}}")
    per_hour = (pytest.approx(one / HOUR_S) for one in (1, 2))
    assert found.acquire == RentTerms(term, pytest.approx(hourly / HOUR_S), 1.0, *per_hour, 0.03, {})
    assert found.market is None
    assert not any(one.path.startswith("acquire") for one in found.assumptions)


def test_storage_of_a_rent_is_what_the_job_keeps(settle):
    """600 USD a TB and month; the smallest file system has 1.2 TiB."""
    small, large = (settle("acquire=1y", f"operations.checkpoint.keep={keep}").means() for keep in (1, 5000))
    month = 730.5 * HOUR_S
    assert small.acquire.storage_usd_per_s * month == pytest.approx(600 * 1.2 * 2**40 / 1e12)
    needed = 5000 * large.run.checkpoint_bytes / 0.8
    assert large.acquire.storage_usd_per_s * month == pytest.approx(600 * needed / 1e12)
    assert large.run.storage.write_bytes_per_s == pytest.approx(1e9 * needed / 2**40)
    assert {one.path: one.value for one in small.assumptions}.keys() >= {
        "acquire.rent.storage",
        "acquire.rent.egress",
        "acquire.rent.support",
    }


def test_storage_written_out_is_bought_as_large_as_it_is(settle):
    system = "operations.storage.system={drives: 24, drive: nvme-8tb, nic: 100 Gbit/s, replicas: 2}"
    one, two = (settle("acquire=own", system.replace("24", str(drives))).means() for drives in (24, 48))
    assert one.acquire.storage_usd == pytest.approx(24 * 7.68 * 500)  # 500 USD a TB of flash file system
    assert two.acquire.storage_usd == pytest.approx(2 * one.acquire.storage_usd)
    assert two.power.storage_w == pytest.approx(2 * one.power.storage_w)


def test_storage_that_is_too_small_is_refused(refused):
    (problem,) = refused(
        "operations.storage.system={drives: 1, drive: nvme-8tb, nic: 100 Gbit/s}",
        "operations.checkpoint.keep=100000",
        "acquire=own",
    )
    assert "holds 7.68 TB, the job needs" in problem


@pytest.mark.parametrize("term", ["on-demand", "1y", "3y", "spot"])
def test_a_rent_by_list_is_the_catalogues(settle, catalogue, term):
    resolved = settle(f"acquire={term}", "cluster.node=aws-p4de", "cluster.fabric=null")
    found = rent_price(catalogue, resolved.cluster.node, term)
    means = resolved.means()
    assert means.acquire.usd_per_gpu_s == found.value > 0
    assert means.acquire.doubts["usd_per_gpu_s"].sigma > 0
    said = {one.path: one for one in means.assumptions}["acquire.rent.usd_per_gpu_hour"]
    assert said.value == pytest.approx(found.value * HOUR_S)
    assert found.why in said.why


def test_owning_is_held_against_the_market(settle, catalogue):
    resolved = settle("acquire=own")
    assert resolved.means().market.usd_per_gpu_s == rent_price(catalogue, resolved.cluster.node, "on-demand").value


def test_a_rented_node_stands_in_the_clouds_own_building(means):
    assert means("acquire=on-demand").power.pue < means("acquire=own").power.pue
    assert means("acquire=on-demand", "facility.pue=1.4").power.pue == 1.4


def test_a_missing_price_stands_where_owning_was_written(refused, text):
    text = text.replace("dgx-a100-80gb", "hgx-h20").replace("ib-hdr-200", "ib-ndr-400") + "acquire: {own: {misc: 4%}}\n"
    (problem,) = refused(text=text)
    assert problem.startswith("a.yaml:14:11: acquire.own.price: the catalogue has no purchase price of hgx-h20")
    assert "hardware_db/nodes/hgx-h20.yaml" in problem


def test_a_candidate_is_named_once(catalogue):
    job = {"model": "llama-7b", "training": {"parallelism": {"tp": 1, "pp": 1}}}
    with pytest.raises(InputError) as caught:
        resolve(inline_candidate("1xhgx-h20:own", job), catalogue)
    (problem,) = caught.value.problems
    assert problem.message.count("1xhgx-h20:own") == 1
    assert "acquire.own.price: the catalogue has no purchase price" in problem.message


def test_rated_power_is_the_servers_own(means):
    assert means("acquire=own").power.nameplate_w == 6500.0  # DGX A100


@settings(max_examples=10, suppress_health_check=STATELESS)
@given(st.integers(1, 10**6))
def test_storage_holds_4_tb_a_gpu_or_what_the_job_keeps(settle, keep):
    resolved = settle("acquire=own", f"operations.checkpoint.keep={keep}")
    means = resolved.means()
    size = {one.path: one.value for one in means.assumptions}["operations.storage.capacity_bytes"]
    assert size == pytest.approx(max(16 * 4e12, keep * means.run.checkpoint_bytes / 0.8))
    assert means.power.storage_w / size == pytest.approx(settle().means().power.storage_w / (16 * 4e12))
