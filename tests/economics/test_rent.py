"""What each term pays for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.economics.hours import MONTH_S
from simcluster.economics.rent import rent_cost
from simcluster.errors import InputError

ALL_HOURS = 256 * 730.0


def test_on_demand_pays_used_hours(b200_rent):
    cost = rent_cost(b200_rent(3.75), 0.94)
    assert cost.month_usd == pytest.approx(3.75 * ALL_HOURS * 0.85)
    assert cost.per_gpu_hour.used_usd == pytest.approx(3.75)
    assert cost.per_gpu_hour.useful_usd == pytest.approx(3.75 / 0.94)
    assert cost.commitment_usd == 0


@pytest.mark.parametrize(("term", "months"), [("1y", 12), ("3y", 36)])
def test_reserved_pays_every_hour(b200_rent, term, months):
    cost = rent_cost(b200_rent(2.9, term))
    assert cost.per_gpu_hour.provisioned_usd == pytest.approx(2.9)
    assert cost.per_gpu_hour.used_usd == pytest.approx(2.9 / 0.85)
    assert cost.commitment_usd == pytest.approx(2.9 * ALL_HOURS * months)
    assert cost.total_usd == pytest.approx(2.9 * ALL_HOURS * 48)


def test_a_short_need_still_owes_the_term(b200_rent):
    cost = rent_cost(b200_rent(2.0, "1y", horizon_s=3 * MONTH_S))
    assert cost.paid_months == 12
    assert cost.total_usd == pytest.approx(cost.commitment_usd) == pytest.approx(2.0 * ALL_HOURS * 12)
    assert cost.per_gpu_hour.provisioned_usd == pytest.approx(8.0)


@given(st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_use_matters_only_to_who_pays_for_all_hours(b200_rent, one, two):
    low, high = sorted((one, two))
    demand = [rent_cost(b200_rent(3.0, hours=u)).per_gpu_hour.used_usd for u in (low, high)]
    assert demand[0] == pytest.approx(demand[1])
    reserved = [rent_cost(b200_rent(3.0, "3y", hours=u)).per_gpu_hour.used_usd for u in (low, high)]
    assert reserved[1] <= reserved[0]


def test_what_comes_on_top(b200_rent):
    cost = rent_cost(b200_rent(2.0, "1y", support=0.1, egress_usd_per_month=100.0, storage_usd_per_month=200.0))
    rental = 2.0 * ALL_HOURS
    assert dict(cost.items()) == pytest.approx(
        {"rental": rental, "support": 0.1 * rental, "egress": 100.0, "storage": 200.0}
    )
    assert cost.month_usd == pytest.approx(1.1 * rental + 300)


def test_all_that_is_wrong_is_told(b200_rent):
    with pytest.raises(InputError) as caught:
        rent_cost(b200_rent(-1.0, "2y", hours=0.0), goodput=0.0)
    named = {problem.message.split(":")[0] for problem in caught.value.problems}
    assert named == {"usd_per_gpu_hour", "hours", "goodput", "term"}
