from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.storage import (
    managed_price,
    managed_rates,
    needed_capacity,
    storage_power_w,
    storage_rates,
    usual_capacity,
    written_capacity_bytes,
    written_storage_rates,
)

CATALOGUE = Catalogue.load()


@pytest.mark.parametrize(
    ("system", "nodes", "read", "write"),
    [
        (None, 1, 8e9, 4e9),  # no more than a node should have
        (None, 32, 40e9, 20e9),
        (None, 128, 160e9, 80e9),  # DGX H100 reference architecture, four units, better
        ("superpod-su-best", 128, 500e9, 248e9),
        ("superpod-node-good", 10, 40e9, 20e9),
        ("weka-8-node", 500, 85e9, 50e9),
        ("b200-504-gpu-storage", 63, 150e9, 40e9),
    ],
)
def test_rates(system: str | None, nodes: int, read: float, write: float) -> None:
    rates = storage_rates(CATALOGUE, system, nodes, 1e15)
    assert (rates.read.value, rates.write.value) == (pytest.approx(read), pytest.approx(write))


def test_rate_that_grows_with_capacity() -> None:
    assert storage_rates(CATALOGUE, "lustre-cloud-1000", 8, 100 * 2.0**40).read.value == pytest.approx(100e9)


def test_no_write_rate_is_half_of_the_read_rate() -> None:
    rates = storage_rates(CATALOGUE, "object-s3-connection", 4, 1e15)
    assert rates.write.value == rates.read.value / 2
    assert rates.write.kind == "estimate"


def test_errors() -> None:
    with pytest.raises(InputError, match="'nvme-8tb' is a drive, not a storage system"):
        storage_rates(CATALOGUE, "nvme-8tb", 8, 1e15)
    with pytest.raises(InputError, match="no storage 'wekka-8-node'; did you mean weka-8-node"):
        storage_rates(CATALOGUE, "wekka-8-node", 8, 1e15)
    with pytest.raises(InputError, match="not a drive"):
        written_storage_rates(CATALOGUE, 4, "weka-8-node", 1e9)


@given(st.integers(1, 100), st.floats(1e9, 1e12), st.integers(1, 3))
def test_written_out_system(drives: int, nic: float, replicas: int) -> None:
    rates = written_storage_rates(CATALOGUE, drives, "nvme-8tb", nic, replicas)
    assert rates.read.value == pytest.approx(min(drives * 6.8e9, nic))
    assert rates.write.value == pytest.approx(min(drives * 4e9, nic) / replicas)


def test_capacities() -> None:
    assert usual_capacity(CATALOGUE, 256).value == pytest.approx(1.024e15)
    large = needed_capacity(CATALOGUE, checkpoint_bytes=5.7e12, kept=3, dataset_bytes=60e12)
    assert large.value == pytest.approx((3 * 5.7e12 + 60e12) / 0.8)
    assert large.kind == "derived"


def test_a_managed_file_system_grows_and_costs_with_its_size() -> None:
    """600 USD a TB and month of 730.5 h at 1 GB/s for each TiB."""
    assert managed_rates(CATALOGUE, 3 * 2.0**40).read.value == pytest.approx(3e9)
    assert managed_price(CATALOGUE, 5e12).value * 3600 * 730.5 == pytest.approx(3000)


def test_a_written_out_system_has_its_drives() -> None:
    assert written_capacity_bytes(CATALOGUE, 24, "nvme-8tb") == pytest.approx(24 * 7.68e12)


def test_power() -> None:
    assert storage_power_w(CATALOGUE, 1e15).value == pytest.approx(5e3)
