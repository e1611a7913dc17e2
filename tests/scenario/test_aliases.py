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


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ("training: {tensor_mp_size: 4}", "training.parallelism.tp", 4),
        ("data_parallel_size: 4", "training.parallelism.dp", 4),
        ("context_parallel_size: 4", "training.parallelism.cp", 4),
        ("expert_model_parallel_size: 4", "training.parallelism.ep", 4),
        ("training: {batch_size_per_gpu: 4}", "training.micro_batch", 4),
        ("training: {local_batch_size: 4}", "training.micro_batch", 4),
        ("training: {train_batch_size: 64}", "training.global_batch", 64),
        ("training: {gradient_accumulation_steps: 8}", "training.gradient_accumulation", 8),
        ("num_layers_per_virtual_pipeline_stage: 2", "training.parallelism.layers_per_virtual_stage", 2),
        ("training: {bf16: true}", "training.precision", "bf16"),
        ("training: {fp16: {enabled: true, loss_scale: 0}}", "training.precision", "fp16"),
        ("training: {bf16: true, fp16: false}", "training.precision", "bf16"),
        ("training: {bf16: {enabled: false}, fp16: true}", "training.precision", "fp16"),
        ("training: {torch_dtype: torch.bfloat16}", "training.precision", "bf16"),
        ("training: {mixed_precision: 'no'}", "training.precision", "fp32"),
        ("training: {use_distributed_optimizer: true}", "training.sharding.strategy", "zero-1"),
        ("training: {zero_stage: '3'}", "training.sharding.strategy", "zero-3"),
        ("training: {recompute_activations: true}", "training.recompute", "full"),
    ],
)
def test_each_word_is_noted(words, path, value):
    loaded = load_text(BASE + words + "\n", "f.yaml")
    found = loaded.scenario
    for step in path.split("."):
        found = getattr(found, step)
    assert found == value
    assert any(f"read as {path}" in note for note in loaded.notes)


def test_words_of_machines():
    text = "model: m\ncluster: {num_nodes: 3, node: {gpu: h100, gpus_per_node: 4}}\n"
    cluster = load_text(text).scenario.cluster
    assert (cluster.nodes, cluster.node.gpus) == (3, 4)


@pytest.mark.parametrize(
    "words", ["fp16: false", "bf16: auto", "train_batch_size: auto", "gradient_accumulation_steps: auto"]
)
def test_a_word_that_says_nothing_is_left_out_and_noted(words):
    loaded = load_text(BASE + f"training: {{{words}}}\n", "f.yaml")
    assert loaded.scenario.training.precision == "bf16"
    assert loaded.scenario.training.global_batch is None
    assert [note.partition(" says nothing of ")[1] for note in loaded.notes] == [" says nothing of "]


def test_two_precisions_are_one_too_many():
    with pytest.raises(InputError, match=r"fp16 means training\.precision, which is stated too \('bf16'\)"):
        load_text(BASE + "training: {bf16: true, fp16: true}\n", "f.yaml")
