"""Model, machines and profile by name, path or description."""

import json
import re
import shutil

import pytest

from simcluster.data import data_root
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
    (problem,) = refused("model=sub/config.json")
    assert problem.startswith("--set model=sub/config.json: no such file: sub/config.json; give a path that starts at")


CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 32000,
    "hidden_act": "silu",
    "max_position_embeddings": 2048,
}


@pytest.fixture
def beside(tmp_path, text, catalogue):
    """`beside(model, config)` resolves a scenario that lies in a folder with a model of its own."""

    def call(model, config=None, catalogue=catalogue):
        folder = tmp_path / "mine"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config or CONFIG), encoding="utf-8")
        path = tmp_path / "scenario.yaml"
        path.write_text(re.sub(r"model: .*", f"model: {model}", text), encoding="utf-8")
        return resolve(load(path), catalogue)

    return call


@pytest.mark.parametrize("words", ["mine/config.json", "./mine/config.json", "./mine", "mine", "{folder}/mine"])
def test_a_config_file_beside_the_scenario(beside, words, tmp_path, monkeypatch):
    """Whatever the working folder is; what the file leaves open is listed."""
    monkeypatch.chdir("/")
    resolved = beside(words.format(folder=tmp_path))
    assert (resolved.arch.layers, resolved.arch.hidden, resolved.arch.ffn) == (8, 1024, 2816)
    value, origin = resolved.values["model"]
    assert value == resolved.arch.name
    assert "scenario.yaml:2:1" in origin
    assert "config.json" in origin
    assert any(one.path.startswith("model.") for one in resolved.assumptions)


def test_the_catalogue_goes_before_a_folder_of_that_name(beside, tmp_path):
    (tmp_path / "llama-7b").mkdir()
    (tmp_path / "llama-7b" / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert beside("llama-7b").arch.layers == 32
    assert beside("./llama-7b").arch.layers == 8


def test_what_is_wrong_in_a_config_file_is_told_there(beside):
    with pytest.raises(InputError) as caught:
        beside("mine", {**CONFIG, "num_attention_heads": 7, "vocab_size": -3})
    said = str(caught.value)
    assert "mine/config.json" in said
    assert "Traceback" not in said


def test_models_of_the_users_folder(beside, tmp_path):
    source = data_root("hardware_db") / "models" / "llama-7b.yaml"
    own = tmp_path / "db"
    (own / "models").mkdir(parents=True)
    words = re.sub(
        r"aliases:\n(  - .*\n)+", "", source.read_text(encoding="utf-8").replace("id: llama-7b", "id: our-7b")
    )
    (own / "models" / "our-7b.yaml").write_text(words, encoding="utf-8")
    resolved = beside("our-7b", catalogue=Catalogue.load(own))
    assert (resolved.arch.layers, resolved.arch.ffn) == (32, 11008)
    with pytest.raises(InputError, match="unknown model 'our-7b'"):
        beside("our-7b")


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
    assert problem.startswith("--set training.precision=nvfp4: a100-80gb-sxm (ampere) has no nvfp4 rate; use bf16")
