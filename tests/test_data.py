"""Shipped data is found in a checkout and in an installed package."""

import pytest

from simcluster import data
from simcluster.errors import InputError


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package folder somewhere else, without anything around it."""
    folder = tmp_path / "site" / "simcluster"
    folder.mkdir(parents=True)
    monkeypatch.setattr(data, "_PACKAGE", folder)
    data.data_root.cache_clear()
    yield folder
    data.data_root.cache_clear()


@pytest.mark.parametrize("kind", ["hardware_db", "calibration", "examples"])
def test_a_checkout_has_it_beside_the_package(kind):
    found = data.data_root(kind)
    assert found.is_dir()
    assert any(found.rglob("*.yaml"))


def test_a_wheel_has_it_inside(package):
    (package / "examples").mkdir()
    (package.parent / "examples").mkdir()  # somebody else's: no project file says that it is ours
    assert data.data_root("examples") == package / "examples"


def test_a_checkout_comes_first(package):
    (package / "examples").mkdir()
    (package.parent / "examples").mkdir()
    (package.parent / "pyproject.toml").touch()
    assert data.data_root("examples") == package.parent / "examples"


def test_what_is_missing_is_said(package):
    with pytest.raises(InputError, match="data folder 'examples' is missing; reinstall"):
        data.data_root("examples")
