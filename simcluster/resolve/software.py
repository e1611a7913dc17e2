"""Chooses the software family and lays the scenario's own words over it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simcluster.errors import InputError
from simcluster.resolve.records import Layout
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.timing.fitted import fitted_fields
from simcluster.timing.software import (
    AttentionKernel,
    SoftwareFamily,
    choose_family,
    family_assumptions,
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
    """The family that the scenario names or implies, for one GPU generation, with its overrides."""
    stated = scenario.training.software
    family, assumptions = choose_family(stated.family or "", stated.date or "")
    trail.take(assumptions)
    family = _with_fits(resolve(family, generation))
    if stated.attention:
        kernel = ATTENTION.get(stated.attention)
        if kernel is None:
            known = ", ".join(ATTENTION)
            trail.problem("training.software.attention", f"{stated.attention!r} is not a known kernel", f"use {known}")
        elif stated.attention != "flash":  # the word alone leaves the generation to the family
            family = replace(family, attention=kernel)
        elif family.attention == "unfused":
            family = replace(family, attention="flash-2")
    try:
        family = with_overrides(family, stated.overrides)
    except InputError as error:
        for problem in error.problems:
            key = _override_at_fault(problem.message, stated.overrides)
            path = f"training.software.overrides.{key}" if key else "training.software.overrides"
            trail.problem(path, problem.message.removeprefix("software: "), problem.advice)
    return family


def _with_fits(family: SoftwareFamily) -> SoftwareFamily:
    """The family with what published runs told about it."""
    fitted = {name: entry.value for name, entry in fitted_fields(family.id).items()}
    return replace(family, **fitted) if fitted else family  # type: ignore[arg-type]


def _override_at_fault(message: str, overrides: Iterable[str]) -> str:
    """The override that a message is about, empty if it names none."""
    marks = ((key, (f"software: {key} is ", f"software: unknown field {key!r}")) for key in overrides)
    return next((key for key, begins in marks if message.startswith(begins)), "")
