"""Chooses the software family and lays the scenario's own words over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from simcluster.errors import InputError
from simcluster.memory.precision import LOW_BYTES
from simcluster.parallel.schedules import overlapped
from simcluster.resolve.compatibility_rules import load_rules
from simcluster.resolve.data_parallel import WHOLE
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario, did_you_mean
from simcluster.scenario.suggest import either
from simcluster.scenario.training import Parallelism, Software, Training
from simcluster.shapes import Architecture, Assumption
from simcluster.timing.fitted import fitted_fields
from simcluster.timing.software import (
    AttentionKernel,
    SoftwareFamily,
    choose_family,
    family_assumptions,
    family_ids,
    field_names,
    resolve,
    with_overrides,
)

_FUSED: dict[str, AttentionKernel] = {
    "flash": "flash-2",
    "flash-1": "flash-1",
    "flash-2": "flash-2",
    "flash-3": "flash-3",
    "cudnn": "cudnn",
}
ATTENTION: dict[str, AttentionKernel] = {**_FUSED, "unfused": "unfused"}
_SHARING: tuple[AttentionKernel, ...] = ("flash-2", "cudnn", "flash-3", "flash-1")  # tried in turn with cp > 1
_ATTENTION, _OVERRIDES = "training.software.attention", "training.software.overrides"
_NEAR = 0.8  # likeness from which a name that no pattern knows is a family's, spelt wrong

# What step and memory of any layout read of a family; the rest is not listed, as it changes nothing.
READ = frozenset(
    {
        "host_issue_s",
        "cuda_graphs",
        "attention",
        "fused_norm",
        "fused_activation",
        "fused_rope",
        "fused_cross_entropy",
        "dropout",
        "accumulate_in_gemm",
        "parameter_storage",
        "gradient_storage",
        "optimizer_state_bytes",
        "optimizer_bytes",
    }
)
_BESIDE = (overlapped.NAME, "dualpipe")  # schedules that run forwards beside backwards
READ_UNFUSED = frozenset({"fused_softmax"})
READ_LOW = frozenset({"fp8_attention", "fp8_weight_cache", "fp8_param_gather"})
READ_DATA = frozenset({"gradient_dtype", "overlap_grad_reduce", "bucket_bytes", "bucket_bytes_per_rank"})
READ_PARTLY_SHARDED = frozenset({"gradient_sync", "parameter_sync", "overlap_param_gather"})
READ_WHOLE = frozenset({"reduce_every_micro_batch", "reshard_after_forward", "overlap_param_gather"})
READ_CONTEXT = frozenset({"cp_communication"})
READ_EXPERTS = frozenset({"grouped_gemm"})
READ_PIPELINE = frozenset({"scatter_p2p", "stage_balance"})


def fields_read(family: SoftwareFamily, layout: Layout, arch: Architecture) -> frozenset[str]:
    """Fields of a family that step or memory of this layout read."""
    stage_ranks = layout.tp * layout.cp * layout.dp
    summed = layout.dp * layout.cp > 1 or (arch.experts > 0 and stage_ranks > layout.ep * layout.etp)
    groups = (
        (READ_UNFUSED, family.attention == "unfused"),
        (READ_LOW, layout.precision in LOW_BYTES),
        (READ_DATA, summed),
        (_read_by_tensor(arch), layout.tp > 1),
        (READ_CONTEXT, layout.cp > 1),
        (READ_EXPERTS, arch.experts > 0),
        ({"dispatcher"}, layout.ep > 1),
        ({"ep_overlap"}, layout.ep > 1 and layout.schedule in ("1f1b", overlapped.NAME)),
        ({"shared_expert_overlap"}, layout.ep > 1 and arch.shared_ffn > 0),
        (READ_PIPELINE, layout.pp > 1),
        ({"overlap_p2p_interleaved" if layout.virtual_stages > 1 else "overlap_p2p"}, layout.pp > 1),
        ({"selective_modules"}, layout.recompute == "selective"),
    )
    read = READ.union(*(names for names, reads in groups if reads))
    return read | _read_by_sharding(layout) if layout.dp * layout.cp > 1 else read


def _read_by_tensor(arch: Architecture) -> frozenset[str]:
    return frozenset({"tp_bulk_overlap", "tp_overlap_moe" if arch.experts else "tp_overlap"})


def _read_by_sharding(layout: Layout) -> frozenset[str]:
    """Which strategy reads what; ZeRO-1's group may come to one rank by the field itself."""
    group = frozenset({"zero_group"} if layout.strategy == "zero-1" else ())
    if layout.strategy == "none" or layout.shards == 1:
        return group
    read = group | (READ_WHOLE if layout.strategy in WHOLE else READ_PARTLY_SHARDED)
    if layout.strategy == "zero-2":
        read |= {"reduce_every_micro_batch"}
    if layout.pp > 1 and layout.strategy in ("zero-2", *WHOLE):
        read |= {"reshard_with_pp"}
    return read


