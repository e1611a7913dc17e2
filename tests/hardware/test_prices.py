from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.found import Found, age_note, date_key
from simcluster.hardware.inline import inline_node
from simcluster.hardware.node import NodeSpec
from simcluster.hardware.prices import node_price, storage_price

QUOTE = """
id: {id}
type: node
extends: {id}
sources: {{q: {{source: quotation of our vendor, date: "2026-10", kind: datasheet}}}}
values: {{price: {{value: 123456, unit: USD, from: q}}}}
"""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def node(catalogue: Catalogue, name: str) -> NodeSpec:
    return catalogue.node(name)[0]


@pytest.mark.parametrize(
    ("name", "usd", "kind"),
    [
        ("hgx-b200", 338496, "datasheet"),  # Lenovo LP2368
        ("gb200-nvl72", 3.5e6, "estimate"),  # middle of 3 to 4 million
        ("aws-p5", 8 * 28000 * 1.12, "estimate"),  # of a cloud: accelerators and a server around them
        ("dgx-gb200", 4 * 51000, "estimate"),  # a rack's price over its accelerators holds the server
    ],
)
def test_node_price(catalogue: Catalogue, name: str, usd: float, kind: str) -> None:
    found = node_price(catalogue, node(catalogue, name))
    assert (found.value, found.kind) == (pytest.approx(usd), kind)
    assert found.source
    assert found.why


def test_server_share_agrees_with_the_priced_servers(catalogue: Catalogue) -> None:
    for gpu, server in (("h100-80gb-sxm", "hgx-h100"), ("h200-141gb-sxm", "hgx-h200"), ("b200-sxm", "hgx-b200")):
        inline, _ = inline_node({"gpu": gpu, "gpus": 8, "nics": "8x 400 Gbit/s"}, catalogue)
        known = node_price(catalogue, node(catalogue, server)).value
        assert node_price(catalogue, inline).value == pytest.approx(known, rel=0.1)


def test_old_prices_are_said(catalogue: Catalogue) -> None:
    assert "an old price, 2023" in node_price(catalogue, node(catalogue, "dgx-a100-80gb")).why
    assert "old" not in node_price(catalogue, node(catalogue, "dgx-b200")).why


def test_another_accelerator_drops_the_price(catalogue: Catalogue) -> None:
    changed, _ = inline_node({"base": "dgx-h100", "gpus": 4}, catalogue)
    assert node_price(catalogue, changed).value == pytest.approx(4 * 28000 * 1.12)


def test_no_price_names_the_file(catalogue: Catalogue, tmp_path: Path) -> None:
    h800 = node(catalogue, "hgx-h800")
    with pytest.raises(InputError, match=r"no purchase price of hgx-h800.*hardware_db/nodes/hgx-h800\.yaml"):
        node_price(catalogue, h800)
    inline, _ = inline_node({"gpu": "h800-80gb-sxm", "gpus": 8}, catalogue)
    with pytest.raises(InputError, match=r"hardware_db/prices/gpu-purchase\.yaml"):
        node_price(catalogue, inline)
    own = tmp_path / "nodes" / "hgx-h800.yaml"
    with pytest.raises(InputError, match=str(own)):
        node_price(Catalogue.load(tmp_path), h800)


def test_a_users_price_wins(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    file = tmp_path / "nodes" / "hgx-b200.yaml"
    file.write_text(QUOTE.format(id="hgx-b200").replace("extends: hgx-b200\n", ""))
    own = Catalogue.load(tmp_path)
    found = node_price(own, node(own, "hgx-b200"))
    assert (found.value, found.source, found.date) == (123456, "quotation of our vendor", "2026-10")


def test_storage_price(catalogue: Catalogue) -> None:
    assert storage_price(catalogue, 1e15).value == pytest.approx(500e3)
    assert storage_price(catalogue, 2e15, "weka-8-node").value == pytest.approx(1e6)
    assert storage_price(catalogue, 1e15, "superpod-su-good").value == pytest.approx(500e3)  # states no price


def test_dates() -> None:
    assert date_key("2026-09") > date_key("2026-H1") > date_key("2025..2026-05") > date_key("2025")
    assert date_key("lately") == (0, 0, 0)


def test_age_counts_from_the_newest_rent(catalogue: Catalogue) -> None:
    assert age_note(catalogue, "2025-09") == ""
    assert age_note(catalogue, "2025-08") == "an old price, 2025-08"


def test_times_keeps_the_source() -> None:
    found = Found(3.0, "a", "sheet", "2026", "measured").times(2.0, "b")
    assert found == Found(6.0, "b", "sheet", "2026", "measured")
