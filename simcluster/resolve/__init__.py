"""From a scenario to every value that a step needs, with where each came from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.parallel.mesh import AXES, axis_group
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine
from simcluster.resolve.compatibility import check_compatibility
from simcluster.resolve.expert_parallel import expert_groups
from simcluster.resolve.layout import executed_architecture, resolve_layout
from simcluster.resolve.layout_checks import check_plan
from simcluster.resolve.lookups import look_up_cluster, look_up_model, look_up_profile
from simcluster.resolve.means import MEANS_BLOCKS, settle_means
from simcluster.resolve.offload import offload_plan
from simcluster.resolve.plan import balanced_plan, step_plan
from simcluster.resolve.records import Layout, Resolved
from simcluster.resolve.software import fields_read, fields_settling, fields_unbuilt, note_defaults, resolve_software
from simcluster.resolve.terms import Means
from simcluster.resolve.trail import Trail
from simcluster.scenario import Loaded, Scenario, to_dict
from simcluster.scenario.training import Parallelism
from simcluster.shapes import Architecture
from simcluster.timing.collective_profile import load_collective_profile
from simcluster.timing.profile import KernelProfile
from simcluster.timing.software import SoftwareFamily
from simcluster.timing.sustained import sustained_rate

__all__ = ["Layout", "Resolved", "Trail", "resolve", "stated_values"]

_HOST_VALUES = ("cluster.node.host", "cluster.node.ram", "cluster.node.nvme")
_IDLE_VALUES = (
    *_HOST_VALUES,
    "cluster.fabric.routing",
    "cluster.fabric.storage",
    "training.software.torch",
    "training.software.cuda",
    "training.software.backend",
)


def resolve(loaded: Loaded, catalogue: Catalogue) -> Resolved:
    """Settles every value of a scenario.

    Raises InputError with all problems that can be found at once: unknown names, a layout that does not fit model or
    cluster, what is not simulated yet.
    """
    scenario = loaded.scenario
    trail = Trail(loaded.origins)
    for path, value in stated_values(loaded).items():
        trail.state(path, value, str(loaded.origins[path]))
    arch, cluster, family = _named(loaded, catalogue, trail)
    means = _means(loaded, arch, cluster, family, catalogue, trail)
    layout = resolve_layout(scenario, arch, cluster.gpus, cluster.node.gpus, family, trail)
    profile = look_up_profile(loaded, cluster.node.gpu, trail)
    _check_tokens(scenario, layout, trail)
    trail.stop()
    assert layout is not None
    assert profile is not None
    parallelism = scenario.training.parallelism
    assert isinstance(parallelism, Parallelism)
    note_defaults(scenario, family, layout, arch, trail)
    executed = executed_architecture(arch, layout.tp, trail)
    plan = step_plan(executed, cluster, family, layout, parallelism)
    trail.stop()
    machine = _machine(cluster, family, layout, plan, profile, trail)
    if parallelism.stages == "balanced":
        plan = balanced_plan(plan, machine, trail)
    plan = replace(plan, offload=offload_plan(scenario, cluster, family, layout, plan, catalogue, trail))
    trail.stop()
    return Resolved(
        scenario=scenario,
        arch=arch,
        cluster=cluster,
        family=family,
        layout=layout,
        plan=plan,
        machine=machine,
        values=trail.values,
        assumptions=tuple(trail.assumptions),
        means=means,
        unmodelled=(*_unmodelled(loaded, plan), *_unmodelled_software(scenario, family, layout, arch)),
    )


def _named(loaded: Loaded, catalogue: Catalogue, trail: Trail) -> tuple[Architecture, Cluster, SoftwareFamily]:
    """Model, machines and software; stops where one of the first two is not known."""
    scenario = loaded.scenario
    arch = look_up_model(loaded, catalogue, trail)
    cluster = look_up_cluster(scenario, catalogue, trail)
    if cluster is not None:
        trail.take(cluster.assumptions)
    family = resolve_software(scenario, cluster.node.gpu.generation if cluster else "", trail)
    if cluster is not None:
        check_compatibility(scenario, cluster, family, trail)
    check_plan(scenario, arch, trail)
    if arch is None or cluster is None:
        trail.stop()
    assert arch is not None
    assert cluster is not None
    return arch, cluster, family


def _check_tokens(scenario: Scenario, layout: Layout | None, trail: Trail) -> None:
    """Notes a run of less than a step."""
    tokens = scenario.training.tokens
    step = layout.sequences * layout.sequence_length if layout else 0
    if tokens is not None and tokens < step:
        message = f"{tokens} tokens are less than one step of {step}"
        trail.problem("training.tokens", message, "state those of the whole run, like 2T")


def _means(
    loaded: Loaded,
    arch: Architecture,
    cluster: Cluster,
    family: SoftwareFamily,
    catalogue: Catalogue,
    trail: Trail,
) -> Callable[[], Means]:
    """Settles what running and paying depends on when it is asked for.

    At once if the scenario says anything of it, so that its problems are told with all others.
    """
    folder = Path(loaded.file).parent
    settle = cache(partial(settle_means, loaded.scenario, loaded.origins, arch, cluster, family, catalogue, folder))
    stated = {path.split(".")[0] for path, origin in loaded.origins.items() if origin.kind != "default"}
    if not stated.isdisjoint(MEANS_BLOCKS):
        try:
            settle()
        except InputError as error:
            trail.problems += error.problems
    return settle


def stated_values(loaded: Loaded) -> dict[str, Any]:
    """Single values of a scenario by dotted path, defaults included, before anything is looked up."""
    flat = dict(_flatten(to_dict(loaded.scenario, defaults=True)))
    return {path: flat[path] for path in loaded.origins if path in flat}


def _flatten(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Paths that hold no further paths, and their values."""
    pairs: Iterable[tuple[Any, Any]] = ()
    if isinstance(data, Mapping):
        pairs = data.items()
    elif isinstance(data, (list, tuple)) and any(isinstance(item, Mapping) for item in data):
        pairs = enumerate(data)
    else:
        yield path, data
    for key, value in pairs:
        yield from _flatten(value, f"{path}.{key}" if path else str(key))


