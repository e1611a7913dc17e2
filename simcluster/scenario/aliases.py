"""Other people's words: names that training frameworks and model configurations use for the same things."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from simcluster.errors import Problem
from simcluster.scenario.tree import Node, dotted, find, from_data, merge, nested, plain, without

_LAYOUT = {
    "tp": "tensor_model_parallel_size tensor_parallel_size tensor_mp_size model_parallel_size tensor_parallel_degree",
    "pp": "pipeline_model_parallel_size pipeline_parallel_size pipe_parallel_size pipeline_parallel_degree",
    "dp": "data_parallel_size data_parallel_degree",
    "cp": "context_parallel_size context_parallel_degree",
    "ep": "expert_model_parallel_size expert_parallel_size expert_parallel_degree",
    "etp": "expert_tensor_parallel_size",
    "virtual_stages": "virtual_pipeline_model_parallel_size num_virtual_stages_per_pipeline_rank vpp",
    "layers_per_virtual_stage": "num_layers_per_virtual_pipeline_stage",
}
_TRAINING = {
    "micro_batch": "micro_batch_size batch_size_per_gpu train_micro_batch_size_per_gpu per_device_train_batch_size "
    "local_batch_size device_batch_size",
    "global_batch": "global_batch_size train_batch_size total_batch_size",
    "gradient_accumulation": "gradient_accumulation_steps grad_accum_steps accumulate_grad_batches accumulation_steps",
    "sequence_length": "seq_length seq_len sequence_len max_seq_len max_seq_length max_sequence_length",
    "tokens": "train_tokens total_tokens",
    "precision": "bf16 fp16 tf32 bfloat16 mixed_precision torch_dtype",
    "recompute": "activation_checkpointing activation_checkpoint gradient_checkpointing recompute_granularity "
    "recompute_activations checkpoint_activations",
    "sharding.strategy": "zero_stage zero_optimization_stage use_distributed_optimizer",
}
_CLUSTER = {"nodes": "num_nodes nnodes n_nodes node_count"}
_NODE = {"gpus": "gpus_per_node num_gpus_per_node nproc_per_node n_gpus_per_node"}
_MODEL = {
    "layers": "num_layers num_hidden_layers n_layer n_layers",
    "hidden": "hidden_size n_embd d_model",
    "heads": "num_attention_heads num_heads n_head n_heads",
    "kv_heads": "num_key_value_heads num_kv_heads n_head_kv num_query_groups",
    "head_dim": "kv_channels",
    "ffn": "intermediate_size ffn_hidden_size n_inner ffn_dim",
    "vocab": "vocab_size padded_vocab_size",
    "gated_ffn": "swiglu",
    "tied_embeddings": "tie_word_embeddings",
    "max_sequence": "max_position_embeddings n_positions",
}


def _index(table: Mapping[str, str], prefix: str) -> dict[str, tuple[str, ...]]:
    return {
        alias: (*prefix.split("."), *target.split(".")) for target, names in table.items() for alias in names.split()
    }


_PLAN = {**_index(_LAYOUT, "training.parallelism"), **_index(_TRAINING, "training")}
_SECTIONS: Mapping[tuple[str, ...], Mapping[str, tuple[str, ...]]] = {
    (): _PLAN,
    ("training",): _PLAN,
    ("training", "parallelism"): _PLAN,
    ("model",): _index(_MODEL, "model"),
    ("cluster",): _index(_CLUSTER, "cluster"),
    ("cluster", "node"): _index(_NODE, "cluster.node"),
}


def _recompute(value: Any) -> Any:
    return {True: "full", False: "none"}[value] if isinstance(value, bool) else value


def _zero(value: Any) -> Any:
    stages = {0: "none", 1: "zero-1", 2: "zero-2", 3: "zero-3"}
    number = int(value) if isinstance(value, str) and value in ("0", "1", "2", "3") else value
    return stages.get(number, value) if isinstance(number, int) and not isinstance(number, bool) else value


def _unless_auto(value: Any) -> Any:
    """What a trainer fills in later ("auto") is not stated."""
    return None if value == "auto" else value


_CONVERTED: Mapping[tuple[str, ...], Callable[[Any], Any]] = {
    ("training", "recompute"): _recompute,
    ("training", "sharding", "strategy"): _zero,
    ("training", "global_batch"): _unless_auto,
    ("training", "gradient_accumulation"): _unless_auto,
    ("training", "precision"): _unless_auto,
}
# Switches: what it means that one is on and off; None: nothing is said.
_SWITCHES: Mapping[str, Mapping[bool, str | None]] = {
    **{name: {True: name, False: None} for name in ("bf16", "fp16", "tf32")},
    "bfloat16": {True: "bf16", False: None},
    "use_distributed_optimizer": {True: "zero-1", False: None},
}
_VALUES: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("training", "precision"): {
        "bfloat16": "bf16",
        "torch.bfloat16": "bf16",
        "bf16-mixed": "bf16",
        "float16": "fp16",
        "torch.float16": "fp16",
        "16-mixed": "fp16",
        "no": "fp32",
        "half": "fp16",
        "float8": "fp8",
        "float32": "fp32",
    },
    ("training", "sharding", "strategy"): {
        **{f"zero{mark}{stage}": f"zero-{stage}" for mark in ("", "_") for stage in "123"},
        "ddp": "none",
        "fsdp2": "fsdp",
    },
}


def _under(key: str) -> Callable[[Any], Any]:
    return lambda value: None if value is None else {key: value}


def _acquire(value: Any) -> Any:
    if value in (None, "own", "rent"):
        return {value: {}} if value else None
    return {"rent": {"term": value}}


# One word or number for the whole mapping, spelt out so that later changes inside it find a mapping.
_SHORT: Mapping[tuple[str, ...], Callable[[Any], Any]] = {
    ("acquire",): _acquire,
    ("acquire", "own"): lambda value: {} if value is None else value,  # "own:" with nothing after it states own
    ("acquire", "rent"): lambda value: {} if value is None else {"term": value},
    ("cluster", "fabric", "oversubscription"): _under("leaf"),
    ("operations", "storage"): _under("system"),
    ("training", "sharding"): _under("strategy"),
    ("training", "software"): _under("family"),
}


@dataclass(slots=True)
class Translated:
    """A tree in the project's own words, what was read as what, and what could not be."""

    tree: Node
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def translate(tree: Node) -> Translated:
    """Rename foreign keys and values; each is noted, one that contradicts a native key is a problem."""
    result = Translated(tree)
    for section, aliases in _SECTIONS.items():
        node, depth = find(result.tree, section)
        if depth < len(section) or not isinstance(node.value, dict):
            continue
        for key in list(node.value):
            target = aliases.get(key.lower().replace("-", "_"))
            if target:
                _rename(result, (*section, key), target)
    for path, spell_out in _SHORT.items():
        node, depth = find(result.tree, path)
        if depth == len(path) and not isinstance(node.value, (dict, list)):
            longer = from_data(spell_out(node.value), lambda _, origin=node.origin: origin)  # type: ignore[misc]
            result.tree = merge(result.tree, nested(path, longer))
    for path, words in _VALUES.items():
        node, depth = find(result.tree, path)
        if depth == len(path) and isinstance(node.value, str) and node.value.lower() in words:
            word = words[node.value.lower()]
            result.tree = merge(result.tree, nested(path, Node(word, node.origin)))
            result.notes.append(f"{node.origin}: {dotted(path)}: {node.value} read as {word}")
    return result


