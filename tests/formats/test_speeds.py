"""Measured speeds from a CSV, and every problem at once."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.formats.speeds import MAX_BYTES, read_speeds, seem_rates


def written(tmp_path, text):
    file = tmp_path / "speeds.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_columns_in_any_order_among_others(tmp_path):
    found = read_speeds(written(tmp_path, "\ufeffrack, Factor ,node\nr1,1.5,a\n\nr2, 1e0 ,b\n"))
    assert (found.nodes, found.factors) == (("a", "b"), (1.5, 1.0))


def test_every_problem_is_listed_with_its_line(tmp_path):
    with pytest.raises(InputError) as caught:
        read_speeds(written(tmp_path, "node,factor\na,fast\na,1\n,2\nb,0\nc,nan\nd\n"))
    problems = caught.value.problems
    assert [problem.mark.line for problem in problems] == [2, 3, 4, 5, 6, 7]
    assert "'fast'" in str(problems[0])
    assert "twice" in str(problems[1])


@pytest.mark.parametrize("text", ["", "node\na\n", "name,factor\na,1\n", "node,factor\n"])
def test_a_file_without_speeds(tmp_path, text):
    with pytest.raises(InputError, match=r"speeds\.csv"):
        read_speeds(written(tmp_path, text))


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(InputError, match=r"^no such file: .*absent\.csv; give a path that starts at the scenario's"):
        read_speeds(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_speeds(tmp_path)
    binary = tmp_path / "speeds.csv"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        read_speeds(binary)


@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars")])
def test_another_separator_is_named(tmp_path, sign, name):
    with pytest.raises(InputError, match=f"speeds.csv:1:1: columns are separated by {name}"):
        read_speeds(written(tmp_path, f"node{sign}factor\na{sign}1,05\n"))


@given(st.lists(st.floats(0.998, 1.002), min_size=8, max_size=40), st.data())
def test_rates_and_times_are_told_apart_by_the_side_of_the_few(factors, data):
    row = data.draw(st.integers(0, len(factors) - 1))
    slow = [factor * 1.06 if place == row else factor for place, factor in enumerate(factors)]
    assert seem_rates(slow) == ()
    assert seem_rates([150.0 / factor for factor in slow]) == (row,)
    assert seem_rates(factors) == ()


def test_many_unlike_nodes_are_no_rates():
    assert seem_rates([0.5, 0.6, 1.0, 1.0, 1.0]) == ()  # two of five are no few
    assert seem_rates([0.9, 1.0, 1.0, 1.0, 1.0, 1.1]) == ()


def test_large_and_broken_files_are_told(tmp_path):
    with pytest.raises(InputError, match="16 MiB"):
        read_speeds(written(tmp_path, "node,factor\n" + "x" * MAX_BYTES))
    with pytest.raises(InputError, match="is not a CSV"):
        read_speeds(written(tmp_path, "node,factor\na," + "1" * 200_000 + "\n"))
    with pytest.raises(InputError) as caught:
        read_speeds(written(tmp_path, "node,factor\n" + "a,x\n" * 1000))
    assert len(caught.value.problems) <= 101


def test_lines_are_those_of_the_file(tmp_path):
    """A name that spans two lines does not shift the next."""
    with pytest.raises(InputError) as caught:
        read_speeds(written(tmp_path, 'node,factor\n"a\nb",1\n\nc,0\n'))
    assert [problem.mark.line for problem in caught.value.problems] == [5]


def test_times_that_no_two_nodes_have(tmp_path):
    """A mistaken unit, or a number that would overflow: told with its line."""
    file = tmp_path / "speeds.csv"
    file.write_text("node,factor\na,1\nb,1\nc,1\nd,1e300\ne,1e-3\n", encoding="utf-8")
    with pytest.raises(InputError) as refused:
        read_speeds(file)
    assert [(one.mark.line, one.message) for one in refused.value.problems] == [
        (5, "factor of 'd' is more than 100 times off the median"),
        (6, "factor of 'e' is more than 100 times off the median"),
    ]


def test_names_that_cannot_be_shown(tmp_path):
    file = tmp_path / "speeds.csv"
    file.write_text("node,factor\na\x07b,1\n", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be shown"):
        read_speeds(file)
