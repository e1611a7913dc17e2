"""The worked example: 256 B200 (32 nodes and a spare), 4 years."""

import pytest

from simcluster.economics.hours import MONTH_S
from simcluster.economics.own import OwnInputs, own_cost
from simcluster.economics.rent import RentInputs


def _own(*, node=450e3, net=4500.0, node_kw=11.0, staff=2, e=0.09, colo=130.0, years=4, **changes):
    """Inputs in the units of a quotation; `changes` are fields of OwnInputs."""
    fields = {
        "nodes_usd": 33 * node,
        "network_usd": 256 * net,
        "storage_usd": 400e3,
        "misc": 0.04,
        "gpus": 256,
        "hours": 0.85,
        "horizon_s": 12 * years * MONTH_S,
        "residual": 0.2,
        "wacc": 0.10,
        "average_w": 32 * node_kw * 1e3 + 24e3,
        "nameplate_w": 33 * 14.3e3 + 24e3,
        "pue": 1.3,
        "electricity_usd_per_j": e / 3.6e6,
        "colocation_usd_per_w_s": colo / 1e3 / MONTH_S,
        "staff_usd_per_year": staff * 220e3,
        "support": 0.04,
    }
    return OwnInputs(**{**fields, **changes})


def _rent(price, term="on-demand", **changes):
    fields = {"usd_per_gpu_hour": price, "gpus": 256, "hours": 0.85, "horizon_s": 48 * MONTH_S, "term": term}
    return RentInputs(**{**fields, **changes})


@pytest.fixture(scope="session")
def b200():
    """Builds OwnInputs of the example."""
    return _own


@pytest.fixture(scope="session")
def b200_rent():
    """Builds RentInputs of the example from a price in USD per GPU-hour and a term."""
    return _rent


@pytest.fixture(scope="session")
def useful():
    """USD per useful GPU-hour of the example."""
    return lambda goodput=0.94, **changes: own_cost(_own(**changes), goodput).per_gpu_hour.useful_usd
