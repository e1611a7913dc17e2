from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.owning import own_defaults, pue, residual_share, staff
from simcluster.units import WEEK_S, YEAR_S

CATALOGUE = Catalogue.load()


def test_defaults_are_traced() -> None:
    own = own_defaults(CATALOGUE, CATALOGUE.node("dgx-b200")[0], 256, 4 * YEAR_S)
    for field in fields(own):
        found = getattr(own, field.name)
        assert found.value > 0, field.name
        assert found.why, field.name
        assert found.source, field.name
        assert found.kind in ("datasheet", "measured", "estimate", "derived"), field.name
    assert own.wacc_per_year.value == pytest.approx(0.10)
    assert own.colocation.value * 1e3 * YEAR_S / 12 == pytest.approx(184.06)  # USD/kW-month, CBRE
    assert own.electricity.value * 3.6e6 == pytest.approx(0.0883)
    assert own.lead_time.value == pytest.approx(12 * WEEK_S)
    assert own.residual_share.value == pytest.approx(0.175)  # 15 to 20 % after four years
    assert own_defaults(CATALOGUE, CATALOGUE.node("dgx-b200")[0], 256).life.value == pytest.approx(4.5 * YEAR_S)


def test_pue_by_cooling() -> None:
    air, liquid = CATALOGUE.node("dgx-b200")[0], CATALOGUE.node("dgx-gb200")[0]
    assert [pue(CATALOGUE, air).value, pue(CATALOGUE, liquid).value, pue(CATALOGUE, air, rented=True).value] == [
        1.3, 1.14, 1.1,
    ]  # fmt: skip


@pytest.mark.parametrize(("years", "share"), [(0, 1), (1, 0.625), (2, 0.425), (3, 0.3), (5, 0.125)])
def test_residual_passes_through_the_rows(years: float, share: float) -> None:
    assert residual_share(CATALOGUE, "h100-80gb-sxm", years * YEAR_S).value == pytest.approx(share)


def test_residual_of_an_accelerator_with_its_own_rows() -> None:
    found = residual_share(CATALOGUE, "a100-80gb-sxm", 3 * YEAR_S)
    assert found.value == pytest.approx(0.225)
    assert "a100-80gb-sxm" in found.why


@given(st.floats(0, 20), st.floats(0, 20), st.sampled_from(["h100-80gb-sxm", "a100-80gb-sxm", "b200-sxm"]))
def test_residual_only_falls(one: float, other: float, gpu: str) -> None:
    early, late = (residual_share(CATALOGUE, gpu, years * YEAR_S).value for years in sorted((one, other)))
    assert 0 < late <= early <= 1


@given(st.integers(1, 300_000), st.integers(1, 300_000))
def test_staff_grows_slower_than_the_cluster(one: int, other: int) -> None:
    small, large = sorted((one, other))
    few, many = staff(CATALOGUE, small).value, staff(CATALOGUE, large).value
    assert few <= many * (1 + 1e-12)
    assert many / large <= few / small * (1 + 1e-12)
    assert 90 < many / large < 1000  # USD per GPU and year
