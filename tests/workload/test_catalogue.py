"""The shipped models, names and their errors, and architectures written inline."""

from __future__ import annotations

import json
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
from simcluster.workload import catalogue, catalogue_entry
from simcluster.workload.layers import layer_kinds
from simcluster.workload.parameters import count_parameters, matmul_parameters
from simcluster.yamlmarks import read

SHIPPED = catalogue.list_models()
# Stated by every entry; the rest belongs to experts, latent attention, windows and the like.
ALWAYS = frozenset(
    """layers hidden heads kv_heads head_dim ffn vocab gated_ffn tied_embeddings learned_positions norm norms_per_layer
    final_norm embedding_norm qkv_bias out_bias mlp_bias qk_norm parallel_block max_sequence parameters""".split()  # noqa: SIM905
)
TINY = {"layers": 2, "hidden": 64, "heads": 4, "vocab": 100}

# Sums over the tensors of published checkpoints.
CHECKPOINTS = {
    "bloom-176b": 176_247_271_424,
    "command-r-35b": 34_980_831_232,
    "command-r-plus-104b": 103_810_674_688,
    "dbrx": 131_596_523_520,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v3": 671_026_419_200,
    "falcon-7b": 6_921_720_704,
    "gemma-2-27b": 27_227_128_320,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-3-27b": 27_009_346_304,
    "gemma-7b": 8_537_680_896,
    "gpt-neox-20b": 20_554_567_680,
    "gpt-oss-120b": 116_829_156_672,
    "gpt-oss-20b": 20_914_757_184,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-2-7b": 6_738_415_616,
    "llama-3-70b": 70_553_706_496,
    "llama-3-8b": 8_030_261_248,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mistral-large-123b": 122_610_069_504,
    "mistral-nemo-12b": 12_247_782_400,
    "mixtral-8x22b": 140_620_634_112,
    "mixtral-8x7b": 46_702_792_704,
    "mpt-7b": 6_649_286_656,
    "olmo-2-13b": 13_716_198_400,
    "olmo-2-7b": 7_298_617_344,
    "olmo-7b": 6_888_095_744,
    "olmoe-1b-7b": 6_919_161_856,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "phi-3-medium": 13_960_238_080,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "pythia-1.4b": 1_414_647_808,
    "pythia-12b": 11_846_072_320,
    "pythia-6.9b": 6_857_302_016,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-14b": 14_768_307_200,
    "qwen3-235b-a22b": 235_093_634_560,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-32b": 32_762_123_264,
    "qwen3-8b": 8_190_735_360,
    "tinyllama-1.1b": 1_100_048_384,
    "yi-34b": 34_388_917_248,
    "yi-6b": 6_061_035_520,
}

# Sums over the tensors of published architectures whose authors print a rounded figure.
ARCHITECTURES = {
    "gpt-3-1.3b": 1_315_723_264,
    "gpt-3-125m": 125_226_240,
    "gpt-3-13b": 12_936_488_380,
    "gpt-3-175b": 174_604_259_328,
    "gpt-3-2.7b": 2_651_553_280,
    "gpt-3-350m": 355_871_744,
    "gpt-3-6.7b": 6_658_404_352,
    "gpt-3-760m": 760_300_032,
    "grok-1": 315_684_820_992,
    "internlm-7b": 7_321_948_160,
    "kimi-k2": 1_026_408_232_448,
    "llama-13b": 13_015_864_320,
    "llama-33b": 32_528_943_616,
    "llama-4-maverick": 400_711_848_960,
    "llama-4-scout": 107_769_861_120,
    "llama-65b": 65_285_660_672,
    "llama-7b": 6_738_415_616,
    "megatron-1t": 1_008_038_758_400,
    "megatron-22b": 22_074_273_792,
    "megatron-530b": 529_600_819_200,
    "moonlight-16b-a3b": 15_960_110_208,
    "nemotron-4-15b": 15_628_775_424,
    "nemotron-4-340b": 341_029_195_776,
    "opt-13b": 12_853_473_280,
    "opt-175b": 174_604_468_224,
    "palm-540b": 540_356_474_880,
    "qwen2-57b-a14b": 57_408_658_944,
    "qwen3-coder-480b-a35b": 480_154_875_392,
}
TOTALS = CHECKPOINTS | ARCHITECTURES


def test_every_shipped_model_has_a_worked_total():
    assert set(SHIPPED) == set(TOTALS)
    assert len(SHIPPED) >= 48


