"""The notebook of a resolution."""

import pytest

from simcluster.errors import InputError, Mark
from simcluster.resolve.trail import Trail
from simcluster.scenario import Origin
from simcluster.shapes import Assumption

ORIGINS = {
    "training": Origin("file", mark=Mark("a.yaml", 3, 1)),
    "training.tp": Origin("--set", "training.tp=2"),
    "training.pp": Origin("what_if", "deep", Mark("a.yaml", 9, 5)),
    "training.dp": Origin("default"),
    "cluster": Origin("candidate", "rent"),
}


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("training.cp", "a.yaml:3:1: training.cp: no; try"),
        ("training.dp", "a.yaml:3:1: training.dp: no; try"),
        ("training.tp", "--set training.tp=2: no; try"),
        ("training.tp.deeper", "--set training.tp=2: training.tp.deeper: no; try"),
        ("training.pp", "a.yaml:9:5: what_if deep: training.pp: no; try"),
        ("cluster.node", "candidate rent: cluster.node: no; try"),
        ("model", "model: no; try"),
    ],
)
def test_a_problem_says_where_it_was_stated(path, said):
    trail = Trail(ORIGINS)
    trail.problem(path, "no", "try")
    assert [str(problem) for problem in trail.problems] == [said]


def test_stop_raises_all_and_only_if_there_is_something():
    trail = Trail()
    trail.stop()
    trail.problem("a", "one")
    trail.unsupported("b", "two")
    with pytest.raises(InputError) as caught:
        trail.stop()
    assert len(caught.value.problems) == 2


def test_assumptions_and_statements():
    trail = Trail()
    trail.state("a", 1, "a.yaml:1:1")
    trail.take([Assumption("b", 2, "usual")])
    trail.assume("a", 3, "better")
    assert trail.values == {"a": (3, "assumed: better"), "b": (2, "assumed: usual")}
    assert [one.path for one in trail.assumptions] == ["b", "a"]


def test_notes_say_where_a_value_was_stated():
    trail = Trail(ORIGINS)
    trail.note("training.pp", "is deep")
    trail.note("training.tp", "is wide")
    trail.note("model", "is new")
    assert trail.notes == ["a.yaml:9:5: training.pp: is deep", "training.tp: is wide", "model: is new"]
    trail.stop()
