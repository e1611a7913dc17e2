"""A price that nobody has: the file that lacks it is named, and stating it is enough."""

from __future__ import annotations

import re

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.prices import node_price
from simcluster.hardware.rents import rent_price
from simcluster.shapes import TERM_MONTHS
from simcluster.study import compare, load_candidates

JOB = {"model": "llama-7b", "training": {"tokens": "1T"}}


def _price_or_refusal(look_up, *arguments):
    try:
        return look_up(*arguments).value
    except InputError as error:
        return str(error)


def test_no_node_is_free(catalogue):
    """Every node of the catalogue has prices above zero, or an error that names where to put one."""
    nodes = [catalogue.node(entry.id)[0] for entry in catalogue.entries("nodes")]
    found = [_price_or_refusal(node_price, catalogue, node) for node in nodes]
    found += [_price_or_refusal(rent_price, catalogue, node, term) for node in nodes for term in TERM_MONTHS]
    refused = [one for one in found if isinstance(one, str)]
    assert all(re.search(r"hardware_db/(nodes|prices|clouds)/[a-z0-9-]+\.yaml", one) for one in refused)
    assert 0 < len(refused) < len(found)
    assert all(one > 0 for one in found if not isinstance(one, str))


@pytest.mark.parametrize("node", ["hgx-h20", "hgx-a800-80gb"])
def test_a_missing_price_names_the_file_and_the_key(catalogue, unpriced, node):
    words = [f"4x{node}:own", f"4x{node}:3y"]
    with pytest.raises(InputError) as caught:
        compare(load_candidates(words, job=JOB), catalogue)
    own, rent = sorted(str(problem) for problem in caught.value.problems)[::-1]
    assert own.startswith(words[0])
    assert f"hardware_db/{unpriced[node]}" in own
    assert "or state acquire.own.price" in own
    assert rent.startswith(words[1])
    assert "hardware_db/clouds/market.yaml" in rent
    assert "or state acquire.rent.price" in rent


def test_problems_of_all_candidates_come_at_once(catalogue, unpriced):
    words = [*(f"4x{node}:own" for node in unpriced), "2xnothing:1y", "4xhgx-h20:spot", "2xdgx-h100:own"]
    with pytest.raises(InputError) as caught:
        compare(load_candidates(words, job=JOB), catalogue)
    found = [str(problem) for problem in caught.value.problems]
    assert len(found) == 4
    for word in words[:-1]:
        assert any(problem.startswith(f"{word}: ") for problem in found), word


def test_a_folder_with_the_price_mends_it(quoted, unpriced):
    store = Catalogue.load(quoted)
    comparison = compare(load_candidates([f"4x{node}:own" for node in unpriced], job=JOB), store)
    for one in comparison.candidates:
        terms = one.evaluation.means.acquire
        assert terms.nodes_usd == 250_000 * (4 + one.evaluation.means.run.spares)
        assert terms.doubts["nodes_usd"].sigma > 0
        assert one.evaluation.cost.total_usd > 0


def test_a_stated_price_mends_it(catalogue, unpriced):
    sets = ["acquire.own.price=250000 USD/node"]
    (one, _) = compare(
        load_candidates([f"4x{node}:own" for node in unpriced], sets=sets, job=JOB), catalogue
    ).candidates
    assert one.evaluation.means.acquire.nodes_usd == 250_000 * (4 + one.evaluation.means.run.spares)


def test_what_is_not_asked_for_needs_no_price(catalogue, unpriced):
    """Without a word on how the machines are got there are days and watts, and no dollars."""
    (one, _) = compare(load_candidates([f"4x{node}" for node in unpriced], job=JOB), catalogue).candidates
    assert one.evaluation.cost is None
    assert one.evaluation.run.wall_s > 0
    assert one.evaluation.power.facility_average_w > 0
