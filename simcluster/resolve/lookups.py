"""Looks up names and descriptions of model, machines and profile; what is wrong is noted at the path that named it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from simcluster.data import data_root
from simcluster.errors import InputError, Problem
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster, cluster_from
from simcluster.hardware.gpu import GpuSpec
from simcluster.hardware.inline import inline_fabric, inline_node
from simcluster.resolve.compatibility import lacks_precision
from simcluster.resolve.trail import Trail
from simcluster.scenario import Loaded, Scenario
from simcluster.shapes import Architecture
from simcluster.timing.profile import KernelProfile, has_profile, load_profile, peak_flops
from simcluster.timing.stand_in import downgraded, stand_in_profile
from simcluster.workload.catalogue import load_model, model_assumptions, model_entry
from simcluster.workload.inline import architecture_from

Found = TypeVar("Found")
_PROFILE = "training.software.profile"
_ROUNDING = 1.001  # published peaks of one GPU differ in the last digit


def collect(trail: Trail, path: str, make: Callable[[], Found]) -> Found | None:
    """Result of `make`, or None with its problems noted at a path (or at the path below it that a message begins with).

    >>> collect(Trail(), "model", lambda: 3)
    3
    """
    try:
        return make()
    except InputError as error:
        for problem in error.problems:
            if problem.mark is not None:
                trail.problems.append(problem)
                continue
            where, colon, text = problem.message.partition(": ")
            if not colon or not f"{where}.".startswith(f"{path}."):
                where, text = path, problem.message
            trail.problem(where, text, problem.advice)
        return None


def look_up_model(loaded: Loaded, catalogue: Catalogue, trail: Trail) -> Architecture | None:
    """The architecture, or None with what is wrong noted.

    A name is one of the catalogue (models of the user's folder first), or the path of a config.json, or of a folder
    with one, that starts at the scenario's folder.
    """
    return collect(trail, "model", lambda: _architecture(loaded, catalogue, trail))


def _architecture(loaded: Loaded, catalogue: Catalogue, trail: Trail) -> Architecture:
    model = loaded.scenario.model
    if not isinstance(model, str):
        return architecture_from(model.model_dump(exclude_none=True))
    extra = next((root for root in catalogue.roots if root != data_root("hardware_db")), None)
    name = _from_here(model, loaded, extra)
    arch, sources = load_model(name, extra)
    trail.take(model_assumptions(name, extra))
    _, stated = trail.values["model"]
    trail.state("model", arch.name, f"{stated}; {next(iter(sources.values())).source}")
    return arch


def _from_here(model: str, loaded: Loaded, extra: Path | None) -> str:
    """A path of a model as it is from the working folder; a name as it stands."""
    if "\0" in model or model.startswith("~/"):
        return model
    here = Path(loaded.file).parent / model
    written = here if here.is_absolute() else f"./{here}"
    if model.endswith(".json") or model.startswith(("./", "../", "/")):
        if here.suffix == ".json" and not here.is_file():
            raise InputError(Problem(f"no such file: {here}", "give a path that starts at the scenario's folder"))
        return str(written)
    return str(written) if (here / "config.json").is_file() and not _in_catalogue(model, extra) else model


def _in_catalogue(model: str, extra: Path | None) -> bool:
    try:
        model_entry(model, extra)
    except InputError:
        return False
    return True


def look_up_cluster(scenario: Scenario, catalogue: Catalogue, trail: Trail) -> Cluster | None:
    """The cluster, or None with what is wrong with node and with fabric noted."""
    stated, date = scenario.cluster, scenario.training.software.date
    node: Any = stated.node if isinstance(stated.node, str) else stated.node.model_dump(exclude_none=True)
    fabric: Any = stated.fabric
    if fabric is not None and not isinstance(fabric, str):
        fabric = fabric.model_dump(exclude_none=True)
    before = len(trail.problems)
    for path, words, by_name, written in (
        ("cluster.node", node, catalogue.node, inline_node),
        ("cluster.fabric", fabric, catalogue.fabric, inline_fabric),
    ):
        if isinstance(words, str):
            collect(trail, path, lambda by_name=by_name, words=words: by_name(words, date))  # type: ignore[misc]
        elif words is not None:
            collect(trail, path, lambda written=written, words=words: written(words, catalogue, date))  # type: ignore[misc]
    if len(trail.problems) > before:
        return None
    return collect(
        trail,
        "cluster",
        lambda: cluster_from(node, stated.nodes, fabric, catalogue=catalogue, spares=stated.spares, date=date),
    )


def look_up_profile(loaded: Loaded, gpu: GpuSpec, trail: Trail) -> KernelProfile | None:
    """The kernel profile that the scenario names (a path starts at the scenario's folder), else the GPU's own.

    Notes a profile that does not serve, and a precision of the GPU that it has no rate for.
    """
    profile, precision = _profile(loaded, gpu, trail), loaded.scenario.training.precision
    if profile is not None and not lacks_precision(gpu, precision):
        collect(trail, "training.precision", lambda: peak_flops(profile, precision))
    return profile


def _profile(loaded: Loaded, gpu: GpuSpec, trail: Trail) -> KernelProfile | None:
    stated = loaded.scenario.training.software.profile
    if stated is None:
        if has_profile(gpu.id):
            return load_profile(gpu.id)
        stand_in = stand_in_profile(gpu.rates())
        how = "tables of the same chip in another product" if stand_in.gemm.tables else "priors, no measurement"
        trail.assume("timing.profile", how, f"nobody measured {gpu.id}; name a profile as {_PROFILE}")
        return stand_in
    is_path = stated.endswith((".yaml", ".yml")) or "/" in stated
    name = Path(loaded.file).parent / stated if is_path else stated
    profile = collect(trail, _PROFILE, lambda: load_profile(name))
    if profile is None:
        return None
    precision = loaded.scenario.training.precision
    theirs, own = profile.device.peak_flops.get(precision, 0.0), gpu.peak_flops.get(precision, 0.0)
    if theirs > _ROUNDING * own:
        message = f"{profile.id} peaks at {theirs / 1e12:g} TFLOP/s in {precision}, {gpu.id} at {own / 1e12:g}"
        trail.problem(_PROFILE, message, f"name a profile of {gpu.id}")
    elif profile.gpu != gpu.id:
        trail.assume("timing.profile", profile.id, f"stands for {gpu.id}, as stated; grade C at best")
        return downgraded(profile)
    return profile
