"""config.json files as the hub has them, their traps, and files that are wrong."""

from __future__ import annotations

import copy
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.workload.catalogue import model_entry
from simcluster.workload.huggingface import architecture_from_config
from simcluster.workload.huggingface_families import FAMILIES, NOT_COUNTED, TEXT_PART
from simcluster.workload.huggingface_layers import expert_period, full_period
from simcluster.workload.inline import FIELDS
from simcluster.workload.layers import layer_kinds
from simcluster.workload.parameters import count_parameters

CONFIGS = json.loads((Path(__file__).parent / "huggingface_configs.json").read_text(encoding="utf-8"))

# Sums over the tensors of the published checkpoints.
PUBLISHED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "gpt-neox-20b": 20_554_567_680,
    "opt-1.3b": 1_315_758_080,
    "opt-6.7b": 6_658_473_984,
    "falcon-7b": 6_921_720_704,
    "mpt-7b": 6_649_286_656,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-1b": 1_235_814_400,
    "llama-3.2-3b": 3_212_749_824,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "qwen3-235b-a22b": 235_093_634_560,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "deepseek-v3": 671_026_419_200,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-27b": 27_009_346_304,
    "phi-3-mini": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-4": 14_659_507_200,
    "dbrx": 131_596_523_520,
    "gpt-oss-20b": 20_914_757_184,
    "gpt-oss-120b": 116_829_156_672,
    "olmo-7b": 6_888_095_744,
    "olmo-2-13b": 13_716_198_400,
    "command-r-35b": 34_980_831_232,
    "command-r-plus-104b": 103_810_674_688,
    "yi-6b": 6_061_035_520,
    "yi-34b": 34_388_917_248,
    "tinyllama-1.1b": 1_100_048_384,
    "pythia-12b": 11_846_072_320,
    "pythia-6.9b": 6_857_302_016,
    "mistral-7b": 7_241_732_096,
    "mistral-nemo-12b": 12_247_782_400,
    "bloom-176b": 176_247_271_424,
    "gemma-7b": 8_537_680_896,
    "olmoe-1b-7b": 6_919_161_856,
}
# Published rounded; the matrices of the published architecture sum to this.
WORKED = {
    "qwen2-57b-a14b": 57_408_658_944,
    "grok-1": 315_684_820_992,
    "opt-13b": 12_853_473_280,
    "kimi-k2": 1_026_408_232_448,
    "moonlight-16b-a3b": 15_960_110_208,
    "llama-4-scout": 107_769_861_120,
    "llama-4-maverick": 400_711_848_960,
    "internlm-7b": 7_321_948_160,
}
LLAMA = CONFIGS["llama-3.1-8b"]


def read(config, **changes):
    """Architecture of a configuration with some keys replaced; a value of ... leaves the key out."""
    changed = {key: value for key, value in (config | changes).items() if value is not ...}
    return architecture_from_config(changed)


def total(config, **changes) -> int:
    return count_parameters(read(config, **changes)[0]).total


def refused(config, **changes) -> str:
    with pytest.raises(InputError) as caught:
        read(config, **changes)
    return str(caught.value)


# Published models


def test_every_configuration_has_its_number():
    assert set(CONFIGS) == set(PUBLISHED | WORKED)
    assert len(PUBLISHED) >= 45


@pytest.mark.parametrize("model", PUBLISHED | WORKED)
def test_configuration_gives_the_published_integer(model):
    assert total(CONFIGS[model]) == (PUBLISHED | WORKED)[model]


@pytest.mark.parametrize("model", CONFIGS)
def test_configuration_gives_the_architecture_of_the_catalogue(model):
    assert replace(read(CONFIGS[model])[0], name=model) == model_entry(model).architecture


@pytest.mark.parametrize("model", CONFIGS)
def test_what_is_assumed_is_what_the_architecture_has(model):
    arch, assumptions = read(CONFIGS[model])
    paths = [item.path for item in assumptions]
    assert len(paths) == len(set(paths))
    for item in assumptions:
        name = item.path.removeprefix("model.")
        assert item.why
        if name in FIELDS:
            assert getattr(arch, name) == item.value