def fields_settling(training: Training, layout: Layout, arch: Architecture) -> frozenset[str]:
    """Fields of a family that settled what the plan leaves open; listed as parts of the plan."""
    plan = training.parallelism
    assert isinstance(plan, Parallelism)
    batch_alone = training.micro_batch == "auto" and training.gradient_accumulation is None
    settled = (
        ("sharding", training.sharding.strategy is None),
        ("recompute", training.recompute is None),
        ("sequence_parallel", layout.tp > 1 and plan.sequence_parallel is None),
        ("default_ep", arch.experts > 0 and plan.ep is None),
        ("default_micro_batch", batch_alone and training.global_batch is not None),
    )
    return frozenset(name for name, open_ in settled if open_)


def fields_unbuilt(family: SoftwareFamily, layout: Layout) -> tuple[str, ...]:
    """Fields of a family that would change this layout's step and that nothing computes yet."""
    unbuilt = (
        ("ep_overlap", family.ep_overlap and layout.ep > 1 and layout.schedule not in _BESIDE and not _refused(layout)),
        ("cuda_graph_modules", bool(family.cuda_graph_modules) and not family.cuda_graphs),
    )
    return tuple(name for name, matters in unbuilt if matters)


def _refused(layout: Layout) -> bool:
    """Whether the framework itself does not overlap exchanges of experts, see `overlaps_experts`."""
    return (layout.pp > 1 and layout.virtual_stages == 1) or layout.recompute == "full"


def note_defaults(scenario: Scenario, family: SoftwareFamily, layout: Layout, arch: Architecture, trail: Trail) -> None:
    """Lists what the family decided, as far as this layout reads it."""
    stated = scenario.training.software
    replaced = any(one.path == _ATTENTION for one in trail.assumptions)
    covered = set(stated.overrides) | ({"attention"} if stated.attention or replaced else set())
    unread = frozenset(field_names()) - fields_read(family, layout, arch)
    fitted = fitted_fields(family.id)
    trail.take(family_assumptions(family, frozenset(covered) | unread | frozenset(fitted)))
    if family.ep_overlap and layout.ep > 1 and layout.schedule not in _BESIDE and _refused(layout):
        why = "exchanges overlap only with virtual stages in a pipeline, and without full recompute"
        trail.assume("training.software.ep_overlap", False, why)
    for name, entry in fitted.items():
        if name not in covered and name not in unread:
            why = f"{family.id}: fitted on {entry.rows} published runs"
            trail.assume(f"training.software.{name}", entry.value, why + (" (at its bound)" if entry.at_bound else ""))


def resolve_software(scenario: Scenario, generation: str, trail: Trail) -> SoftwareFamily:
    """The family that the scenario names or implies, for one GPU generation ("" if unknown), with its overrides."""
    stated = scenario.training.software
    family, assumptions = _chosen(stated.family or "", stated.date or "")
    _check_name(stated.family or "", family, trail)
    trail.take(assumptions)
    family = _with_fits(resolve(family, generation))
    if stated.attention:
        family = _with_attention(family, stated.attention, trail)
    try:
        family = with_overrides(family, stated.overrides)
    except InputError as error:
        for problem in error.problems:
            key = _override_at_fault(problem.message, stated.overrides)
            path = f"{_OVERRIDES}.{key}" if key else _OVERRIDES
            trail.problem(path, problem.message.removeprefix("software: "), problem.advice)
    if generation:
        family = _runnable_attention(scenario, family, generation, trail)
    return _shared_attention(scenario, family, generation, trail)


