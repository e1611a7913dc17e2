"""Fitted values of software families: few, bounded, sourced, and never of a field that does not exist."""

import pytest

from simcluster.errors import InputError
from simcluster.timing import fitted
from simcluster.timing.fitted import FittedValue, fitted_fields, fitted_path
from simcluster.timing.software import family_ids, field_names


def every():
    return [(family, name, value) for family in family_ids() for name, value in fitted_fields(family).items()]


def test_what_is_fitted_is_bounded_and_sourced():
    assert every()
    for family, name, value in every():
        assert name in field_names(), family
        assert value.low <= value.value <= value.high
        assert value.rows > 0
        assert value.sigma > 0
        assert value.source
        assert value.date
        assert value.kind == "estimate"


def test_only_what_no_document_tells_is_fitted():
    assert {name for _, name, _ in every()} <= {"host_issue_s"}


@pytest.fixture
def other_file(tmp_path, monkeypatch):
    def write(text):
        path = tmp_path / "families.yaml"
        if text is not None:
            path.write_text(text)
        monkeypatch.setattr(fitted, "fitted_path", lambda: path)
        fitted._families.cache_clear()

    yield write
    fitted._families.cache_clear()


def test_the_file_may_be_absent_or_empty(other_file):
    for text in (None, ""):
        other_file(text)
        assert fitted_fields("nemo") == {}


@pytest.mark.parametrize("text", ["nemo: {host_issue_s: {value: 1, wrong: 2}}", "nemo: 3", "nemo: {host_issue_s: 3}"])
def test_a_broken_file_is_told_with_its_place(other_file, text):
    other_file(text)
    with pytest.raises(InputError, match=r"families\.yaml"):
        fitted_fields("nemo")


@pytest.mark.parametrize(("value", "expected"), [(1.0, True), (2.0, True), (1.5, False)])
def test_at_bound(value, expected):
    assert FittedValue(value, 0.1, 1.0, 2.0, 5, "s", "d", "estimate").at_bound is expected


def test_the_values_live_beside_the_families():
    assert fitted_path().parent.name == "fitted"
