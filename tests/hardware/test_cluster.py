from __future__ import annotations

import time
from typing import Any

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster, cluster_from


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def assumed(cluster: Cluster) -> dict[str, Any]:
    return {a.path: a.value for a in cluster.assumptions}


def test_named_cluster(catalogue: Catalogue) -> None:
    cluster = cluster_from("dgx-a100-80gb", 64, "ib-hdr-200", catalogue=catalogue, spares=2)
    assert (cluster.gpus, cluster.total_gpus, cluster.nics) == (512, 528, 512)
    rates = cluster.network_rates()
    assert (rates.gpu, rates.scale_up, rates.scale_up_bytes_per_s) == ("a100-80gb-sxm", "nvlink3", 300e9)
    assert (rates.fabric, rates.protocol, rates.nic_bytes_per_s, rates.nics_per_node) == ("ib-hdr-200", "ib", 25e9, 8)
    assert (rates.domain_gpus, rates.gpus_per_node, rates.oversubscription) == (8, 8, 1.0)
    assert "cluster.fabric" not in assumed(cluster)


def test_usual_fabric_is_an_assumption(catalogue: Catalogue) -> None:
    cluster = cluster_from("aws-p5", 16, catalogue=catalogue)
    assert assumed(cluster)["cluster.fabric"] == "efa-v2"
    assert cluster.nics_per_node * cluster.nic_bytes_per_s == pytest.approx(400e9)  # 3.2 Tbit/s


def test_one_node_needs_no_fabric(catalogue: Catalogue) -> None:
    cluster = cluster_from("dgx-h100", 1, catalogue=catalogue)
    assert cluster.network_rates().fabric == "none"
    assert cluster.assumptions == ()
    assert cluster_from("dgx-h100", 1, "NVLink4/NVSwitch", catalogue=catalogue).fabric.protocol == "none"


def test_link_inside_the_node_says_nothing_about_the_fabric(catalogue: Catalogue) -> None:
    cluster = cluster_from("dgx-h100", 2, "NVLink", catalogue=catalogue)
    assert assumed(cluster)["cluster.fabric"] == "ib-ndr-400"


@pytest.mark.parametrize(
    ("node", "fabric", "count", "rate", "listed"),
    [
        ("dgx-h100", "roce-200", 8, 25e9, {"cluster.fabric.link"}),
        ("dgx-a100-80gb", "ib-ndr-400", 8, 31.5e9, {"cluster.fabric.link"}),  # PCI Express 4.0 x16
        ("aws-p5", "ib-ndr-400", 8, 50e9, {"cluster.fabric.link", "cluster.fabric.links_per_node"}),
        ("dgx-h100", "efa-v2", 32, 12.5e9, {"cluster.fabric.link", "cluster.fabric.links_per_node"}),
        ("dgx-h100", "roce", 8, 50e9, {"cluster.fabric.link"}),  # no rate in the name
        ("dgx-a100-80gb", "4x HDR200 IB per node", 4, 25e9, set()),
    ],
)
def test_swapped_fabrics(
    catalogue: Catalogue, node: str, fabric: str, count: int, rate: float, listed: set[str]
) -> None:
    cluster = cluster_from(node, 16, fabric, catalogue=catalogue)
    assert (cluster.nics_per_node, cluster.nic_bytes_per_s) == (count, pytest.approx(rate))
    assert set(assumed(cluster)) - {"cluster.fabric.tiers"} == listed


@pytest.mark.parametrize(
    ("node", "nodes", "fabric", "words"),
    [
        ("dgx-h100", 0, None, "nodes 0"),
        ("dgx-h100", 2, "none", "cannot join 2 nodes"),
        ("lambda-gpu-8x-h100-sxm5", 2, None, "need a fabric"),
        ({"gpu": "H100-SXM", "gpus": 8}, 2, None, "need a fabric"),
        ({"gpu": "H100-SXM", "gpus": 8}, 2, "ib", "is not known"),
        ("dgx-h100", 2, {"base": "ib-ndr-400", "tiers": 2, "oversubscription": {"spine": 2}}, "set tiers: 3"),
        ("dgx-h100", 2, "ib-ndr-401", "no fabric 'ib-ndr-401'; did you mean ib-ndr-400"),
    ],
)
def test_impossible_clusters(catalogue: Catalogue, node: Any, nodes: int, fabric: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster_from(node, nodes, fabric, catalogue=catalogue)
    assert words in str(caught.value)


def test_rented_h100_with_a_stated_fabric(catalogue: Catalogue) -> None:
    cluster = cluster_from("lambda-gpu-8x-h100-sxm5", 4, "ib-ndr-400", catalogue=catalogue)
    assert (cluster.nics_per_node, cluster.nic_bytes_per_s) == (8, 50e9)


def test_oversubscription_needs_the_tiers_it_speaks_of(catalogue: Catalogue) -> None:
    flat = cluster_from("dgx-h100", 8, {"base": "ib-ndr-400"}, catalogue=catalogue)
    assert (flat.tiers, flat.oversubscription) == (1, 1.0)
    leaf = cluster_from("dgx-h100", 8, {"base": "ib-ndr-400", "oversubscription": {"leaf": 2}}, catalogue=catalogue)
    assert (leaf.tiers, leaf.oversubscription) == (2, 2.0)
    both = {"base": "ib-ndr-400", "oversubscription": {"leaf": 2, "spine": 3}}
    deep = cluster_from("dgx-h100", 8, both, catalogue=catalogue)
    assert (deep.tiers, deep.oversubscription) == (3, 6.0)


def test_inline_node_on_inline_fabric(catalogue: Catalogue) -> None:
    node = {"gpu": "H200-SXM", "gpus": 4, "nics": {"count": 2, "link": 25e9}, "ram": "1 TiB", "power": None}
    fabric = {"protocol": "roce", "link": "400 Gbit/s", "tiers": 3}
    cluster = cluster_from(node, 8, fabric, catalogue=catalogue)
    assert (cluster.gpus, cluster.nics_per_node, cluster.nic_bytes_per_s, cluster.tiers) == (32, 2, 25e9, 3)
    assert cluster.node.ram_bytes == 2**40
    assert cluster.network_rates().domain_gpus == 4
    assert "cluster.node.scale_up_domain" in assumed(cluster)


def test_loading_one_cluster_is_fast() -> None:
    best = min(_seconds() for _ in range(5))
    assert best < 0.04


def _seconds() -> float:
    start = time.perf_counter()
    cluster_from("DGX-A100-80", 64, "8x HDR200", catalogue=Catalogue.load())
    return time.perf_counter() - start
