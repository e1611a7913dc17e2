"""A stated value wins; a looked-up one is an assumption with its reason; what is missing is a problem."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError, Mark, Problem
from simcluster.hardware.found import Found
from simcluster.resolve.settling import Settler, doubt, noted, reason, settled
from simcluster.resolve.terms import Doubt
from simcluster.resolve.trail import Trail

FOUND = Found(2.5, "the usual", "a page", "2026-01", "measured")


def _fail(*problems):
    def look_up():
        raise InputError(problems)

    return look_up


@given(st.floats(0, 1e12))
def test_a_stated_value_is_kept_and_nothing_is_asked(value):
    """Zero is a value too."""
    trail = Trail()
    assert settled(trail, "a.b", value, _fail(Problem("asked"))) == value
    assert trail.assumptions == []
    assert trail.problems == []


def test_else_the_found_one_is_an_assumption():
    trail = Trail()
    assert settled(trail, "a.b", None, lambda: FOUND) == 2.5
    (one,) = trail.assumptions
    assert (one.path, one.value, one.why) == ("a.b", 2.5, "the usual")
    assert trail.values["a.b"] == (2.5, "assumed: the usual")


def test_what_is_missing_stands_at_its_path_until_the_trail_stops():
    trail = Trail()
    assert settled(trail, "a.b", None, _fail(Problem("no price", "add one"), Problem("no date"))) == 0.0
    assert trail.assumptions == []
    with pytest.raises(InputError) as caught:
        trail.stop()
    assert {str(problem) for problem in caught.value.problems} == {"a.b: no price; add one", "a.b: no date"}


def test_a_problem_with_a_place_keeps_it():
    trail = Trail()
    assert noted(trail, "a", _fail(Problem("wrong", "", Mark("x.yaml", 3, 4)))) is None
    assert [str(problem) for problem in trail.problems] == ["x.yaml:3:4: wrong"]


def test_noted_gives_what_is_found():
    assert noted(Trail(), "a", lambda: [1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("why", "kind", "told"),
    [
        ("a guess", "estimate", "a guess (estimate)"),
        ("an estimate of mine", "estimate", "an estimate of mine"),
        ("a sheet", "datasheet", "a sheet"),
    ],
)
def test_estimates_are_called_so_once(why, kind, told):
    assert reason(Found(1.0, why, "", "", kind)) == told


def test_doubt_is_the_range_of_the_source_or_that_of_its_kind():
    assert doubt(FOUND) == Doubt("the usual", 0.1)
    assert doubt(replace(FOUND, spread=0.3, row="a list")) == Doubt("a list", 0.3)


def test_only_what_nobody_stated_is_doubted():
    settler = Settler(Trail())
    assert settler.take("one", "a.one", 7.0, lambda: FOUND) == 7.0
    assert settler.take("two", "a.two", None, lambda: FOUND) == 2.5
    assert settler.doubts == {"two": doubt(FOUND)}
    assert [(one.path, one.value) for one in settler.trail.assumptions] == [("a.two", 2.5)]


def test_a_value_may_be_listed_in_another_unit():
    settler = Settler(Trail())
    assert settler.assumed("rent", "a.rent_per_hour", FOUND, 3600.0) == 2.5
    assert settler.trail.assumptions[0].value == 9000.0
