"""One tree of errors; an InputError carries every problem, once, in the order of the files."""

import pytest

from simcluster.errors import InputError, LimitError, Mark, Problem, SimclusterError, UsageError


def test_problems_are_sorted_by_place_and_told_once():
    problems = [
        Problem("c", mark=Mark("b.yaml", 1, 1)),
        Problem("b", "do", Mark("a.yaml", 10, 1)),
        Problem("a", mark=Mark("a.yaml", 9, 30)),
        Problem("b", "do", Mark("a.yaml", 10, 1)),
        Problem("nowhere"),
    ]
    error = InputError(problems)
    assert str(error).splitlines() == [
        "nowhere", "a.yaml:9:30: a", "a.yaml:10:1: b; do", "b.yaml:1:1: c",
    ]  # fmt: skip
    assert len(error.problems) == 4


def test_words_and_one_problem_will_do():
    assert str(InputError("just so")) == "just so"
    assert InputError(Problem("one")).problems == (Problem("one"),)


def test_problems_of_equal_places_keep_their_order():
    mark = Mark("a.yaml", 1, 1)
    assert [p.message for p in InputError([Problem("z", mark=mark), Problem("a", mark=mark)]).problems] == ["z", "a"]


def test_a_mark_without_a_line_is_a_file():
    assert str(Mark("a.yaml")) == "a.yaml"
    assert str(Problem("is gone", mark=Mark("a.yaml"))) == "a.yaml: is gone"


@pytest.mark.parametrize(("kind", "code"), [(SimclusterError, 1), (UsageError, 2), (InputError, 3), (LimitError, 4)])
def test_codes(kind, code):
    assert kind.exit_code == code
    assert issubclass(kind, SimclusterError)
    assert isinstance(kind("words"), SimclusterError)