def test_files_and_folders(tmp_path):
    folder = tmp_path / "llama-3.1-8b"
    folder.mkdir()
    path = folder / "config.json"
    path.write_text("\ufeff" + json.dumps(LLAMA, indent="\t"), encoding="utf-8")
    for given_path in (path, str(path), folder, str(folder)):
        assert architecture_from_config(given_path)[0] == model_entry("llama-3.1-8b").architecture


# Traps


def test_aliases_of_fields():
    """One Llama in the words of other classes."""
    names = {"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads"}
    other = {names.get(key, key): value for key, value in LLAMA.items()}
    other["n_ctx"] = other.pop("max_position_embeddings")
    assert read(other)[0] == read(LLAMA)[0]


def test_two_names_for_one_thing_must_agree():
    assert total(LLAMA, n_layers=32) == PUBLISHED["llama-3.1-8b"]
    assert "num_hidden_layers is 32 but n_layers is 30; they mean the same" in refused(LLAMA, n_layers=30)
    assert "experts_per_token is 2" in refused(CONFIGS["gpt-oss-20b"], experts_per_token=2)


@pytest.mark.parametrize("absent", [None, ...])
def test_null_is_as_good_as_missing_where_the_class_has_a_default(absent):
    for model, key in (("llama-2-70b", "head_dim"), ("gpt2-xl", "n_inner"), ("gemma-2-9b", "tie_word_embeddings")):
        assert total(CONFIGS[model], **{key: absent}) == PUBLISHED[model]
    arch, assumptions = read(CONFIGS["llama-2-70b"], num_key_value_heads=absent)
    assert arch.kv_heads == 64
    assert [item.value for item in assumptions if item.path == "model.kv_heads"] == [64]


def test_null_has_its_own_meaning_for_ranks_and_windows():
    assert read(CONFIGS["deepseek-v2-lite"])[0].q_rank == 0
    assert "q_lora_rank is missing" in refused(CONFIGS["deepseek-v2-lite"], q_lora_rank=...)
    assert read(CONFIGS["mistral-7b"], sliding_window=None)[0].window == 0
    arch, assumptions = read(CONFIGS["mistral-7b"], sliding_window=...)
    assert arch.window == 4096
    assert "model.window" in {item.path for item in assumptions}


def test_tied_embeddings_are_the_class_default_only_where_they_are():
    assert read(CONFIGS["command-r-35b"])[0].tied_embeddings
    assert not read(CONFIGS["command-r-35b"], tie_word_embeddings=False)[0].tied_embeddings
    assert not read(LLAMA, tie_word_embeddings=...)[0].tied_embeddings


def test_head_dim_is_read_not_derived():
    assert read(CONFIGS["qwen3-32b"])[0].head_dim == 128
    assert read(CONFIGS["qwen3-32b"], head_dim=...)[0].head_dim == 128  # the class default, not 5120/64
    assert "does not divide hidden_size 4096; state head_dim" in refused(LLAMA, num_attention_heads=33)


def test_falcon_has_one_key_and_value_head_or_many():
    falcon = CONFIGS["falcon-7b"]
    assert read(falcon)[0].kv_heads == 1  # although num_kv_heads says 71
    assert read(falcon, multi_query=False)[0].kv_heads == 71
    large = read(falcon, new_decoder_architecture=True, num_kv_heads=71)[0]
    assert (large.kv_heads, large.norms_per_layer) == (71, 2)
    old = read(falcon, model_type="RefinedWeb", new_decoder_architecture=..., num_kv_heads=..., n_head_kv=1)[0]
    assert (old.kv_heads, old.norms_per_layer) == (1, 2)
    assert read(falcon, model_type="RefinedWebModel")[0] == replace(read(falcon)[0], name="RefinedWebModel")
    assert read(falcon, parallel_attn=False)[0].norms_per_layer == 2
    biased = read(falcon, bias=True)[0]
    assert (biased.qkv_bias, biased.out_bias, biased.mlp_bias) == (True, True, True)