def _machine(
    cluster: Cluster, family: SoftwareFamily, layout: Layout, plan: StepPlan, profile: KernelProfile, trail: Trail
) -> Machine:
    node = cluster.node
    rate = sustained_rate(node.gpu.generation)
    why = f"fitted on {rate.rows} published runs" if rate.rows else f"prior ({rate.source})"
    trail.assume("timing.sustained_gemm_rate", rate.value, f"{node.gpu.generation}: {why}")
    return Machine(
        kernels=profile,
        collectives=load_collective_profile(),
        network=cluster.network_rates(),
        groups={
            **{axis: axis_group(plan.mesh, axis, node.scale_up_domain, node.gpus) for axis in AXES},
            **expert_groups(layout.ep, layout.etp, plan.mesh.world, node.scale_up_domain, node.gpus),
        },
        gemm_rate=rate.value,
        gemm_rate_sigma=rate.sigma,
        host_issue_s=0.0 if family.cuda_graphs else family.host_issue_s,
    )


def _unmodelled_software(
    scenario: Scenario, family: SoftwareFamily, layout: Layout, arch: Architecture
) -> tuple[str, ...]:
    """Overrides that nothing in this layout reads, and what the family does and nothing computes yet."""
    read = fields_read(family, layout, arch) | fields_settling(scenario.training, layout, arch)
    idle = [key for key in scenario.training.software.overrides if key not in read]
    unbuilt = [key for key in fields_unbuilt(family, layout) if key not in idle]
    return (*(f"training.software.overrides.{key}" for key in idle), *(f"training.software.{key}" for key in unbuilt))


def _unmodelled(loaded: Loaded, plan: StepPlan) -> tuple[str, ...]:
    """What the user stated and nothing computes yet; host and drives count where states live there."""
    stated = {path for path, origin in loaded.origins.items() if origin.kind != "default"}
    used = () if plan.offload is None else _HOST_VALUES if plan.offload.drives else _HOST_VALUES[:2]
    return tuple(one for one in _IDLE_VALUES if one in stated and one not in used)
