"""Software families: what a training framework of a date does, as data.

A family is chosen by framework and date and by facts stated in the scenario, never by who published a figure. Every
field can be overridden by a scenario (`training.software.overrides`). The values live in `calibration/software/*.yaml`,
each with its public source; what a fit may set (sustained rates, network factors) is not among them.
"""

from __future__ import annotations

import difflib
import types
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

from simcluster.errors import InputError, Problem
from simcluster.shapes import Assumption
from simcluster.timing.software_files import FamilyFile, FieldSource, best_match, inherited, read_families

AttentionKernel = Literal["unfused", "flash-1", "flash-2", "flash-3", "cudnn"]
Value: TypeAlias = "str | float | bool | tuple[str, ...]"


@dataclass(frozen=True, slots=True)
class SoftwareFamily:
    """Behaviour of one framework generation; times in seconds, sizes in bytes.

    Execution
      host_issue_s           host time to issue one kernel (eager 5-8 us, compiled 2-4 us, CUDA graphs ~0)
      cuda_graphs            whole layers replayed as graphs: no host time
      cuda_graph_modules     only these parts of a layer are replayed ("attn", "mlp", "moe_router", …);
                             named in a result, not computed
      attention              default attention kernel
      fp8_attention          with an fp8 or fp4 recipe, attention runs in fp8 as well
      fp8_weight_cache       low-precision weights are cast once a step, not once a micro-batch
      fp8_param_gather       sharded parameters are gathered in the low precision
      fused_softmax          unfused attention runs scale, mask and softmax as one kernel
      fused_norm             a norm is one kernel (else four)
      fused_activation       bias, GeLU or SwiGLU run as one kernel
      fused_rope             rotary embedding is one kernel (else about six)
      fused_cross_entropy    loss computed in place on the logits
      dropout                dropout layers are executed (GPT era)
      accumulate_in_gemm     weight gradients are added to the fp32 buffer in the GEMM's epilogue
    Data parallel
      sharding               default strategy when the scenario states none
      zero_group             ranks that share one set of shards, 0 = all data-parallel ranks
      gradient_dtype         type in which gradients are reduced: fp32, bf16, fp16
      gradient_sync          collective that reduces gradients of sharded strategies below ZeRO-3
      parameter_sync         collective that returns updated parameters: all-gather, or a broadcast from each owner
      reduce_every_micro_batch   ZeRO-3: gradients are reduced after every micro-batch (else once a step)
      reshard_after_forward  ZeRO-3: parameters are gathered again for the backward
      reshard_with_pp        the same under pipeline parallelism; false: gathered and reduced once a step
      overlap_grad_reduce    buckets are reduced while the last backward runs
      overlap_param_gather   sharded parameters are gathered while the next forward runs
      bucket_bytes           size of a gradient bucket
      bucket_bytes_per_rank  the bucket grows to this times the data-parallel ranks where that is more
    Tensor, context, expert and pipeline parallel
      sequence_parallel      default with tp > 1
      tp_overlap             tp collectives overlap their GEMM by chunks
      tp_bulk_overlap        in backward, exchanges of a column linear run beside its weight gradient
      tp_overlap_moe         the same in models with experts
      cp_communication       context parallel exchange: p2p ring, all-gather of keys and values, all-to-all of heads
      dispatcher             how tokens reach their experts; deepep and hybridep send one copy per node or domain
      ep_overlap             expert all-to-all overlaps another micro-batch's compute; named in a result, not computed
      shared_expert_overlap  shared experts run while tokens travel to the others and back
      grouped_gemm           local experts run as one grouped GEMM (else one GEMM each)
      default_ep             expert parallel size when it is not stated: one, or as many as there are ranks and experts
      overlap_p2p            pipeline messages do not block their stage (plain schedules)
      overlap_p2p_interleaved    the same with virtual stages
      scatter_p2p            a pipeline message carries 1/tp of the activation per rank even without sequence parallel
      stage_balance          layers: equal layers, embedding and head on top; embedding-head-as-layers: each counts as a
                             layer; when-it-divides: as the second where layers do not divide but layers + 2 do
      default_micro_batch    when not stated: one; per-stage (a replica's batch in pp parts); whole (a replica's batch)
    Memory traffic and states
      recompute              default recompute mode
      selective_modules      what "selective" recomputes when no modules are named: core_attn, attention, layernorm,
                             mlp, mlp_act, moe, moe_act, mla_up_proj, shared_experts, every-other-matmul
      parameter_storage      fp32: sharded fp32 parameters are the master; bf16: compute weights beside a master copy
      gradient_storage       type of the gradient buffer
      optimizer_state_bytes  bytes per parameter beside parameters and gradients (master copy and moments)
      optimizer_bytes        bytes moved per parameter by the optimizer (modelling: 30 for fused Adam with fp32 states)

    `by_generation` holds the values that depend on the GPU generation; `resolve` puts one generation's in place.

    >>> SoftwareFamily("mine").attention
    'flash-2'
    """

    id: str
    title: str = ""
    host_issue_s: float = 6e-6
    cuda_graphs: bool = False
    cuda_graph_modules: tuple[str, ...] = ()
    attention: AttentionKernel = "flash-2"
    fp8_attention: bool = False
    fp8_weight_cache: bool = True
    fp8_param_gather: bool = False
    fused_softmax: bool = True
    fused_norm: bool = True
    fused_activation: bool = True
    fused_rope: bool = True
    fused_cross_entropy: bool = True
    dropout: bool = False
    accumulate_in_gemm: bool = True
    sharding: Literal["none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp"] = "zero-1"
    zero_group: int = 0
    gradient_dtype: Literal["fp32", "bf16", "fp16"] = "fp32"
    gradient_sync: Literal["reduce-scatter", "all-reduce"] = "reduce-scatter"
    parameter_sync: Literal["all-gather", "broadcast"] = "all-gather"
    reduce_every_micro_batch: bool = True
    reshard_after_forward: bool = True
    reshard_with_pp: bool = True
    overlap_grad_reduce: bool = True
    overlap_param_gather: bool = True
    bucket_bytes: float = 160e6
    bucket_bytes_per_rank: float = 0.0
    sequence_parallel: bool = True
    tp_overlap: bool = False
    tp_bulk_overlap: bool = True
    tp_overlap_moe: bool = False
    cp_communication: Literal["p2p", "all-gather", "all-to-all"] = "p2p"
    dispatcher: Literal["all-gather", "all-to-all", "deepep", "hybridep"] = "all-to-all"
    ep_overlap: bool = False
    shared_expert_overlap: bool = False
    grouped_gemm: bool = True
    default_ep: Literal["one", "all"] = "one"
    overlap_p2p: bool = False
    overlap_p2p_interleaved: bool = True
    scatter_p2p: bool = True
    stage_balance: Literal["layers", "embedding-head-as-layers", "when-it-divides"] = "when-it-divides"
    default_micro_batch: Literal["one", "per-stage", "whole"] = "one"
    recompute: Literal["none", "selective", "full"] = "none"
    selective_modules: tuple[str, ...] = ("core_attn",)
    parameter_storage: Literal["bf16", "fp32"] = "bf16"
    gradient_storage: Literal["fp32", "bf16", "fp16"] = "fp32"
    optimizer_state_bytes: float = 12.0
    optimizer_bytes: float = 30.0
    by_generation: tuple[tuple[str, str, Value], ...] = ()  # (field, generation or "default", value)