def test_mpt_nests_attention_and_scales_the_mlp():
    mpt = CONFIGS["mpt-7b"]
    grouped = mpt["attn_config"] | {"attn_type": "grouped_query_attention", "kv_n_heads": 8}
    assert read(mpt, attn_config=grouped)[0].kv_heads == 8
    assert read(mpt, attn_config={"attn_type": "multiquery_attention"})[0].kv_heads == 1
    assert read(mpt, expansion_ratio=2.5)[0].ffn == 10240
    learned = read(mpt, attn_config={"alibi": False})[0]
    assert learned.learned_positions == 2048
    with_bias = read(mpt, no_bias=False)[0]
    assert (with_bias.norm, with_bias.mlp_bias, with_bias.qkv_bias) == ("layernorm", True, True)
    assert read(mpt, attn_config={"qk_ln": True})[0].qk_norm == "full"


def test_opt_positions_biases_and_what_cannot_be_counted():
    opt = CONFIGS["opt-1.3b"]
    assert read(opt)[0].learned_positions == 2050
    assert not read(opt, enable_bias=False)[0].mlp_bias
    assert not read(opt, do_layer_norm_before=False)[0].final_norm
    text = refused(opt, word_embed_proj_dim=512, _remove_final_layer_norm=True)
    assert "word_embed_proj_dim is 512, which cannot be counted; only 2048 can" in text
    assert "_remove_final_layer_norm is true" in text


def test_a_missing_model_type_of_the_text_part_follows_from_the_whole():
    config = copy.deepcopy(CONFIGS["gemma-3-27b"])
    del config["text_config"]["model_type"]
    assert total(config) == PUBLISHED["gemma-3-27b"]


