"""Comparisons that the tests of pages share."""

from __future__ import annotations

import pytest

from simcluster.reports.layout import Page
from simcluster.scenario import load_mapping, to_dict
from simcluster.study import Comparison, compare


@pytest.fixture(scope="session")
def versus(run, catalogue):
    """`versus({name: sets, …})` compares the base scenario, called base, with changed ones."""
    base = to_dict(run().resolved.scenario)

    def call(changes: dict[str, list[str]]) -> Comparison:
        return compare(
            [(name, load_mapping(base, sets=sets)) for name, sets in {"base": [], **changes}.items()], catalogue
        )

    return call


@pytest.fixture(scope="session")
def pair(versus):
    return versus({"slow": ["cluster.fabric=tcp-10"]})


@pytest.fixture(scope="session")
def three(versus):
    return versus({"slow": ["cluster.fabric=tcp-10"], "big": ["cluster.nodes=4", "cluster.spares=2"]})


@pytest.fixture(scope="session")
def ascii_page() -> Page:
    return Page(bar="#", dash="-", arrow="->")