_NOT_SETTABLE = frozenset({"id", "title", "by_generation"})


@cache
def _hints() -> Mapping[str, Any]:
    """Type of each settable field."""
    hints = get_type_hints(SoftwareFamily)
    return types.MappingProxyType(
        {f.name: hints[f.name] for f in fields(SoftwareFamily) if f.name not in _NOT_SETTABLE}
    )


def field_names() -> tuple[str, ...]:
    """Fields that a family file or a scenario's overrides may set.

    >>> "overlap_grad_reduce" in field_names()
    True
    """
    return tuple(_hints())


def _checked(name: str, value: Any) -> tuple[Value | None, Problem | None]:
    """The value in its field's type, or what is wrong with it."""
    hints = _hints()
    if name not in hints:
        close = difflib.get_close_matches(str(name), hints, 1)
        advice = f"did you mean {close[0]!r}?" if close else "the fields are listed with SoftwareFamily"
        return None, Problem(f"software: unknown field {name!r}", advice)
    hint = hints[name]
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return (value, None) if value in choices else (None, _wrong(name, value, " | ".join(choices)))
    if hint is bool:
        return (value, None) if isinstance(value, bool) else (None, _wrong(name, value, "true or false"))
    if hint in (int, float):
        good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")
        return (hint(value), None) if good else (None, _wrong(name, value, "a number, zero or more"))
    if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
        return tuple(value), None
    return None, _wrong(name, value, "a list of names")


def _wrong(name: str, value: Any, wanted: str) -> Problem:
    return Problem(f"software: {name} is {value!r}", f"give {wanted}")


