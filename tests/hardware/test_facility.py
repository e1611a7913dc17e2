from __future__ import annotations

import pytest

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.facility import NodePower, is_liquid_cooled, node_power
from simcluster.hardware.inline import inline_node
from simcluster.hardware.node import NodeSpec

CATALOGUE = Catalogue.load()


def both(name: str) -> tuple[NodeSpec, NodePower]:
    node = CATALOGUE.node(name)[0]
    return node, node_power(CATALOGUE, node)


@pytest.mark.parametrize(
    ("name", "host_w", "fans_w", "full_w"), [("hgx-h100", 1450, 930, 8403), ("dgx-b200", 2300, 1700, 12618)]
)
def test_stated(name: str, host_w: float, fans_w: float, full_w: float) -> None:
    node, power = both(name)
    assert (power.host.value, power.fans.value) == (host_w, fans_w)
    assert power.full_load_w(node) == pytest.approx(full_w)


def test_full_load_of_others_is_what_their_rating_or_training_says() -> None:
    for name, full in (
        ("dgx-a100-80gb", 0.83 * 6500),
        ("gb200-nvl72", 120e3),
        ("dgx-gb300", 7500),
        ("mi355x-x8", 15500),
    ):
        node, power = both(name)
        assert power.full_load_w(node) == pytest.approx(full), name
        assert power.host.kind == power.fans.kind == "estimate"


def test_a_rented_node_takes_the_server_with_its_accelerator() -> None:
    assert both("aws-p5")[1].host.value == 1450
    whole, part = both("dgx-a100-80gb")[1], both("gcp-a2-ultragpu-1g")[1]
    assert part.host.value == pytest.approx(whole.host.value / 8)
    assert "gcp-a2-ultragpu-1g" in part.host.why


def test_cooling() -> None:
    assert is_liquid_cooled(both("gb200-nvl72")[0])
    assert not is_liquid_cooled(both("dgx-h100")[0])
    air, liquid = both("dgx-b300")[1], both("gb300-nvl72")[1]
    assert liquid.fans.value / liquid.host.value < 0.1 < air.fans.value / air.host.value


def test_every_node_has_a_plausible_power() -> None:
    for entry in CATALOGUE.entries("nodes"):
        node, power = both(entry.id)
        assert power.host.value > 0
        assert power.fans.value > 0
        gpus = node.gpus * node.gpu.power_limit_w
        assert 1.2 * gpus < power.full_load_w(node) < 2.0 * gpus, entry.id
        if node.power_max_w:
            assert power.full_load_w(node) <= node.power_max_w * (1 + 1e-9), entry.id


def test_nodes_that_the_user_describes() -> None:
    rated, _ = inline_node({"gpu": "h100-80gb-sxm", "gpus": 8, "power": "10 kW"}, CATALOGUE)
    assert node_power(CATALOGUE, rated).full_load_w(rated) == pytest.approx(8300)
    half, _ = inline_node({"base": "dgx-h100", "gpus": 4}, CATALOGUE)
    assert node_power(CATALOGUE, half).host.value == pytest.approx(725)
    unknown, _ = inline_node({"gpu": "rtx-5070-ti", "gpus": 2}, CATALOGUE)
    assert node_power(CATALOGUE, unknown).host.value == pytest.approx(0.26 * 2 * unknown.gpu.power_limit_w)
