from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.clos import ClosCounts, clos_counts
from simcluster.hardware.entry import Row

# Dual-plane 64-port switches of 800 Gbit/s are wired as two networks of 128 ports of 400 Gbit/s.
RADIX = {"qm8700": (40, 1), "qm9700": (64, 1), "q3400": (144, 1), "sn5610": (128, 2)}
COLUMNS = ("leaf", "spine", "core", "cables_node_leaf", "cables_leaf_spine", "cables_spine_core")
TABLE = [row for row in Catalogue.load().entry("networks", "superpod-topologies").table if "leaf" in row.labels]


def named(row: Row) -> str:
    return f"{row.text('system')}-{row.text('switch')}-{row.labels['nodes']}"


@pytest.mark.parametrize("row", TABLE, ids=named)
def test_superpod_tables(row: Row) -> None:
    nodes = int(row.labels["nodes"])
    radix, planes = RADIX[row.text("switch")]
    counts = clos_counts(nodes, 8, radix)
    leaf, spine, core, *cables = (int(row.labels[column]) for column in COLUMNS)
    if (row.text("system"), nodes) == ("DGX A100", 20):
        spine, cables[1] = 4, 160  # recalled as 5 and 164, with low confidence; four switches carry full bisection
    if nodes % 32 == 31 and row.text("system") == "DGX H100/H200":
        cables[0] -= 4  # four cables go to the fabric manager, which is no node
    assert [switches * planes for switches in counts.switches] == [leaf, spine, core]
    assert list(counts.cables) == cables


def test_gb200_unit_needs_at_least_its_arithmetic_floor() -> None:
    racks, trays = clos_counts(8, 72, 64), clos_counts(144, 4, 64)
    assert racks.leaf == trays.leaf == 18
    assert racks.spine == trays.spine == 16  # nine carry it, but do not divide 32 uplinks
    assert racks.cables_node_leaf == 576


def test_a_spare_node_does_not_double_the_leaves() -> None:
    assert clos_counts(32, 8, 64).leaf == 8
    assert clos_counts(33, 8, 64).leaf == 9


def test_stated_tiers() -> None:
    assert clos_counts(32, 8, 64, tiers=1).switches == (4, 0, 0)  # two rails a switch, no way between the others
    assert clos_counts(64, 8, 64, tiers=1).switches == (8, 0, 0)
    assert clos_counts(33, 8, 64, tiers=1, rails=False).switches[1] > 0  # one tier cannot hold it
    assert clos_counts(64, 8, 64, tiers=3).core > 0


def test_oversubscription_saves_upper_switches() -> None:
    full, tapered = clos_counts(128, 8, 64), clos_counts(128, 8, 64, oversubscription={"leaf": 3})
    assert (full.spine, tapered.leaf, tapered.cables_leaf_spine) == (16, 24, 24 * 16)
    spine = clos_counts(512, 8, 64, oversubscription={"spine": 3}, tiers=3)
    assert spine.core * 2 < clos_counts(512, 8, 64).core


def test_more_than_three_tiers_is_an_error() -> None:
    with pytest.raises(InputError, match="three tiers of switches with 64 ports cannot join 80000 cards"):
        clos_counts(10000, 8, 64)
    assert clos_counts(8192, 8, 64).switches == (2048, 2048, 1024)  # radix^3 / 4 cards


RATIOS = st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 7.0])


def counted(
    nodes: int, nics: int, radix: int, rails: bool, tiers: int = 0, leaf: float = 1, spine: float = 1
) -> ClosCounts:
    try:
        ratios = {"leaf": leaf, "spine": spine}
        return clos_counts(nodes, nics, radix, tiers=tiers, rails=rails, oversubscription=ratios)
    except InputError:
        assume(False)
        raise


@given(
    st.integers(1, 3000), st.integers(1, 32), st.sampled_from([32, 36, 40, 64, 128, 144]), st.booleans(),
    st.sampled_from([0, 2, 3]), RATIOS, RATIOS,
)  # fmt: skip
def test_ports_and_bisection(
    nodes: int, nics: int, radix: int, rails: bool, tiers: int, leaf: float, spine: float
) -> None:
    counts = counted(nodes, nics, radix, rails, tiers, leaf, spine)
    down, up, top = counts.cables
    assert down == nodes * nics
    assert down + up <= counts.leaf * radix
    assert up + top <= counts.spine * radix
    assert top <= counts.core * radix
    if counts.spine:
        assert up * leaf >= down - 1e-6
    if counts.core:
        assert top * spine >= up - 1e-6


@given(st.integers(1, 3000), st.integers(1, 16), st.sampled_from([32, 40, 64, 144]), st.booleans())
def test_never_fewer_for_more_nodes(nodes: int, nics: int, radix: int, rails: bool) -> None:
    less, more = counted(nodes, nics, radix, rails), counted(nodes + 1, nics, radix, rails)
    assert all(a <= b for a, b in zip((*less.switches, *less.cables), (*more.switches, *more.cables)))
