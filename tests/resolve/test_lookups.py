"""Model, machines and profile by name, path or description."""

import shutil

import pytest

from simcluster.errors import InputError, Mark, Problem
from simcluster.evaluation import Evaluation
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import resolve
from simcluster.resolve.lookups import collect
from simcluster.resolve.trail import Trail
from simcluster.scenario import load
from simcluster.timing.profile import profile_path


def test_collect_keeps_marks_and_adds_paths():
    trail = Trail()

    def fail():
        raise InputError(
            [
                Problem("cluster.node.gpus: is wrong"),
                Problem("the catalogue has nothing: at all", "look"),
                Problem("clusters: other", mark=Mark("b.yaml", 1, 1)),
            ]
        )

    assert collect(trail, "cluster.node", fail) is None
    assert sorted(map(str, trail.problems)) == [
        "b.yaml:1:1: clusters: other",
        "cluster.node.gpus: is wrong",
        "cluster.node: the catalogue has nothing: at all; look",
    ]


def test_model_by_name_description_and_file(settle, refused):
    assert settle("model=llama-7b").arch.layers == 32
    assert settle().arch.hidden == 1024
    (problem,) = refused("model=config.json")
    assert problem.startswith("--set model=config.json: reading a config.json is not built yet")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("cluster.node=qm8700", "no node 'qm8700'"),
        ("cluster.node=h100-80gb-sxm", "no node"),
        ("cluster.fabric=qm9700", "is a switch, not a fabric"),
        ("cluster.node={base: dgx-h1000}", "dgx-h100"),
        ("cluster.node={gpu: h1000, gpus: 8}", "no gpu"),
        ("cluster.fabric={base: nothing}", "no fabric 'nothing'"),
    ],
)
def test_unknown_machines_are_told_by_the_change(refused, change, words):
    (problem,) = refused(change)
    assert problem.startswith(f"--set {change}: ")
    assert words.lower() in problem.lower()


def evaluation_of(resolved):
    return Evaluation(resolved).step


def test_a_profile_of_the_users(tmp_path, text, catalogue, settle):
    """A path starts at the scenario's folder; the own profile under another name changes nothing."""
    shutil.copy(profile_path("a100-80gb-sxm"), tmp_path / "own.yaml")
    for words in ("./own.yaml", "own.yaml", str(tmp_path / "own.yaml")):
        path = tmp_path / "scenario.yaml"
        path.write_text(text.replace("date: 2024-06", f"date: 2024-06, profile: {words}"), encoding="utf-8")
        assert evaluation_of(resolve(load(path), catalogue)) == evaluation_of(settle())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("abacus", "no kernel profile 'abacus'; known: a100"),
        ("./nowhere.yaml", "nowhere.yaml"),
        ("h100-80gb-sxm", "h100-80gb-sxm peaks at 989.4 TFLOP/s in bf16, a100-80gb-sxm at 312"),
    ],
)
def test_a_profile_that_does_not_serve(refused, name, words):
    (problem,) = refused(f"training.software.profile={name}")
    assert words in problem


def test_a_stand_in_is_an_assumption(settle):
    assumed = {one.path: one.value for one in settle("training.software.profile=a100-40gb-sxm").assumptions}
    assert assumed["timing.profile"] == "a100-40gb-sxm"


def test_the_catalogue_may_be_extended(tmp_path, text):
    (tmp_path / "nodes").mkdir()
    source = (Catalogue.load().files("nodes")["dgx-a100-80gb"])[0].read_text(encoding="utf-8")
    (tmp_path / "nodes" / "my-node.yaml").write_text(
        source.replace("id: dgx-a100-80gb", "id: my-node").partition("aliases:")[0] + _rest(source), encoding="utf-8"
    )
    from simcluster.scenario import load_text

    loaded = load_text(text.replace("dgx-a100-80gb", "my-node"), "a.yaml")
    assert resolve(loaded, Catalogue.load(tmp_path)).cluster.node.id == "my-node"


def _rest(source: str) -> str:
    """What follows the aliases of an entry."""
    lines = source.partition("aliases:")[2].splitlines(keepends=True)[1:]
    start = next(i for i, line in enumerate(lines) if not line.startswith((" ", "-")))
    return "".join(lines[start:])


def test_a_precision_that_the_gpu_lacks_is_told_where_it_is_stated(refused):
    (problem,) = refused("training.precision=nvfp4")
    assert problem.startswith("--set training.precision=nvfp4: a100-80gb-sxm has no nvfp4 rate; use one of bf16")
