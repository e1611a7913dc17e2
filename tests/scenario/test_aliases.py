from __future__ import annotations

import pytest

from simcluster.errors import InputError
from simcluster.scenario import load_text
from simcluster.scenario.aliases import _PLAN, _SECTIONS
from simcluster.scenario.problems import keys_at

BASE = "model: m\ncluster: {node: a, nodes: 2}\n"


def test_words_of_frameworks_are_understood_and_noted():
    text = (
        BASE
        + """\
training:
  tensor_model_parallel_size: 8
  micro-batch-size: 2
  global_batch_size: 64
  seq_length: 4096
  activation_checkpointing: true
  zero_stage: 2
  precision: bfloat16
  parallelism: {pipeline_model_parallel_size: 2, context_parallel_size: 1, vpp: 2}
"""
    )
    loaded = load_text(text, "f.yaml")
    training = loaded.scenario.training
    plan = training.parallelism
    assert (plan.tp, plan.pp, plan.cp, plan.virtual_stages) == (8, 2, 1, 2)
    assert (training.micro_batch, training.global_batch, training.sequence_length) == (2, 64, 4096)
    assert (training.recompute, training.sharding.strategy, training.precision) == ("full", "zero-2", "bf16")
    assert "f.yaml:4:3: tensor_model_parallel_size read as training.parallelism.tp" in loaded.notes
    assert "f.yaml:10:3: training.precision: bfloat16 read as bf16" in loaded.notes
    assert len(loaded.notes) == 10
    assert str(loaded.origins["training.parallelism.tp"]) == "f.yaml:4:3"


def test_words_of_model_configurations():
    text = """\
cluster: {node: a, nodes: 2}
model: {num_hidden_layers: 32, hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8,
        intermediate_size: 14336, vocab_size: 128256, tie_word_embeddings: false, max_position_embeddings: 8192}
"""
    model = load_text(text).scenario.model.architecture()
    assert (model.layers, model.hidden, model.kv_heads, model.head_dim, model.ffn) == (32, 4096, 8, 128, 14336)
    assert model.max_sequence == 8192


def test_two_words_for_one_thing_must_agree():
    text = BASE + "training: {tensor_parallel_size: 4, parallelism: {tp: 8}}\n"
    with pytest.raises(InputError) as caught:
        load_text(text, "f.yaml")
    assert str(caught.value) == (
        "f.yaml:3:12: tensor_parallel_size means training.parallelism.tp, which is stated too (8); keep one of them"
    )
    assert load_text(text.replace("tp: 8", "tp: 4")).scenario.training.parallelism.tp == 4


def test_wrong_values_are_told_where_the_foreign_word_stands():
    with pytest.raises(InputError, match=r"f\.yaml:3:1: training\.parallelism\.tp: 'x' is not a quantity"):
        load_text(BASE + "tensor_parallel_size: x\n", "f.yaml")


def test_targets_exist_and_no_foreign_word_hides_a_native_one():
    for target in {*_PLAN.values(), *_SECTIONS[("model",)].values()}:
        assert target[-1] in keys_at(target[:-1])
    for section, words in _SECTIONS.items():
        assert not set(words) & set(keys_at(section))


@pytest.mark.parametrize(
    ("text", "own", "term"),
    [
        ("own", True, None),
        ("rent", False, "on-demand"),
        ("spot", False, "spot"),
        ("{own: }", True, None),
        ("{rent: 1y}", False, "1y"),
    ],
)
def test_one_word_for_a_way_to_acquire(text, own, term):
    acquire = load_text(BASE + f"acquire: {text}\n").scenario.acquire
    assert (acquire.own is not None) == own
    assert (acquire.rent.term if acquire.rent else None) == term


def test_one_word_for_a_block():
    text = BASE + "training: {sharding: fsdp, software: megatron-core}\noperations: {storage: vast}\n"
    scenario = load_text(text, sets=["cluster.fabric={base: x, oversubscription: 2}"]).scenario
    assert scenario.training.sharding.strategy == "fsdp"
    assert scenario.training.software.family == "megatron-core"
    assert scenario.operations.storage.system == "vast"
    assert scenario.cluster.fabric.oversubscription.leaf == 2
