from __future__ import annotations

from typing import Any

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.inline import inline_fabric, inline_node


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def test_base_gives_what_is_not_stated(catalogue: Catalogue) -> None:
    base, _ = catalogue.node("dgx-h100")
    node, assumed = inline_node({"base": "dgx-h100", "nics": "4x 400 Gbit/s", "ram": "4 TiB"}, catalogue)
    assert (node.nics, node.nic_bytes_per_s, node.fabric, node.ram_bytes) == (4, 50e9, "ib-ndr-400", 2**42)
    assert (node.gpu, node.gpus, node.price_usd) == (base.gpu, 8, base.price_usd)
    assert node.id != base.id
    assert assumed == ()


def test_domain_follows_the_number_of_gpus(catalogue: Catalogue) -> None:
    node, assumed = inline_node({"base": "dgx-h100", "gpus": 4}, catalogue)
    assert (node.gpus, node.scale_up_domain) == (4, 4)
    assert [a.path for a in assumed] == ["cluster.node.scale_up_domain"]


def test_other_cards_have_no_usual_fabric(catalogue: Catalogue) -> None:
    assert inline_node({"base": "dgx-h100", "nics": "8x 200 Gbit/s"}, catalogue)[0].fabric == ""


def test_other_gpu_brings_its_link(catalogue: Catalogue) -> None:
    node, _ = inline_node({"base": "dgx-a100-80gb", "gpu": "h100-80gb-sxm"}, catalogue)
    assert (node.gpu.id, node.scale_up, node.scale_up_bytes_per_s) == ("h100-80gb-sxm", "nvlink4", 450e9)


def test_scale_up_by_name(catalogue: Catalogue) -> None:
    node, _ = inline_node({"gpu": "A100-80GB-SXM", "gpus": 8, "scale_up": "pcie4", "scale_up_domain": 4}, catalogue)
    assert (node.scale_up, node.scale_up_bytes_per_s, node.scale_up_domain) == ("pcie4", 32e9, 4)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["gpu is missing", "gpus is missing"]),
        ({"gpu": "h100-80gb-sxm"}, ["gpus is missing"]),
        ({"gpu": "h100-80gb-sxm", "gpus": 0}, ["whole number from 1"]),
        ({"base": "dgx-h100", "nics": "eight"}, ["write '8x 400 Gbit/s'"]),
        ({"base": "dgx-h100", "ram": "2048"}, ["has no unit"]),
        ({"base": "dgx-h100", "nic": 3}, ["unknown key 'nic'; did you mean 'nics'?"]),
        ({"base": "dgx-h100", "scale_up": "nvlink44"}, ["no fabric 'nvlink44'"]),
        ({"base": "dgx-h100", "scale_up": "nvlink"}, ["no rate of its own"]),
    ],
)
def test_wrong_nodes(catalogue: Catalogue, given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        inline_node(given, catalogue)
    assert all(word in str(caught.value) for word in words)


def test_fabric_takes_the_id_of_its_equal_only(catalogue: Catalogue) -> None:
    same, _ = inline_fabric({"protocol": "ib", "link": 50e9}, catalogue)
    assert (same.id, same.switch_radix) == ("ib-ndr-400", 64)
    other, _ = inline_fabric({"protocol": "roce", "link": "300 Gbit/s"}, catalogue)
    assert (other.id, other.switch_radix, other.entry) == ("roce-300", 0, None)


def test_switch_ports_split(catalogue: Catalogue) -> None:
    fabric, _ = inline_fabric({"base": "roce-200", "switch": "SN5600"}, catalogue)
    assert (fabric.switch, fabric.switch_radix) == ("sn5600", 256)


def test_options_are_kept(catalogue: Catalogue) -> None:
    given = {
        "base": "roce-400", "links_per_node": 4, "rails": False, "oversubscription": 2, "routing": "spray",
        "storage": "shared",
    }  # fmt: skip
    fabric, _ = inline_fabric(given, catalogue)
    assert (fabric.nics_per_node, fabric.rails, fabric.oversubscription) == (4, False, {"leaf": 2.0})
    assert (fabric.routing, fabric.storage) == ("spray", "shared")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"protocol": "rocky", "link": 5e10}, "did you mean 'roce'?"),
        ({"protocol": "roce"}, "link is missing"),
        ({"protocol": "roce", "link": "400"}, "has no unit"),
        ({"base": "roce-400", "oversubscription": {"top": 2}}, "unknown tier 'top'"),
        ({"base": "roce-400", "oversubscription": {"leaf": 0}}, "number above 0"),
        ({"base": "roce-400", "switch": "sn5601"}, "did you mean"),
        ({"base": "roce-400", "switch": "roce-200"}, "is a fabric, not a switch"),
        ({"base": "roce-400", "switch": "qm8700"}, "slower than the link"),
        ({"base": "roce-400", "rails": "yes"}, "true or false"),
    ],
)
def test_wrong_fabrics(catalogue: Catalogue, given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        inline_fabric(given, catalogue)
    assert words in str(caught.value)