def test_the_text_part_may_lie_two_deep_and_its_sizes_have_class_defaults():
    inner = {"model_type": "qwen2", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28}
    inner |= {"num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064}
    whole = {"model_type": "omni", "thinker_config": {"text_config": inner, "audio_config": {}}, "talker_config": {}}
    arch, assumptions = architecture_from_config(whole)
    assert count_parameters(arch).total == PUBLISHED["qwen2.5-7b"]
    assert "model.thinker_config.text_config" in {item.path for item in assumptions}
    small = {"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32000}, "vision_config": {}}
    arch, assumptions = architecture_from_config(small)
    assert count_parameters(arch).total == PUBLISHED["llama-2-7b"]
    assert {"model.layers", "model.hidden"} <= {item.path for item in assumptions}
    left_out = [item.why for item in assumptions if item.path == "model.text_config"]
    assert left_out == ["only the text part is counted; left out: vision_config"]


def test_tied_embeddings_of_the_whole_hold_for_the_text_part():
    config = copy.deepcopy(CONFIGS["llama-4-scout"])
    config["tie_word_embeddings"] = True
    assert architecture_from_config(config)[0].tied_embeddings


def test_stored_number_formats_and_unused_keys_are_reported():
    _, assumptions = read(CONFIGS["deepseek-v3"], flux_capacitor=1)
    said = {item.path: item.value for item in assumptions}
    assert said["model.quantization_config"] == "fp8"
    assert "flux_capacitor" in said["model.config"]


@pytest.mark.parametrize(
    ("change", "dense", "every"),
    [
        ({"mlp_only_layers": [0, 1]}, 2, 1),
        ({"decoder_sparse_step": 2}, 0, 2),
        ({"mlp_only_layers": [0, 1, 2, 3], "decoder_sparse_step": 4}, 4, 4),
    ],
)
def test_layers_with_experts_by_step_and_list(change, dense, every):
    arch = read(CONFIGS["qwen3-30b-a3b"], **change)[0]
    assert (arch.dense_layers, arch.moe_every) == (dense, every)


def test_layers_with_experts_that_follow_no_rule_are_refused():
    assert "neither all after the first few nor every n-th" in refused(CONFIGS["qwen3-30b-a3b"], mlp_only_layers=[7])


def test_a_mixture_without_layers_of_experts_is_dense():
    arch = read(CONFIGS["deepseek-v2-lite"], first_k_dense_replace=27)[0]
    assert (arch.experts, arch.shared_ffn) == (0, 0)
    every = read(CONFIGS["deepseek-v2-lite"], moe_layer_freq=2)[0]
    assert [kind.mlp for kind in layer_kinds(every)[:5]] == ["dense", "dense", "moe", "dense", "moe"]


def test_shared_experts_and_router_biases():
    assert read(CONFIGS["deepseek-v3"], n_shared_experts=None)[0].shared_ffn == 0
    assert read(CONFIGS["deepseek-v3"], topk_method=...)[0].router_bias
    assert 'topk_method is "best"; give one of noaux_tc' in refused(CONFIGS["deepseek-v3"], topk_method="best")


def windows_of(config, **changes):
    arch = read(config, **changes)[0]
    return (arch.window, arch.window_kind, arch.full_every)


def test_windows():
    qwen = CONFIGS["qwen2.5-7b"]
    assert windows_of(qwen) == (0, "sliding", 0)  # sliding_window is set but not enabled
    assert windows_of(qwen, use_sliding_window=True) == (0, "sliding", 0)  # max_window_layers are all layers
    assert windows_of(qwen, use_sliding_window=True, max_window_layers=0) == (131072, "sliding", 0)
    assert windows_of(CONFIGS["llama-4-scout"]) == (8192, "chunked", 4)
    oss = CONFIGS["gpt-oss-20b"]
    assert windows_of(oss, layer_types=...) == (128, "sliding", 2)
    assert windows_of(oss, layer_types=["full_attention"] * 24) == (0, "sliding", 0)
    assert windows_of(oss, layer_types=["sliding_attention"] * 24) == (128, "sliding", 0)
    gemma = CONFIGS["gemma-2-9b"]
    assert windows_of(gemma, sliding_window=None) == (0, "sliding", 0)


def test_windows_that_follow_no_period_count_as_full_and_are_reported():
    arch, assumptions = read(CONFIGS["qwen2.5-7b"], use_sliding_window=True, max_window_layers=20)
    assert arch.window == 0
    assert [item.why for item in assumptions if item.path == "model.window"] == [
        "8 of 28 layers have a window, in no period: all full"
    ]


def test_lists_of_layers_that_are_wrong():
    oss = CONFIGS["gpt-oss-20b"]
    linear = ["linear_attention"] * 24
    assert "layer_types holds linear_attention; only attention layers" in refused(oss, layer_types=linear)
    assert "layer_types has 2 entries; there are 24 layers" in refused(oss, layer_types=["full_attention"] * 2)
    assert "give a list of words" in refused(oss, layer_types=[1, 2])
    config = copy.deepcopy(CONFIGS["llama-4-scout"])
    config["text_config"]["no_rope_layers"] = [1, 0]
    assert "no_rope_layers has 2 entries" in refused(config)


@given(st.lists(st.booleans(), min_size=1, max_size=30))
def test_periods_reproduce_the_list(flags):
    period = full_period(flags)
    if period is not None:
        assert flags == [period == 0 or (i + 1) % period != 0 for i in range(len(flags))]
    sparse = expert_period(flags)
    if sparse is not None:
        dense, every = sparse
        assert flags == [i >= dense and (i - dense + 1) % every == 0 for i in range(len(flags))]


@given(st.integers(1, 30), st.integers(0, 10), st.integers(1, 6))
def test_periods_are_found(layers, dense, every):
    sparse = [i >= dense and (i - dense + 1) % every == 0 for i in range(layers)]
    assert (expert_period(sparse) is not None) == any(sparse)
    assert full_period([(i + 1) % every != 0 for i in range(layers)]) is not None


# Random architectures against their tensors


@st.composite
def llamas(draw):
    """A Llama-like configuration and the tensors of its checkpoint."""
    d, groups, kv = draw(st.integers(1, 64)), draw(st.integers(1, 8)), draw(st.integers(1, 16))
    h, f, layers, vocab = (draw(st.integers(1, 5000)) for _ in range(4))
    layers = layers % 50 + 1
    bias, mlp_bias, tied = draw(st.booleans()), draw(st.booleans()), draw(st.booleans())
    config = {
        "model_type": "llama", "hidden_size": h, "intermediate_size": f, "num_hidden_layers": layers,
        "num_attention_heads": kv * groups, "num_key_value_heads": kv, "head_dim": d, "vocab_size": vocab,
        "attention_bias": bias, "mlp_bias": mlp_bias, "tie_word_embeddings": tied,
    }  # fmt: skip
    q, k = kv * groups * d, kv * d
    layer = [(h, q), (h, k), (h, k), (q, h), (h, f), (h, f), (f, h), (h,), (h,)]
    layer += [(q,), (k,), (k,), (h,)] * bias + [(f,), (f,), (h,)] * mlp_bias
    return config, layer * layers + [(vocab, h)] * (2 - tied) + [(h,)]


@st.composite
def deepseeks(draw):
    """A DeepSeek-like configuration and the tensors of its checkpoint, without the layers of further tokens."""
    h, f, fe, heads, vocab = (draw(st.integers(1, 3000)) for _ in range(5))
    heads = heads % 32 + 1
    q_rank, kv_rank = draw(st.none() | st.integers(1, 500)), draw(st.integers(1, 500))
    nope, rope, value = (draw(st.integers(1, 128)) for _ in range(3))
    experts, shared = draw(st.integers(2, 40)), draw(st.none() | st.integers(1, 3))
    layers, dense, bias = draw(st.integers(1, 20)), draw(st.integers(0, 4)), draw(st.booleans())
    config = {
        "model_type": "deepseek_v3", "hidden_size": h, "intermediate_size": f, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": 1, "vocab_size": vocab, "moe_intermediate_size": fe,
        "n_routed_experts": experts, "num_experts_per_tok": 2, "n_shared_experts": shared, "q_lora_rank": q_rank,
        "kv_lora_rank": kv_rank, "qk_nope_head_dim": nope, "qk_rope_head_dim": rope, "v_head_dim": value,
        "first_k_dense_replace": dense, "topk_method": "noaux_tc" if bias else "greedy", "num_nextn_predict_layers": 1,
    }  # fmt: skip
    width = heads * (nope + rope)
    query = [(h, q_rank), (q_rank,), (q_rank, width)] if q_rank else [(h, width)]
    attention = [*query, (h, kv_rank + rope), (kv_rank,), (kv_rank, heads * (nope + value)), (heads * value, h)]
    sparse = [(h, experts)] + [(experts,)] * bias + [(3, h, fe)] * (experts + (shared or 0))
    mlps = [(3, h, f)] * min(dense, layers) + sparse * max(0, layers - dense)
    return config, [*attention, (h,), (h,)] * layers + mlps + [(vocab, h)] * 2 + [(h,)]


@given(llamas() | deepseeks())
def test_random_configurations_have_the_parameters_of_their_tensors(drawn):
    config, tensors = drawn
    assert total(config) == sum(math.prod(shape) for shape in tensors)


# Files that are wrong


def test_an_unknown_model_type_gets_the_nearest():
    assert 'unknown model_type "lama"; did you mean llama?' in refused(LLAMA, model_type="lama")
    assert "did you mean mixtral?" in refused(LLAMA, model_type="mixtrl")
    assert "did you mean" not in refused(LLAMA, model_type="deepseek_v9")  # another version is no slip
    assert "known: " in refused(LLAMA, model_type="zzzzzz")
    assert 'model_type is missing; state it, such as "llama"' in refused(LLAMA, model_type=...)
    assert "model_type is 7" in refused(LLAMA, model_type=7)


@pytest.mark.parametrize("model_type", NOT_COUNTED)
def test_what_cannot_be_counted_says_why(model_type):
    assert f"{model_type!r} cannot be counted: {NOT_COUNTED[model_type]}" in refused(LLAMA, model_type=model_type)


def test_tables_hang_together():
    assert set(TEXT_PART.values()) <= set(FAMILIES)
    assert not set(NOT_COUNTED) & set(FAMILIES)
    for family in FAMILIES.values():
        assert (
            {"layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab"} <= set(family.fields) <= set(FIELDS)
        )
        assert set(family.sizes) <= set(family.fields)
        assert bool(family.experts) == ("experts" in family.fields)


def test_all_problems_at_once_with_their_places(tmp_path):
    path = tmp_path / "config.json"
    config = {"model_type": "llama", "hidden_size": -1, "num_hidden_layers": "many", "num_attention_heads": 4.5}
    path.write_text(json.dumps(config | {"vocab_size": None, "attention_bias": "yes"}, indent=2), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        architecture_from_config(path)
    text = str(caught.value)
    for part in (
        f"{path}:3:3: hidden_size is -1; give a whole number from 1 to 10000000",
        f'{path}:4:3: num_hidden_layers is "many"; give a whole number',
        f"{path}:5:3: num_attention_heads is 4.5; give a whole number",
        f"{path}:6:3: vocab_size is null; state it",
        f'{path}:7:3: attention_bias is "yes"; give true or false',
        "intermediate_size is missing; state it",
    ):
        assert part in text
    assert len(caught.value.problems) == 6


@pytest.mark.parametrize(
    ("model", "changes", "message"),
    [
        ("mixtral-8x7b", {"num_experts_per_tok": 9}, "top_k is 9 of 8 experts"),
        ("mixtral-8x7b", {"num_local_experts": ...}, "num_experts is missing"),
        ("llama-3.1-8b", {"num_key_value_heads": 5}, "kv_heads: 5 does not divide 32 heads"),
        ("llama-3.1-8b", {"num_attention_heads": True}, "num_attention_heads is true"),
        ("llama-3.1-8b", {"hidden_size": 10**30}, "give a whole number"),
        ("deepseek-v3", {"n_shared_experts": "two"}, 'n_shared_experts is "two"'),
        ("deepseek-v3", {"n_shared_experts": float("nan")}, "n_shared_experts is NaN"),
        ("deepseek-v3", {"moe_layer_freq": 0}, "moe_layer_freq is 0; give a whole number from 1"),
        ("deepseek-v3", {"first_k_dense_replace": -1}, "first_k_dense_replace is -1; give a whole number from 0"),
        ("falcon-7b", {"multi_query": "yes"}, 'multi_query is "yes"; give true or false'),
        ("gpt-oss-20b", {"sliding_window": -5}, "sliding_window is -5"),
        ("qwen3-30b-a3b", {"mlp_only_layers": "none"}, 'mlp_only_layers is "none"; give a list of whole numbers'),
        ("dbrx", {"ffn_config": None}, "ffn_config.moe_num_experts is missing"),
        (
            "mpt-7b",
            {"attn_config": {"attn_type": "sparse"}},
            'attn_config.attn_type is "sparse"; give one of multihead',
        ),
        ("stablelm", {}, "qk_layernorm is true, which cannot be counted"),
    ],
)
def test_senseless_values_name_their_key(model, changes, message):
    stablelm = LLAMA | {"model_type": "stablelm", "qk_layernorm": True}
    assert message in refused(CONFIGS.get(model, stablelm), **changes)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"a": 1,}', r":1:\d+: not valid JSON"),
        (b"[1, 2]", "a config.json is a JSON object"),
        (b"null", "a config.json is a JSON object"),
        (b"\xff\xfe\x00", "is not UTF-8 text"),
        (b"[" * 200_000, "nested too deep"),
        (b'{"hidden_size": ' + b"9" * 10_000 + b"}", "a number too long"),
        (b'{"a": "' + b"x" * 2**20 + b'"}', "is larger than 1 MiB"),
        (b"{}", "model_type is missing"),
        (b'{"text_config": ' * 900 + b"{}" + b"}" * 900, "model_type is missing"),
    ],
)
def test_files_that_are_no_configuration(tmp_path, content, message):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        architecture_from_config(path)
    assert str(path) in str(caught.value)


def test_missing_files(tmp_path):
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/config.json: no such file")):
        architecture_from_config(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        architecture_from_config("nowhere.json")


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.sampled_from(sorted(CONFIGS)), st.data())
def test_any_content_gives_an_architecture_or_an_input_error(model, data):
    config = dict(CONFIGS[model])
    for name in data.draw(st.lists(st.sampled_from(sorted(config)), max_size=4)):
        config[name] = data.draw(values)
    try:
        arch, _ = architecture_from_config(config)
    except InputError:
        return
    assert count_parameters(arch).total > 0
