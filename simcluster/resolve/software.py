"""Chooses the software family and lays the scenario's own words over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from difflib import get_close_matches

from simcluster.errors import InputError
from simcluster.resolve.compatibility_rules import load_rules
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario, did_you_mean
from simcluster.scenario.suggest import either
from simcluster.shapes import Assumption
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
_NEAR = 0.8  # likeness from which a name that no pattern knows is a family's, spelt wrong


# What a step of a dense model reads of a family; the rest is not listed, as it changes nothing.
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
READ_UNFUSED = frozenset({"fused_softmax"})
READ_DATA = frozenset({"gradient_dtype", "overlap_grad_reduce", "bucket_bytes", "bucket_bytes_per_rank"})
READ_SHARDED = frozenset({"zero_group", "gradient_sync", "parameter_sync", "overlap_param_gather"})
READ_TENSOR = frozenset({"tp_overlap", "tp_bulk_overlap"})
READ_PIPELINE = frozenset({"scatter_p2p", "stage_balance"})


def fields_read(family: SoftwareFamily, layout: Layout) -> frozenset[str]:
    """Fields of a family that this layout reads."""
    read = set(READ)
    if family.attention == "unfused":
        read |= READ_UNFUSED
    if layout.dp * layout.cp > 1:
        read |= READ_DATA
    if layout.shards > 1:
        read |= READ_SHARDED
    if layout.tp > 1:
        read |= READ_TENSOR
    if layout.pp > 1:
        read |= READ_PIPELINE
        read.add("overlap_p2p_interleaved" if layout.virtual_stages > 1 else "overlap_p2p")
    if layout.recompute == "selective":
        read.add("selective_modules")
    return frozenset(read)


def note_defaults(scenario: Scenario, family: SoftwareFamily, layout: Layout, trail: Trail) -> None:
    """Lists what the family decided, as far as this layout reads it."""
    stated = scenario.training.software
    covered = set(stated.overrides) | ({"attention"} if stated.attention else set())
    unread = frozenset(field_names()) - fields_read(family, layout)
    fitted = fitted_fields(family.id)
    trail.take(family_assumptions(family, frozenset(covered) | unread | frozenset(fitted)))
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
            path = f"training.software.overrides.{key}" if key else "training.software.overrides"
            trail.problem(path, problem.message.removeprefix("software: "), problem.advice)
    return _runnable_attention(scenario, family, generation, trail) if generation else family


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
        trail.problem("training.software.attention", f"{word!r} is not a known kernel", f"{advice} {known}".strip())
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
    path = "training.software.overrides.attention" if "attention" in stated.overrides else "training.software.attention"
    missing = generation not in limits.generations
    said = "attention" in stated.overrides or stated.attention not in (None, "flash")
    if missing and said:
        has = [name for name, one in load_rules().attention.items() if generation in one.generations] or ["unfused"]
        trail.problem(path, f"{kernel} has no kernels for {generation} GPUs", f"use {either(has)}")
    elif missing:
        trail.assume(
            "training.software.attention", "unfused", f"{kernel} of {family.id} has none for {generation} GPUs"
        )
        return replace(family, attention="unfused")
    date = stated.date or ""
    if said and date and limits.since[: len(date)] > date[:7]:
        trail.problem(path, f"{kernel} came in {limits.since}, after the date {date}", "state an older kernel")
    return family


def _with_fits(family: SoftwareFamily) -> SoftwareFamily:
    """The family with what published runs told about it."""
    fitted = {name: entry.value for name, entry in fitted_fields(family.id).items()}
    return replace(family, **fitted) if fitted else family  # type: ignore[arg-type]


def _override_at_fault(message: str, overrides: Iterable[str]) -> str:
    """The override that a message is about, empty if it names none."""
    marks = ((key, (f"software: {key} is ", f"software: unknown field {key!r}")) for key in overrides)
    return next((key for key, begins in marks if message.startswith(begins)), "")
