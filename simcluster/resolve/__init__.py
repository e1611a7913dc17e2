"""From a scenario to every value that a step needs, with where each came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster, cluster_from
from simcluster.parallel.mesh import AXES, axis_group
from simcluster.program.plan import StepPlan
from simcluster.program.pricing import Machine
from simcluster.resolve.layout import executed_architecture, resolve_layout
from simcluster.resolve.plan import step_plan
from simcluster.resolve.records import Layout, Resolved
from simcluster.resolve.software import fields_read, note_defaults, resolve_software
from simcluster.resolve.trail import Trail
from simcluster.scenario import Loaded, Scenario
from simcluster.scenario.training import Parallelism
from simcluster.shapes import Architecture
from simcluster.timing.collective_profile import load_collective_profile
from simcluster.timing.profile import has_profile, load_profile
from simcluster.timing.software import SoftwareFamily
from simcluster.timing.sustained import sustained_rate
from simcluster.workload.catalogue import architecture_from, load_model

__all__ = ["Layout", "Resolved", "Trail", "resolve"]


def resolve(loaded: Loaded, catalogue: Catalogue) -> Resolved:
    """Settles every value of a scenario.

    Raises InputError with all problems that can be found at once: unknown names, a layout that does not fit model or
    cluster, what is not simulated yet.
    """
    scenario = loaded.scenario
    trail = Trail({path: origin.mark for path, origin in loaded.origins.items() if origin.mark is not None})
    for path, origin in loaded.origins.items():
        trail.state(path, _value(scenario, path), str(origin))
    arch = _collect(trail, "model", lambda: _architecture(scenario, trail))
    cluster = _collect(trail, "cluster", lambda: _cluster(scenario, catalogue))
    trail.stop()
    assert arch is not None
    assert cluster is not None
    trail.take(cluster.assumptions)
    gpu = cluster.node.gpu
    family = resolve_software(scenario, gpu.generation, trail)
    layout = resolve_layout(scenario, arch, cluster.gpus, family, trail)
    profile = scenario.training.software.profile or gpu.id
    if not has_profile(profile):
        advice = "give training.software.profile, the path of a measured profile"
        trail.problem("cluster.node", f"no kernel profile for GPU {gpu.id}", advice)
    trail.stop()
    assert layout is not None
    parallelism = scenario.training.parallelism
    assert isinstance(parallelism, Parallelism)
    note_defaults(scenario, family, layout, trail)
    executed = executed_architecture(arch, layout.tp, trail)
    plan = step_plan(executed, cluster, family, layout, parallelism, trail)
    trail.stop()
    machine = _machine(cluster, family, plan, profile, trail)
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
        unmodelled=(*_unmodelled(loaded), *_idle_overrides(loaded.scenario, family, layout)),
    )


def _value(scenario: Scenario, path: str) -> Any:
    """Value of a dotted path, None where the path runs into something that is not there."""
    node: Any = scenario
    for step in path.split("."):
        if isinstance(node, Mapping):
            node = node.get(step)
        elif isinstance(node, tuple):
            node = node[int(step)] if step.isdigit() and int(step) < len(node) else None
        else:
            node = getattr(node, step, None)
    return node


def _collect(trail: Trail, path: str, make: Any) -> Any:
    """Result of `make`, or None with its problems noted at a path."""
    try:
        return make()
    except InputError as error:
        for problem in error.problems:
            if problem.mark is not None:
                trail.problems.append(problem)
            else:
                where, _, text = (
                    problem.message.partition(": ") if problem.message.startswith(path) else (path, "", problem.message)
                )
                trail.problem(where, text, problem.advice)
        return None


def _architecture(scenario: Scenario, trail: Trail) -> Architecture:
    model = scenario.model
    if isinstance(model, str):
        if model.endswith(".json"):
            trail.unsupported("model", "reading a config.json")
            trail.stop()
        arch, sources = load_model(model)
        trail.state("model", arch.name, f"catalogue: {next(iter(sources.values())).source}")
        return arch
    return architecture_from(model.model_dump(exclude_none=True))


def _cluster(scenario: Scenario, catalogue: Catalogue) -> Cluster:
    stated = scenario.cluster
    node = stated.node if isinstance(stated.node, str) else stated.node.model_dump(exclude_none=True)
    fabric: str | dict[str, Any] | None
    if stated.fabric is None or isinstance(stated.fabric, str):
        fabric = stated.fabric
    else:
        fabric = stated.fabric.model_dump(exclude_none=True)
    date = scenario.training.software.date
    return cluster_from(node, stated.nodes, fabric, catalogue=catalogue, spares=stated.spares, date=date)


def _machine(cluster: Cluster, family: SoftwareFamily, plan: StepPlan, profile: str, trail: Trail) -> Machine:
    node = cluster.node
    rate = sustained_rate(node.gpu.generation)
    why = f"fitted on {rate.rows} published runs" if rate.rows else f"prior ({rate.source})"
    trail.assume("timing.sustained_gemm_rate", rate.value, f"{node.gpu.generation}: {why}")
    return Machine(
        kernels=load_profile(profile),
        collectives=load_collective_profile(),
        network=cluster.network_rates(),
        groups={axis: axis_group(plan.mesh, axis, node.scale_up_domain, node.gpus) for axis in AXES},
        gemm_rate=rate.value,
        gemm_rate_sigma=rate.sigma,
        host_issue_s=0.0 if family.cuda_graphs else family.host_issue_s,
    )


def _idle_overrides(scenario: Scenario, family: SoftwareFamily, layout: Layout) -> tuple[str, ...]:
    """Overrides that nothing in this layout reads."""
    read = fields_read(family, layout)
    return tuple(
        f"training.software.overrides.{key}" for key in scenario.training.software.overrides if key not in read
    )


def _unmodelled(loaded: Loaded) -> tuple[str, ...]:
    """Blocks that the user stated and that nothing computes yet."""
    blocks = ("operations", "acquire", "use", "facility")
    stated = {path.split(".")[0] for path, origin in loaded.origins.items() if origin.kind != "default"}
    return tuple(block for block in blocks if block in stated)
