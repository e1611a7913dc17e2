"""The table of weeks, watts and dollars: each row says the evaluation's figure."""

import pytest

from simcluster.reports.layout import Page
from simcluster.reports.outlook import outlook_table
from simcluster.units import format_percent, format_power, format_seconds, format_usd

PAGE = Page()


def rows(evaluation, page=PAGE):
    return {row[0]: row[1:] for row in outlook_table(evaluation, page).rows}


def job(acquire, tokens="20B", **more):
    return {"training": {"tokens": tokens}, "acquire": acquire, "use": {"hours": 0.5}, **more}


@pytest.fixture(scope="module")
def own(run):
    return run(job("own", cluster={"spares": 1}))


def test_weeks(own):
    found = rows(own)
    wall, span = found["run"]
    assert wall == format_seconds(own.run.wall_s)
    assert format_seconds(own.run.wall_s_p10) in span
    assert format_seconds(own.run.wall_s_p90) in span
    assert found["goodput"][0] == format_percent(own.run.goodput)
    assert f"writing checkpoints {format_percent(own.run.shares['checkpoint'])}" in found["goodput"][1]
    assert "slow nodes" not in found["goodput"][1]
    assert found["time between interruptions"][0] == format_seconds(own.run.mtbf_s)
    assert found["time between interruptions"][1].endswith("1 spare node")
    assert found["time between checkpoints"][1] == f"{own.run.interval_steps} steps"


def test_watts(own):
    meter, parts = rows(own)["power at the meter"]
    assert meter == format_power(own.power.facility_average_w)
    assert format_power(own.power.it_average_w) in parts
    assert format_power(own.power.gpu_average_w) in parts
    assert rows(own)["energy a token"][0] == f"{own.power.energy_per_token_j:.3g} J"


def test_dollars_of_owning(own):
    found, cost = rows(own), own.cost
    assert found["a useful GPU-hour"][0] == format_usd(cost.per_gpu_hour.useful_usd)
    assert "at work 50%" in found["a useful GPU-hour"][1]
    assert found["a million tokens"][0] == format_usd(cost.usd_per_million_tokens)
    assert found["cost of the run"][0] == format_usd(cost.total_usd)
    assert format_usd(cost.alone_usd) in found["cost of the run"][1]
    month, items = found["a month"]
    assert month == format_usd(sum(cost.monthly_usd.values()))
    assert all(f"{name} {format_usd(value)}" in items for name, value in cost.monthly_usd.items() if value)
    assert found["capital"][0] == format_usd(cost.capital_usd)
    assert f"{cost.starts_after_s / 86400:.0f} days" in found["capital"][1]
    assert found["break-even rent"][0] == format_usd(cost.break_even.rent_usd_per_gpu_hour)
    assert format_usd(cost.break_even.rival_usd_per_gpu_hour) in found["owning pays"][1]
    assert "commitment" not in found


def test_owning_that_never_pays(run):
    found = rows(run(job({"own": {"price": "9000000 USD/node"}})))
    assert found["owning pays"][0] == "never"
    assert "without a resale never" in found["owning pays"][1]


@pytest.mark.parametrize("term", ["on-demand", "1y", "3y", "spot"])
def test_dollars_of_renting(run, term):
    found = rows(run(job({"rent": {"term": term, "price": "2 USD/GPU-h"}})))
    assert not {"capital", "owning pays", "break-even rent"} & set(found)
    assert ("commitment" in found) == (term in ("1y", "3y"))
    if "commitment" in found:
        years = {"1y": 1, "3y": 3}[term]
        assert found["commitment"][0] == format_usd(2.0 * 16 * 8760 * years)
        assert term in found["commitment"][1]


def test_without_tokens_and_money_little_is_said(run):
    assert set(rows(run({"operations": {"failures": {"rates": {"interruptions_per_node_day": 0}}}}))) == {
        "goodput",
        "power at the meter",
        "energy a token",
    }


def test_two_spares_are_nodes(run):
    assert rows(run(job("own", cluster={"spares": 2})))["time between interruptions"][1].endswith("2 spare nodes")


def test_ascii_pages_get_ascii(own):
    page = Page(bar="#", dash="-", arrow="->")
    assert all(cell.isascii() for row in outlook_table(own, page).rows for cell in row)
