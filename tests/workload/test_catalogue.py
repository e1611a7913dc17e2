"""The shipped models, names and their errors, and architectures written inline."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.data import data_root
from simcluster.errors import InputError, Mark
from simcluster.shapes import Architecture
from simcluster.workload import catalogue
from simcluster.workload.parameters import count_parameters, matmul_parameters
from simcluster.yamlmarks import read

SHIPPED = catalogue.list_models()
TINY = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}

# Totals of the architectures as published; those of checkpoints are sums over their tensors.
TOTALS = {
    "gpt2-xl": 1_557_611_200,
    "gpt-3-175b": 174_604_259_328,
    "megatron-22b": 22_074_273_792,
    "megatron-530b": 529_600_819_200,
    "megatron-1t": 1_008_038_758_400,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-65b": 65_285_660_672,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
}


def test_every_shipped_model_has_a_worked_total():
    assert set(SHIPPED) == set(TOTALS)


@pytest.mark.parametrize("model", SHIPPED)
def test_shipped_architecture_gives_the_worked_total(model):
    assert count_parameters(catalogue.load_model(model)[0]).total == TOTALS[model]


@pytest.mark.parametrize("model", SHIPPED)
def test_published_count_agrees_with_the_architecture(model):
    entry = catalogue.model_entry(model)
    counted = count_parameters(entry.architecture).total
    assert entry.published_parameters > 0
    assert abs(counted - entry.published_parameters) < entry.rounded_to
    assert entry.rounded_to <= entry.published_parameters / 20


@pytest.mark.parametrize("model", SHIPPED)
def test_every_value_is_stated_and_can_be_traced(model):
    arch, provenance = catalogue.load_model(model)
    assert arch.name == model
    assert set(provenance) == {field.name for field in fields(Architecture)} - {"name"} | {"parameters"}
    for item in provenance.values():
        assert item.source
        assert re.fullmatch(r"\d{4}-\d{2}(-\d{2})?", item.date)
        assert item.kind in ("datasheet", "measured", "estimate", "derived")
    assert provenance["hidden"].unit == "count"


@pytest.mark.parametrize("model", SHIPPED)
def test_file_keeps_to_the_rules_of_the_catalogue(model):
    data = read(data_root("hardware_db") / "models" / f"{model}.yaml").data
    assert data["id"] == model == model.lower()
    assert data["type"] == "model"
    assert data["name"]


def test_aliases_are_unique_and_all_resolve():
    seen: dict[str, str] = {}
    for model in SHIPPED:
        for alias in catalogue.model_entry(model).aliases:
            assert seen.setdefault(alias.lower(), model) == model
            assert alias.lower() not in SHIPPED
            assert catalogue.model_entry(alias).id == model


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("llama-3-405b", "llama-3.1-405b"),
        ("Llama 2 70B", "llama-2-70b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        (" LLAMA_65B ", "llama-65b"),
        ("llama-1-33b", "llama-33b"),
        ("llama-30b", "llama-33b"),
        ("gpt3-175b", "gpt-3-175b"),
    ],
)
def test_names_that_people_write(written, model):
    assert catalogue.model_entry(written).id == model


def test_known_shapes():
    arch = catalogue.load_model("llama-3-70b")[0]
    assert (arch.kv_heads, arch.head_dim, arch.vocab, arch.max_sequence) == (8, 128, 128256, 8192)
    assert catalogue.load_model("llama-3.1-70b")[0].max_sequence == 131072
    gpt = catalogue.load_model("gpt-3-175b")[0]
    assert (gpt.gated_ffn, gpt.tied_embeddings, gpt.norm, gpt.learned_positions) == (False, True, "layernorm", 2048)
    assert matmul_parameters(catalogue.load_model("llama-2-13b")[0]) == 12_851_609_600


@pytest.mark.parametrize(("wrong", "near"), [("lama-2-7b", "llama-2-7b"), ("gpt3-176b", "gpt-3-175b")])
def test_an_unknown_model_gets_the_nearest_names(wrong, near):
    with pytest.raises(InputError, match=re.escape(f"unknown model '{wrong}'; did you mean")) as caught:
        catalogue.load_model(wrong)
    assert near in str(caught.value)


@pytest.mark.parametrize("wrong", ["zzz", "", "..", "../gpus/a100-80gb-sxm", "/etc/passwd", "*", "llama-2-7b.yaml\x00"])
def test_odd_names_are_unknown_models_and_never_paths(wrong):
    with pytest.raises(InputError, match="unknown model"):
        catalogue.load_model(wrong)


def test_loading_by_id_is_quick_and_reads_one_file():
    catalogue._read_entry.cache_clear()
    start = time.perf_counter()
    catalogue.load_model("llama-2-7b")
    seconds = time.perf_counter() - start
    assert catalogue._read_entry.cache_info().currsize == 1
    assert seconds < 0.05  # 1 ms on an idle machine; wide for a busy one


# A folder of the user's own models


@pytest.fixture
def own(tmp_path):
    (tmp_path / "models").mkdir()
    return tmp_path


def put(own, name, old="", new="", source="llama-2-7b"):
    """A copy of a shipped file under another name, with one text replaced."""
    path = own / "models" / f"{name}.yaml"
    shutil.copy(data_root("hardware_db") / "models" / f"{source}.yaml", path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    text = text.replace(f"id: {source}", f"id: {name}").replace(old or "\0", new)
    path.write_text(text, encoding="utf-8")
    return path


def test_own_models_are_found_and_go_first(own):
    put(own, "mine", "meta-llama/Llama-2-7b-hf", "house model")
    put(own, "llama-2-7b", "max_sequence: {value: 4096", "max_sequence: {value: 32768")
    assert catalogue.load_model("mine", own)[0].name == "mine"
    assert catalogue.model_entry("House Model", own).id == "mine"
    assert catalogue.load_model("llama-2-7b", own)[0].max_sequence == 32768
    assert catalogue.load_model("llama-2-7b")[0].max_sequence == 4096
    assert set(catalogue.list_models(own)) == {*SHIPPED, "mine"}
    assert catalogue.load_model("llama-65b", own)[0].layers == 80


def test_a_changed_file_is_read_again(own):
    path = put(own, "mine")
    assert catalogue.load_model("mine", own)[0].max_sequence == 4096
    path.write_text(
        path.read_text(encoding="utf-8").replace(
            "value: 4096, unit: count, from: config}\n  param", "value: 8192, unit: count, from: config}\n  param"
        ),
        encoding="utf-8",
    )
    assert catalogue.load_model("mine", own)[0].max_sequence == 8192


def test_an_alias_of_two_models_is_refused(own):
    put(own, "one")
    put(own, "two")
    with pytest.raises(InputError, match="alias of several models: one, two"):
        catalogue.load_model("llama2-7b", own)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere: no such folder"):
        catalogue.load_model("llama-2-7b", tmp_path / "nowhere")


def test_a_wrong_dimension_contradicts_the_published_count(own):
    put(own, "mine", "layers: {value: 32", "layers: {value: 33")
    with pytest.raises(InputError, match=r"mine.yaml:\d+:3: the architecture has 69\d+ parameters, published are 67"):
        catalogue.load_model("mine", own)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("id: mine", "id: other", "id is 'other'"),
        ("type: model", "typ: model", "unknown key 'typ'"),
        ("layers: {value: 32, unit: count, from", "layers: {value: 32, from", "layers has no unit"),
        ("layers: {value: 32, unit: count, from: config}", "layers: 32", "layers needs a value"),
        (
            "layers: {value: 32, unit: count, from: config}",
            "layers: {value: 32, unit: count, from: x}",
            "no source 'x'",
        ),
        ("kind: datasheet}\n  card", "kind: rumour}\n  card", "kind is 'rumour'"),
        ('date: "2023-07", kind: datasheet}\n  card', "kind: datasheet}\n  card", "needs source, date and kind"),
        ("layers: {value: 32", "layers: {value: many", "layers is 'many'"),
        ("rounded_to: 1,", "rounded_to: 0,", "rounded_to are whole numbers"),
        ('  - "llama2-7b"', "  - 7", "aliases must be a list of names"),
        ("values:", "value:", "values must be a mapping"),
    ],
)
def test_each_fault_of_a_file_is_told_with_its_place(own, old, new, message):
    path = put(own, "mine")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        catalogue.load_model("mine", own)
    assert message in str(caught.value)
    assert all(problem.mark and problem.mark.line > 0 for problem in caught.value.problems)


def test_all_faults_of_a_file_come_at_once(own):
    path = put(own, "mine", "type: model", "typ: model")
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("unit: count, ", ""), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        catalogue.load_model("mine", own)
    assert len(caught.value.problems) == 1 + 11


@pytest.mark.parametrize("text", ["", "[1, 2]", "3", "values: {", "id: mine\nvalues: []\nsources: 3\naliases: {a: 1}"])
def test_files_that_are_no_entries_are_refused_politely(own, text):
    (own / "models" / "mine.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError):
        catalogue.load_model("mine", own)


# Inline architectures


def test_inline_defaults():
    arch = catalogue.architecture_from(TINY)
    assert arch == Architecture("inline", 2, 64, 4, kv_heads=4, head_dim=16, ffn=256, vocab=100)


def test_inline_values_are_taken_as_stated():
    stated = {**TINY, "name": "mine", "kv_heads": 2, "head_dim": 32, "ffn": 100, "norm": "layernorm", "qk_norm": "head"}
    arch = catalogue.architecture_from({**stated, "gated_ffn": False})
    assert (arch.name, arch.kv_heads, arch.head_dim, arch.ffn, arch.norm) == ("mine", 2, 32, 100, "layernorm")
    assert arch.gated_ffn is False


def test_assumed_defaults_and_stated_values_make_the_whole():
    assumed = {item.path: item.value for item in catalogue.assumed_defaults(TINY)}
    arch = catalogue.architecture_from(TINY)
    assert assumed["model.ffn"] == 256
    assert {f"model.{key}" for key in TINY}.isdisjoint(assumed)
    for field in fields(Architecture):
        if field.name not in TINY and field.name != "name":
            assert assumed[f"model.{field.name}"] == getattr(arch, field.name)
    assert not catalogue.assumed_defaults({field.name: 1 for field in fields(Architecture)})


def test_all_problems_at_once_with_places():
    values = {
        "layers": 0,
        "hidden": 64.5,
        "heads": True,
        "norm": ["x"],
        "n_layer": 3,
        "gated_ffn": "yes",
        "head_dims": 1,
    }
    with pytest.raises(InputError) as caught:
        catalogue.architecture_from(
            values, lambda path: Mark("a.yaml", 1 + list(values).index(path[0]) if path else 99)
        )
    text = str(caught.value)
    for part in (
        "a.yaml:1:0: layers is 0; give a whole number from 1 to 10000",
        "a.yaml:2:0: hidden is 64.5",
        "a.yaml:3:0: heads is true",
        "a.yaml:4:0: norm is ['x']; give one of rmsnorm, layernorm",
        "a.yaml:5:0: unknown key 'n_layer' of an architecture; did you mean layers?",
        "a.yaml:6:0: gated_ffn is 'yes'; give true or false",
        "a.yaml:7:0: unknown key 'head_dims' of an architecture; did you mean head_dim?",
        "vocab is missing; state it",
    ):
        assert part in text
    assert len(caught.value.problems) == 8


def test_heads_that_do_not_fit():
    with pytest.raises(InputError) as caught:
        catalogue.architecture_from({"layers": 2, "hidden": 65, "heads": 4, "vocab": 100, "kv_heads": 3})
    assert "kv_heads: 3 does not divide 4 heads" in str(caught.value)
    assert "heads: 4 does not divide hidden 65; state head_dim" in str(caught.value)
    assert catalogue.architecture_from({**TINY, "hidden": 65, "head_dim": 16}).head_dim == 16


@given(
    st.dictionaries(
        st.sampled_from([field.name for field in fields(Architecture)]) | st.text(max_size=8),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.text(max_size=8)
        | st.lists(st.integers(), max_size=2),
    )
)
def test_any_mapping_gives_an_architecture_or_an_input_error(values):
    try:
        arch = catalogue.architecture_from(values)
    except InputError:
        return
    assert count_parameters(arch).total > 0
