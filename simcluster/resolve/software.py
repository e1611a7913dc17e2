"""Chooses the software family and lays the scenario's own words over it."""

from __future__ import annotations

from dataclasses import replace

from simcluster.errors import InputError
from simcluster.resolve.trail import Trail
from simcluster.scenario import Scenario
from simcluster.timing.software import SoftwareFamily, choose_family, family_assumptions, resolve, with_overrides

_FUSED = {"flash": "flash-2", "flash-1": "flash-1", "flash-2": "flash-2", "flash-3": "flash-3", "cudnn": "cudnn"}
ATTENTION = {**_FUSED, "unfused": "unfused"}


def resolve_software(scenario: Scenario, generation: str, trail: Trail) -> SoftwareFamily:
    """The family that the scenario names or implies, for one GPU generation, with its overrides."""
    stated = scenario.training.software
    family, assumptions = choose_family(stated.family or "", stated.date or "")
    trail.take(assumptions)
    family = resolve(family, generation)
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
            trail.problem("training.software.overrides", problem.message, problem.advice)
    covered = set(stated.overrides)
    if stated.attention:
        covered.add("attention")
    trail.take(family_assumptions(family, frozenset(covered)))
    return family
