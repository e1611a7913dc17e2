"""The public names."""

import subprocess
import sys

import pytest

import simcluster


def test_all_names_are_there_and_sorted():
    assert simcluster.__all__ == sorted(simcluster.__all__)
    for name in simcluster.__all__:
        assert getattr(simcluster, name) is not None, name
    assert set(simcluster.__all__) <= set(dir(simcluster))


def test_evaluate_can_be_called_whatever_was_imported_before():
    simcluster.compare  # noqa: B018 - loads modules, none of which may take the name of a function
    assert all(callable(getattr(simcluster, name)) for name in ("evaluate", "compare", "load", "load_study"))


def test_names_are_those_of_their_rooms():
    from simcluster.scenario import load

    assert simcluster.load is load


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        simcluster.nothing  # noqa: B018 - the access is the test


def test_importing_is_cheap():
    code = "import simcluster, sys; print(sorted({'numpy', 'pydantic', 'yaml', 'click'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_version_is_that_of_the_project():
    from pathlib import Path

    project = (Path(__file__).resolve().parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{simcluster.__version__}"' in project
