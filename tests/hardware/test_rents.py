from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.found import Found
from simcluster.hardware.rents import rent_price
from simcluster.shapes import TERM_MONTHS

OWN_CLOUD = """
id: market
type: cloud
sources: {q: {source: our own index, date: "2026-11", kind: measured, confidence: high}}
table:
  - {instance: index, gpu: b200-sxm, gpus: 8, term: 3y, value: 2.9, unit: USD/GPU-h, from: q}
"""


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return Catalogue.load()


def rent(catalogue: Catalogue, name: str, term: str) -> Found:
    return rent_price(catalogue, catalogue.node(name)[0], term)


@pytest.mark.parametrize(
    ("name", "term", "usd_per_h", "kind", "words"),
    [
        ("aws-p5", "on-demand", 6.88, "datasheet", "2026-09-17"),  # newest of two dates
        ("aws-p5", "3y", 2.972, "datasheet", "Amazon Web Services p5.48xlarge"),
        ("aws-p5", "1y", 6.88 * 0.63, "estimate", "37 % (one year, off the list) off 6.88"),
        ("aws-p6-b200", "1y", 11.215, "datasheet", "no-upfront savings plan"),
        ("aws-p6-b200", "3y", 6.153, "datasheet", "10.459 no-upfront"),
        ("nebius-h100-sxm", "spot", 1.25, "datasheet", "preemptible"),
        ("coreweave-gd-8xh100ib", "on-demand", 6.155, "estimate", "no price of coreweave-gd-8xh100ib"),
        ("lambda-gpu-8x-h100-sxm5", "on-demand", 3.99, "datasheet", "Lambda"),
        ("gcp-a4-highgpu-8g", "on-demand", 8.06, "estimate", "no on-demand price"),
        ("aws-p4de-24xlarge", "on-demand", 3.43, "estimate", "an old price, 2025-07-01"),
    ],
)  # fmt: skip
def test_listed(catalogue: Catalogue, name: str, term: str, usd_per_h: float, kind: str, words: str) -> None:
    found = rent(catalogue, name, term)
    assert found.value * 3600 == pytest.approx(usd_per_h)
    assert found.kind == kind
    assert words in found.why


@pytest.mark.parametrize(
    ("name", "term", "usd_per_h", "words"),
    [
        ("dgx-h100", "on-demand", 2.78, "1.87 to 4.47"),  # three indices of one day
        ("dgx-h100", "1y", 2.35, "1-yr contract neocloud"),
        ("dgx-h100", "3y", 2.35, "no dearer than 1y"),
        ("hgx-b200", "on-demand", 6.69, "5.50 to 14.24"),  # median of nine providers
        ("hgx-b200", "1y", 6.69, "no dearer than on-demand"),
        ("hgx-b200", "spot", 4.954, "3.96 to 5.88"),  # an index of low confidence is one voice of three
        ("mi300x-x8", "3y", 6 * 0.44, "56 %"),
    ],
)
def test_market(catalogue: Catalogue, name: str, term: str, usd_per_h: float, words: str) -> None:
    found = rent(catalogue, name, term)
    assert found.value * 3600 == pytest.approx(usd_per_h)
    assert found.kind == "estimate"
    assert words in found.why


def test_longer_terms_of_the_market_are_never_dearer(catalogue: Catalogue) -> None:
    for gpu in ("a100-80gb-sxm", "h100-80gb-sxm", "h200-141gb-sxm", "b200-sxm", "b300-sxm", "gb200"):
        name = next(e.id for e in catalogue.entries("nodes") if e.text("gpu") == gpu and not e.text("provider"))
        demand, one, three, spot = (rent(catalogue, name, term).value for term in TERM_MONTHS)
        assert three <= one <= demand
        assert spot <= demand


def test_every_rented_node_has_a_price_or_an_error_with_its_file(catalogue: Catalogue) -> None:
    for entry in catalogue.entries("nodes"):
        for term in TERM_MONTHS:
            said = ""
            try:
                usd_per_h = rent(catalogue, entry.id, term).value * 3600
            except InputError as error:
                said, usd_per_h = str(error), 1.0
            assert 0.1 < usd_per_h < 30, (entry.id, term)
            assert not said or f"hardware_db/clouds/{entry.text('provider') or 'market'}.yaml" in said


def test_errors(catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match=r"no 3y rent of vr200.*hardware_db/clouds/market\.yaml"):
        rent(catalogue, "vr200-nvl72", "3y")
    with pytest.raises(InputError, match="rent term 'weekly' is unknown; one of on-demand, 1y, 3y, spot"):
        rent(catalogue, "dgx-h100", "weekly")


def test_a_users_index_comes_first(tmp_path: Path) -> None:
    (tmp_path / "clouds").mkdir()
    (tmp_path / "clouds" / "market.yaml").write_text(OWN_CLOUD)
    found = rent(Catalogue.load(tmp_path), "dgx-b200", "3y")
    assert found.value * 3600 == pytest.approx(2.9)
    assert found.source == "our own index"


def test_a_users_quote_replaces_the_list(tmp_path: Path) -> None:
    (tmp_path / "clouds").mkdir()
    (tmp_path / "clouds" / "nebius.yaml").write_text(
        "id: nebius\ntype: cloud\n"
        'sources: {q: {source: offer to our company, date: "2026-11", kind: datasheet}}\ntable:\n'
        "  - {instance: h100-sxm, gpu: h100-80gb-sxm, gpus: 8, term: on-demand, value: 2.4, unit: USD/GPU-h, from: q}\n"
    )
    found = rent(Catalogue.load(tmp_path), "nebius-h100-sxm", "on-demand")
    assert (found.value * 3600, found.source) == (pytest.approx(2.4), "offer to our company")