@pytest.mark.parametrize("model", CHECKPOINTS)
def test_published_integer_of_a_checkpoint_is_exact(model):
    entry = catalogue.model_entry(model)
    assert (entry.published_parameters, entry.rounded_to) == (CHECKPOINTS[model], 1)


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
    assert ALWAYS <= set(provenance) <= {field.name for field in fields(Architecture)} | {"parameters"}
    for field in fields(Architecture):
        if field.name not in provenance and field.name != "name":
            assert getattr(arch, field.name) == field.default  # a group that the model has not
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
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
        ("Mixtral 8x7B", "mixtral-8x7b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
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


def test_known_shapes_of_experts_latent_attention_and_windows():
    v3 = catalogue.load_model("deepseek-v3")[0]
    assert (v3.dense_layers, v3.experts, v3.top_k, v3.mtp_depth) == (3, 256, 8, 1)
    assert (v3.q_rank, v3.kv_rank, v3.nope_dim, v3.rope_dim, v3.value_dim, v3.head_dim) == (
        1536,
        512,
        128,
        64,
        128,
        192,
    )
    kinds = layer_kinds(catalogue.load_model("llama-4-maverick")[0])
    assert [kind.mlp for kind in kinds[:4]] == ["dense", "moe", "dense", "moe"]
    assert [kind.attention for kind in kinds[:8]] == ["window"] * 3 + ["full"] + ["window"] * 3 + ["full"]
    gemma = layer_kinds(catalogue.load_model("gemma-3-27b")[0])
    assert [kind.attention for kind in gemma].count("full") == 10
    assert catalogue.load_model("gpt-oss-20b")[0].attention_sinks


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
    catalogue_entry._read_entry.cache_clear()
    start = time.perf_counter()
    catalogue.load_model("llama-2-7b")
    seconds = time.perf_counter() - start
    assert catalogue_entry._read_entry.cache_info().currsize == 1
    assert seconds < 0.05  # 1 ms on an idle machine; wide for a busy one


def test_an_alias_is_found_quickly():
    catalogue_entry._read_aliases.cache_clear()
    catalogue_entry._read_entry.cache_clear()
    start = time.perf_counter()
    catalogue.load_model("meta-llama/Llama-2-7b-hf")
    seconds = time.perf_counter() - start
    assert catalogue_entry._read_entry.cache_info().currsize == 1
    assert seconds < 0.1  # 3 ms on an idle machine, cold; wide for a busy one


@pytest.mark.parametrize("model", SHIPPED)
def test_aliases_read_without_the_values_are_those_of_the_entry(model):
    path = data_root("hardware_db") / "models" / f"{model}.yaml"
    assert catalogue_entry.read_aliases(path) == catalogue.model_entry(model).aliases


# Paths of config.json


def test_a_path_is_read_as_a_hugging_face_file(tmp_path, monkeypatch):
    folder = tmp_path / "my-model"
    folder.mkdir()
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    config |= {"num_attention_heads": 4, "vocab_size": 100}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    for name in (str(folder), str(folder / "config.json")):
        arch, provenance = catalogue.load_model(name)
        assert (arch.name, arch.hidden, arch.kv_heads) == ("my-model", 64, 4)
        assert provenance["hidden"].source == str(folder / "config.json")
        assert provenance["kv_heads"].kind == "derived"
        assert provenance["kv_heads"].note == "num_key_value_heads is not in the file: as heads"
        assert "model.kv_heads" in {item.path for item in catalogue.model_assumptions(name)}
    monkeypatch.chdir(tmp_path)
    assert catalogue.load_model("my-model")[0].hidden == 64
    folder.rename(tmp_path / "llama-2-7b")
    assert catalogue.load_model("llama-2-7b")[0].hidden == 4096  # the catalogue goes first
    assert catalogue.load_model("./llama-2-7b")[0].hidden == 64


@pytest.mark.parametrize(("wrong", "message"), [("nowhere/x.json", "no such file"), ("./nowhere", "unknown model")])
def test_a_path_to_nothing_is_an_input_error(wrong, message):
    with pytest.raises(InputError, match=message):
        catalogue.load_model(wrong)


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
        ("  ffn:", "  experts: {value: 4, unit: count, from: config}\n  ffn:", "experts without top_k, expert_ffn"),
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"experts": 4, "top_k": 5, "expert_ffn": 8}, "top_k is 5 of 4 experts; give a whole number from 1 to 4"),
        ({"experts": 4, "top_k": 2}, "expert_ffn is 0 with 4 experts"),
        ({"top_k": 2}, "top_k is 2 without experts"),
        ({"experts": 4, "top_k": 2, "expert_ffn": 8, "dense_layers": 3}, "dense_layers is 3 of 2 layers"),
        ({"experts": 4, "top_k": 2, "expert_ffn": 8, "shared_gate": True}, "shared_gate without shared experts"),
        ({"kv_rank": 8, "nope_dim": 8, "rope_dim": 4, "head_dim": 16}, "head_dim is 16, nope_dim + rope_dim is 12"),
        ({"q_rank": 8}, "q_rank is 8 without kv_rank"),
        ({"full_every": 2}, "full_every is 2 without a window"),
        ({"num_local_experts": 2}, "did you mean experts?"),
        ({"sliding_window": 2}, "did you mean window?"),
    ],
)
def test_groups_that_do_not_fit(values, message):
    with pytest.raises(InputError, match=re.escape(message)):
        catalogue.architecture_from(TINY | values)


def test_inline_latent_attention_derives_the_width_of_a_head():
    arch = catalogue.architecture_from(TINY | {"kv_rank": 8, "nope_dim": 8, "rope_dim": 4})
    assert arch.head_dim == 12


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
