"""What of a software family this layout reads, what nothing computes, and which attention runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

import simcluster.resolve as rooms
from simcluster.evaluation import Evaluation
from simcluster.resolve.software import fields_read, fields_settling, fields_unbuilt
from simcluster.timing.software import SoftwareFamily, field_names

MOE = "model={experts: 8, top_k: 2, expert_ffn: 1024}"
H100 = ("cluster.node=dgx-h100", "cluster.fabric=ib-ndr-400")
LAYOUTS = {
    "dense": ("training.parallelism={tp: 2, pp: 2}",),
    "interleaved": ("training.parallelism={tp: 2, pp: 2, virtual_stages: 2}", "training.recompute=selective"),
    "full recompute": ("training.parallelism={tp: 2, pp: 2, sequence_parallel: true}", "training.recompute=full"),
    "experts": (MOE, "training.parallelism={tp: 2, pp: 1, ep: 4}"),
    "experts of one replica": (MOE, "training.parallelism={tp: 8, pp: 2, ep: 2, etp: 1}"),
    "experts over nodes": (
        MOE,
        "training.parallelism={tp: 1, pp: 1, ep: 16}",
        "model.experts=16",
        "training.micro_batch=1",
    ),
    "shared experts": (MOE, "training.parallelism={tp: 2, pp: 1, ep: 4}", "model.shared_ffn=1024"),
    "context": ("training.parallelism={tp: 2, pp: 1, cp: 2}",),
    "zero-1": ("training.sharding.strategy=zero-1", "training.micro_batch=1"),
    "zero-2": ("training.sharding.strategy=zero-2", "training.micro_batch=1"),
    "fsdp": ("training.parallelism={tp: 1, pp: 1}", "training.sharding.strategy=fsdp", "training.micro_batch=1"),
    "fsdp with stages": ("training.parallelism={pp: 2}", "training.sharding.strategy=zero-3", "training.micro_batch=1"),
    "fp8": (*H100, "training.precision=fp8", "training.sharding.strategy=fsdp", "training.micro_batch=1"),
    "open": ("training.parallelism={tp: 2, pp: 2}", "training.sharding.strategy=null", "training.micro_batch=auto"),
    "open experts": (MOE, "training.parallelism={tp: 2, pp: 1}"),
    "one GPU": ("cluster.nodes=1", "cluster.node={gpu: a100-80gb-sxm, gpus: 1}", "training.parallelism={tp: 1, pp: 1}"),
}
ODD = {
    "selective_modules": [("mlp_act",), ("layernorm",)],
    "cuda_graph_modules": [("attn",)],
    "bucket_bytes_per_rank": [1e8],
    "zero_group": [1, 2],
}


def others(name: str, value: Any) -> list[Any]:
    """Other values of a field."""
    if name in ODD:
        return ODD[name]
    hint = get_type_hints(SoftwareFamily)[name]
    if get_origin(hint) is Literal:
        return [choice for choice in get_args(hint) if choice not in (value, "hsdp")]
    return [not value] if hint is bool else [value / 2 + 1e-7]


def outcome(evaluation: Evaluation) -> tuple[float, ...]:
    """Step time and peak memory of each stage."""
    peaks = (float(stage.peak_bytes) for stage in evaluation.memory.stages)
    return (float(evaluation.times.total[0]), *peaks)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_moves_step_or_memory_is_read(settle, monkeypatch, layout):
    """Each field that is not in `fields_read` is changed in the family itself: nothing may move."""
    base = settle(*LAYOUTS[layout])
    before = outcome(Evaluation(base))
    read = fields_read(base.family, base.layout, base.arch)
    read |= fields_settling(base.scenario.training, base.layout, base.arch)
    original, moved = rooms.resolve_software, []
    for name in sorted(set(field_names()) - read):
        for value in others(name, getattr(base.family, name)):
            changed = {name: value}
            monkeypatch.setattr(rooms, "resolve_software", lambda *a, _c=changed: replace(original(*a), **_c))
            if outcome(Evaluation(settle(*LAYOUTS[layout]))) != before:
                moved.append((name, value))
    assert moved == []


def test_every_field_is_read_somewhere_or_known_as_unbuilt(settle):
    """So that a field that nothing reads any more cannot stay with a source beside it."""
    seen: set[str] = {"fused_softmax", "overlap_p2p_interleaved"}
    for sets in LAYOUTS.values():
        one = settle(*sets)
        seen |= fields_read(one.family, one.layout, one.arch)
        seen |= fields_settling(one.scenario.training, one.layout, one.arch)
    assert set(field_names()) - seen == {"cuda_graph_modules"}


@pytest.mark.parametrize(
    ("layout", "name", "value"),
    [
        ("fp8", "fp8_attention", "true"),
        ("fp8", "fp8_weight_cache", "false"),
        ("fp8", "fp8_param_gather", "true"),
        ("experts", "dispatcher", "deepep"),
        ("experts", "grouped_gemm", "false"),
        ("experts", "tp_overlap_moe", "true"),
        ("context", "cp_communication", "all-gather"),
        ("fsdp", "reshard_after_forward", "false"),
        ("fsdp", "reduce_every_micro_batch", "false"),
        ("fsdp with stages", "reshard_with_pp", "false"),
        ("zero-1", "zero_group", "1"),
        ("open", "recompute", "full"),
        ("open", "sharding", "zero-2"),
        ("open", "default_micro_batch", "whole"),
        ("open experts", "default_ep", "all"),
    ],
)
def test_an_override_that_is_read_is_not_called_unmodelled(settle, layout, name, value):
    sets = (*LAYOUTS[layout], f"training.software.overrides.{name}={value}")
    assert settle(*sets).unmodelled == ()


@pytest.mark.parametrize("layout", ["experts", "context", "fsdp", "fp8"])
def test_defaults_of_the_newer_parallelism_are_listed(settle, layout):
    listed = {one.path.removeprefix("training.software.") for one in settle(*LAYOUTS[layout]).assumptions}
    wanted = {
        "experts": {"dispatcher", "grouped_gemm", "tp_overlap_moe"},
        "context": {"cp_communication"},
        "fsdp": {"reshard_after_forward", "reduce_every_micro_batch"},
        "fp8": {"fp8_attention", "fp8_weight_cache", "fp8_param_gather"},
    }
    assert wanted[layout] <= listed


OVERLAPS = "training.software={family: hai-llm, date: 2024-12}"  # runs dispatch beside another micro-batch


def test_experts_exchanges_overlap_where_the_schedule_can(settle):
    """1F1B runs forwards beside backwards then; other schedules do not, and the setting is named."""
    found = settle(*LAYOUTS["experts"], OVERLAPS)
    assert found.family.ep_overlap
    assert found.layout.schedule == "1f1b-overlapped"
    assert found.unmodelled == ()
    assert settle(*LAYOUTS["dense"], OVERLAPS).layout.schedule == "1f1b"
    wires = settle(*LAYOUTS["experts"], OVERLAPS, "training.sharding.strategy=zero-2", "training.micro_batch=1")
    assert wires.layout.schedule == "1f1b"
    assert wires.unmodelled == ("training.software.ep_overlap",)
    alone = "training.parallelism={tp: 2, pp: 1, ep: 4, schedule: gpipe}"
    assert settle(MOE, alone, OVERLAPS, "training.recompute=none").unmodelled == ("training.software.ep_overlap",)


@pytest.mark.parametrize("more", ["training.recompute=full", "training.parallelism.pp=2"])
def test_what_frameworks_refuse_to_overlap_is_said(settle, more):
    """Whole layers that run again, and a pipeline without virtual stages."""
    plain = settle(MOE, "training.parallelism={tp: 2, pp: 1, ep: 4}", OVERLAPS, "training.recompute=none")
    assert plain.layout.schedule == "1f1b-overlapped"
    refused = settle(MOE, "training.parallelism={tp: 2, pp: 1, ep: 4}", OVERLAPS, more)
    assert (refused.layout.schedule, refused.unmodelled) == ("1f1b", ())
    told = {one.path: one.value for one in refused.assumptions}
    assert told["training.software.ep_overlap"] is False


def test_graphs_of_parts_are_named_unless_whole_layers_are_replayed(settle):
    layout = settle().layout
    parts = SoftwareFamily("x", cuda_graph_modules=("attn",))
    assert fields_unbuilt(parts, layout) == ("cuda_graph_modules",)
    assert fields_unbuilt(replace(parts, cuda_graphs=True), layout) == ()
    assert fields_unbuilt(SoftwareFamily("x"), layout) == ()


OLD = "training.software={family: megatron-lm-2021}"
CONTEXT = "training.parallelism={tp: 2, cp: 2}"


def test_unfused_attention_of_a_family_gives_way_over_context_ranks(settle):
    assert settle(OLD).family.attention == "unfused"
    resolved = settle(OLD, CONTEXT)
    assert resolved.family.attention == resolved.plan.layer.attention == "flash-2"
    (assumed,) = [one for one in resolved.assumptions if one.path == "training.software.attention"]
    assert assumed.value == "flash-2"
    assert assumed.why == "cp 2 runs fused kernels alone, and megatron-lm-2021 has none here"


@pytest.mark.parametrize("path", ["training.software.attention", "training.software.overrides.attention"])
def test_stated_unfused_attention_over_context_ranks_is_refused(settle, refused, path):
    settle(f"{path}=unfused")
    (problem,) = refused(CONTEXT, f"{path}=unfused")
    assert problem.startswith(f"--set {path}=unfused: unfused attention does not go with cp 2")
    assert problem.endswith("use flash-2, cudnn or flash-1, or cp 1")


def test_context_ranks_need_a_fused_kernel(refused):
    volta = ("cluster.node=dgx-1-v100-32gb", "cluster.fabric=null", "training.precision=fp16")
    (problem,) = refused(*volta, CONTEXT)
    assert problem.startswith("--set training.parallelism={tp: 2, cp: 2}: training.parallelism.cp: 2 runs fused")
    assert "volta GPUs have no such kernel; use cp 1" in problem
