from __future__ import annotations

import pytest

from simcluster.hardware.bill import bill_of_materials
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import cluster_from
from simcluster.hardware.prices import network_price


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def test_1024_h100(catalogue: Catalogue) -> None:
    bill = bill_of_materials(catalogue, cluster_from("dgx-h100", 128, catalogue=catalogue))
    assert (bill.nodes, bill.gpus, bill.nics, bill.switches) == (128, 1024, 1024, 48)
    # a twin-port module ends two cables: 1024/2 at the leaves' hosts' side, 2 x 1024/2 between the tiers
    assert bill.optics == {"optic-400g-sr4": 1024, "optic-800g-2xsr4": 512 + 1024}
    assert sum(bill.cables.values()) == 2048
    assert bill.switch_w == 48 * 747
    assert bill.optics_w == 1024 * 8 + 1536 * 15
    # general knowledge: the InfiniBand network takes 4 to 7 % of the nodes' power
    assert 0.04 < bill.network_w / (128 * 8403) < 0.07
    # a cost sheet of August 2024: 48 switches, 4.25 kUSD a GPU
    assert network_price(catalogue, bill).value / 1024 == pytest.approx(4247, rel=0.1)


def test_spares_are_in_every_number(catalogue: Catalogue) -> None:
    plain = bill_of_materials(catalogue, cluster_from("dgx-b200", 33, catalogue=catalogue))
    spared = bill_of_materials(catalogue, cluster_from("dgx-b200", 32, catalogue=catalogue, spares=1))
    assert spared == plain
    assert spared.gpus == 264


def test_no_network_on_one_node(catalogue: Catalogue) -> None:
    bill = bill_of_materials(catalogue, cluster_from("dgx-h100", 1, catalogue=catalogue))
    assert (bill.tiers, bill.network_w, network_price(catalogue, bill).value) == ((), 0.0, 0.0)


def test_switch_of_twice_the_rate_has_twice_the_ports(catalogue: Catalogue) -> None:
    bill = bill_of_materials(catalogue, cluster_from("dgx-h100", 64, "roce-400", catalogue=catalogue))
    assert (bill.switch, bill.switch_radix, [tier.switches for tier in bill.tiers]) == ("sn5600", 128, [8, 4])


def test_unknown_switches_are_said(catalogue: Catalogue) -> None:
    bill = bill_of_materials(catalogue, cluster_from("aws-p5", 16, catalogue=catalogue))
    assert "switches of efa-v2 are not known" in bill.notes[0]
    assert not bill.priced
    assert bill.network_w > 0
    price = network_price(catalogue, bill)
    assert (price.value / bill.gpus, price.kind) == (pytest.approx(1650), "estimate")  # 32 cards of 100 Gbit/s


@pytest.mark.parametrize(
    ("protocol", "gbit", "switch", "radix"),
    [
        ("ib", 200, "qm8700", 40), ("ib", 400, "qm9700", 64), ("ib", 800, "q3400", 144),
        ("tcp", 50, "sn4600c", 128), ("roce", 300, "tomahawk-4", 64), ("roce", 800, "sn5600", 64),
    ],
)  # fmt: skip
def test_stand_in_switch_by_rate(catalogue: Catalogue, protocol: str, gbit: int, switch: str, radix: int) -> None:
    fabric = {"protocol": protocol, "link": f"{gbit} Gbit/s", "links_per_node": 8}
    node = {"base": "hgx-b300", "nics": f"8x {gbit} Gbit/s"}
    bill = bill_of_materials(catalogue, cluster_from(node, 16, fabric, catalogue=catalogue))
    assert (bill.switch, bill.switch_radix) == (switch, radix)


def test_a_slow_slot_does_not_change_the_cables(catalogue: Catalogue) -> None:
    slow = bill_of_materials(catalogue, cluster_from("dgx-a100-80gb", 32, "ib-ndr-400", catalogue=catalogue))
    fast = bill_of_materials(catalogue, cluster_from("dgx-h100", 32, "ib-ndr-400", catalogue=catalogue))
    assert slow.nic_bytes_per_s < fast.nic_bytes_per_s
    assert slow.optics == fast.optics