def _chosen(name: str, date: str) -> tuple[SoftwareFamily, tuple[Assumption, ...]]:
    """The family of a framework's name; underscores count as hyphens where the name as it stands is not known."""
    family, assumptions = choose_family(name, date)
    if family.id.startswith("generic") and "_" in name:
        return choose_family(name.replace("_", "-"), date)
    return family, assumptions


def _check_name(name: str, family: SoftwareFamily, trail: Trail) -> None:
    """A framework that no pattern knows is told apart from a family that is spelt wrong."""
    if not name or not family.id.startswith("generic"):
        return
    near = get_close_matches(name.strip().lower().replace("_", "-"), family_ids(), 1, _NEAR)
    if near and near[0] != name.strip().lower() and not near[0].startswith("generic-"):
        trail.problem("training.software.family", f"unknown software family {name!r}", f"did you mean {near[0]!r}?")


def _with_attention(family: SoftwareFamily, word: str, trail: Trail) -> SoftwareFamily:
    """The family with a stated kernel; "flash" alone leaves its generation to the family."""
    kernel = ATTENTION.get(word)
    if kernel is None:
        advice = did_you_mean(word, ATTENTION)
        known = f"use {', '.join(ATTENTION)}"
        trail.problem(_ATTENTION, f"{word!r} is not a known kernel", f"{advice} {known}".strip())
        return family
    if word != "flash":
        return replace(family, attention=kernel)
    return replace(family, attention="flash-2") if family.attention == "unfused" else family


def _runnable_attention(scenario: Scenario, family: SoftwareFamily, generation: str, trail: Trail) -> SoftwareFamily:
    """A stated kernel that the GPU or the date lacks is a problem; a family's own gives way to one that runs."""
    stated, kernel = scenario.training.software, family.attention
    limits = load_rules().attention.get(kernel)
    if limits is None:
        return family
    path = _attention_path(stated)
    missing = generation not in limits.generations
    said = "attention" in stated.overrides or stated.attention not in (None, "flash")
    if missing and said:
        has = [name for name, one in load_rules().attention.items() if generation in one.generations] or ["unfused"]
        trail.problem(path, f"{kernel} has no kernels for {generation} GPUs", f"use {either(has)}")
    elif missing:
        trail.assume(_ATTENTION, "unfused", f"{kernel} of {family.id} has none for {generation} GPUs")
        return replace(family, attention="unfused")
    date = stated.date or ""
    if said and date and limits.since[: len(date)] > date[:7]:
        trail.problem(path, f"{kernel} came in {limits.since}, after the date {date}", "state an older kernel")
    return family


def _attention_path(stated: Software) -> str:
    return f"{_OVERRIDES}.attention" if "attention" in stated.overrides else _ATTENTION


def _shared_attention(scenario: Scenario, family: SoftwareFamily, generation: str, trail: Trail) -> SoftwareFamily:
    """Context parallelism runs fused kernels alone; a family's own unfused attention gives way to one of them."""
    stated, plan = scenario.training.software, scenario.training.parallelism
    if not isinstance(plan, Parallelism) or plan.cp == 1 or family.attention != "unfused":
        return family
    has = [name for name in _SHARING if not generation or generation in load_rules().attention[name].generations]
    if "unfused" in (stated.attention, stated.overrides.get("attention")):
        advice = f"use {either(has)}, or cp 1" if has else "use cp 1"
        message = f"unfused attention does not go with cp {plan.cp}: a fused kernel merges what the ranks exchange"
        trail.problem(_attention_path(stated), message, advice)
    elif has:
        trail.assume(_ATTENTION, has[0], f"cp {plan.cp} runs fused kernels alone, and {family.id} has none here")
        return replace(family, attention=has[0])
    else:
        message = f"{plan.cp} runs fused attention alone, and {generation} GPUs have no such kernel"
        trail.problem("training.parallelism.cp", message, "use cp 1")
    return family


def _with_fits(family: SoftwareFamily) -> SoftwareFamily:
    """The family with what published runs told about it."""
    fitted = {name: entry.value for name, entry in fitted_fields(family.id).items()}
    return replace(family, **fitted) if fitted else family  # type: ignore[arg-type]


def _override_at_fault(message: str, overrides: Iterable[str]) -> str:
    """The override that a message is about, empty if it names none."""
    marks = ((key, (f"software: {key} is ", f"software: unknown field {key!r}")) for key in overrides)
    return next((key for key, begins in marks if message.startswith(begins)), "")