def with_overrides(family: SoftwareFamily, mapping: Mapping[str, Any]) -> SoftwareFamily:
    """The family with some fields replaced; an override holds for every GPU generation.

    Raises InputError that lists every unknown field (with the nearest name) and every value of the wrong kind.

    >>> with_overrides(load_family("megatron-core"), {"overlap_grad_reduce": False}).overlap_grad_reduce
    False
    """
    good: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, raw in mapping.items():
        value, problem = _checked(name, raw)
        if problem is None:
            good[name] = value
        else:
            problems.append(problem)
    if problems:
        raise InputError(problems)
    kept = tuple(entry for entry in family.by_generation if entry[0] not in good)
    return replace(family, by_generation=kept, **good)


def resolve(family: SoftwareFamily, generation: str) -> SoftwareFamily:
    """The family on one GPU generation ("ampere", "hopper", "blackwell", "cdna3", …): no value depends on it any more.

    A generation that a field does not name gets the field's default.

    >>> family = load_family("megatron-core")
    >>> resolve(family, "ampere").attention, resolve(family, "hopper").attention
    ('flash-2', 'cudnn')
    """
    chosen: dict[str, Any] = {}
    for name, of, value in family.by_generation:
        if of == generation or (of == "default" and name not in chosen):
            chosen[name] = value
    return replace(family, by_generation=(), **chosen)


@cache
def _families() -> Mapping[str, FamilyFile]:
    return types.MappingProxyType(read_families())


def family_ids() -> tuple[str, ...]:
    """Ids of all families that ship with simcluster.

    >>> "generic" in family_ids()
    True
    """
    return tuple(sorted(_families()))


@cache
def load_family(id: str) -> SoftwareFamily:
    """The family of that id; InputError with the nearest id when there is none.

    >>> load_family("fsdp2-torchtitan").sharding
    'fsdp'
    """
    file = _file(id)
    flat: dict[str, Any] = {}
    varying: list[tuple[str, str, Value]] = []
    problems: list[Problem] = []
    for name, (raw, _) in inherited(_families(), id).items():
        cases = raw if isinstance(raw, Mapping) else {"default": raw}
        if "default" not in cases:
            problems.append(Problem(f"{id}: {name} has no default", "add a value for `default`", file.mark))
        for generation, case in cases.items():
            value, problem = _checked(name, case)
            if problem is not None:
                problems.append(replace(problem, mark=file.mark))
            elif generation == "default":
                flat[name] = value
            if problem is None and isinstance(raw, Mapping):
                varying.append((name, generation, value if value is not None else ""))
    if problems:
        raise InputError(problems)
    return SoftwareFamily(id=id, title=file.title, by_generation=tuple(varying), **flat)


def _file(id: str) -> FamilyFile:
    families = _families()
    if id not in families:
        close = difflib.get_close_matches(id, families, 1, 0.4)
        raise InputError(Problem(f"unknown software family {id!r}", f"did you mean {close[0]!r}?" if close else ""))
    return families[id]


def family_sources(id: str) -> Mapping[str, FieldSource]:
    """Where each field's value comes from, inherited ones included.

    >>> family_sources("megatron-core")["scatter_p2p"].kind
    'paper'
    """
    _file(id)
    return {name: source for name, (_, source) in inherited(_families(), id).items()}


def choose_family(framework: str, date: str = "") -> tuple[SoftwareFamily, tuple[Assumption, ...]]:
    """The family of a framework as its users write it, at a date (YYYY, YYYY-MM, YYYY-MM-DD or empty).

    A year alone counts as its middle, no date as the generation that stands for undated use. A framework that no
    pattern knows gets the generic family of the date. An id that names a generation ("megatron-lm-2021") is taken as it
    stands. Every choice that the text does not settle is an Assumption.

    >>> choose_family("Megatron-LM", "2021-04")[0].id, choose_family("Megatron-LM", "2022-05")[0].id
    ('megatron-lm-2021', 'megatron-lm-2022')
    >>> family, assumed = choose_family("SomethingNew", "2022-01")
    >>> family.id, len(assumed)
    ('generic-2021', 1)
    """
    name = framework.strip().lower()
    if name in _families() and name[-4:].isdigit():
        return load_family(name), ()
    id, why = best_match(_families(), framework, date)
    assumed = (Assumption("training.software.family", id, why),) if why else ()
    return load_family(id), assumed


def family_assumptions(family: SoftwareFamily, stated: frozenset[str] = frozenset()) -> tuple[Assumption, ...]:
    """One Assumption for each field that was not stated: its value and the evidence.

    >>> found = family_assumptions(load_family("megatron-core"), frozenset({"attention"}))
    >>> any(a.path.endswith(".attention") for a in found), any(a.path.endswith(".recompute") for a in found)
    (False, True)
    """
    sources = family_sources(family.id)
    return tuple(
        Assumption(f"training.software.{name}", getattr(family, name), f"{family.id}: {source.kind}, {source.source}")
        for name, source in sources.items()
        if name not in stated
    )
