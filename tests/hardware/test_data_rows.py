from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.entry import Entry
from simcluster.hardware.schema import KINDS

LISTED = (Path(__file__).parent / "data_rows.txt").read_text(encoding="utf-8").split("\n")[:-1]


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    catalogue = Catalogue.load()
    return [entry for kind in KINDS for entry in catalogue.entries(kind)]


def test_no_collected_fact_is_lost(entries: list[Entry]) -> None:
    carried = {line for entry in entries for line in entry.covers()}
    assert set(LISTED) - carried == set()
    assert carried - set(LISTED) == set()


def test_the_list_itself() -> None:
    assert len(LISTED) == len(set(LISTED)) == 516
    sets = Counter(line.split("/")[0] for line in LISTED)
    assert sets == {
        "gpus": 44, "nodes": 44, "network": 57, "superpod_topology": 23, "storage": 33, "power_cooling": 55,
        "economics": 55, "reliability": 92, "cloud_prices": 102, "h100_price_history": 11,
    }  # fmt: skip


def test_every_value_is_traceable(entries: list[Entry]) -> None:
    known = Catalogue.load().sources()
    for entry in entries:
        for key, quantity in entry.quantities():
            for one in (quantity, *quantity.conflicts):
                source = one.provenance
                assert source.source, (entry.id, key)
                assert source.date, (entry.id, key)
                assert source.unit or isinstance(one.value, str), (entry.id, key)
                assert source.source in known or " " in source.source, (entry.id, key)


def test_what_rests_on_memory_never_looks_sourced(entries: list[Entry]) -> None:
    for entry in entries:
        for key, quantity in entry.quantities():
            for one in (quantity, *quantity.conflicts):
                if one.provenance.source == "general-knowledge":
                    assert one.provenance.kind == "estimate", (entry.id, key)


def test_sources_are_public_references() -> None:
    for source, told in Catalogue.load().sources().items():
        text = f"{source} {told['title']} {told['reference']}".lower()
        assert not any(word in text for word in ("copy ", "index id"))


def test_at_least_32_accelerators_of_five_makers(entries: list[Entry]) -> None:
    makers = Counter(entry.text("vendor") for entry in entries if entry.kind == "gpus")
    assert sum(makers.values()) >= 44
    assert {"NVIDIA", "AMD", "Intel", "Google", "AWS"} <= set(makers)