def _rename(result: Translated, path: tuple[str, ...], target: tuple[str, ...]) -> None:
    node, _ = find(result.tree, path)
    node = _meant(node, path[-1].lower().replace("-", "_"), target)
    result.tree = without(result.tree, path)
    if node.value is None:
        result.notes.append(f"{node.origin}: {path[-1]} says nothing of {dotted(target)}")
        return
    found, depth = find(result.tree, target)
    if depth == len(target) and found.value is not None and plain(found) != plain(node):
        message = f"{path[-1]} means {dotted(target)}, which is stated too ({plain(found)!r})"
        result.problems.append(Problem(message, "keep one of them", node.origin.mark))
    result.tree = merge(result.tree, nested(target, node))
    result.notes.append(f"{node.origin}: {path[-1]} read as {dotted(target)}")


def _meant(node: Node, key: str, target: tuple[str, ...]) -> Node:
    """The value of a foreign word in the project's own; `{enabled: true}` is a switch too."""
    value = node.value
    switch = _SWITCHES.get(key)
    if switch is not None:
        if isinstance(value, dict) and "enabled" in value:
            value = value["enabled"].value
        value = switch[value] if isinstance(value, bool) else value
    convert = _CONVERTED.get(target)
    return Node(convert(value) if convert else value, node.origin)


def is_alias(key: str) -> tuple[str, ...] | None:
    """Native path of a foreign word of the training plan, or None.

    >>> is_alias("tensor-model-parallel-size")
    ('training', 'parallelism', 'tp')
    """
    return _PLAN.get(key.lower().replace("-", "_"))
