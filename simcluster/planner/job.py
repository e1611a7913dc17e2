"""What a search is about: the settled scenario, and which choices its owner left open."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import Cluster
from simcluster.planner.choices import strategies
from simcluster.resolve import stated_values
from simcluster.resolve.batch import settle_length
from simcluster.resolve.compatibility import check_compatibility
from simcluster.resolve.layout_checks import check_plan
from simcluster.resolve.lookups import look_up_cluster, look_up_model, look_up_profile
from simcluster.resolve.software import resolve_software
from simcluster.resolve.trail import Trail
from simcluster.scenario import Loaded, Scenario
from simcluster.scenario.training import Parallelism, RecomputeModules, Training
from simcluster.shapes import Architecture
from simcluster.timing.software import SoftwareFamily
from simcluster.workload.parameters import count_parameters

SMALL_PARAMETERS = 1e9  # below it, one node trains with data parallelism alone where it can (estimate)
RECOMPUTES = ("none", "selective", "full")


@dataclass(frozen=True, slots=True)
class Job:
    """A scenario without a layout.

    context_family   the software as it runs with context parallelism, None if it cannot
    sequence     tokens of a sequence
    recomputes   recompute modes to try, the lightest first; one where it is stated
    strategies   sharding strategies to try, the software's own first; one where it is stated
    plain        only data parallelism is tried
    """

    loaded: Loaded
    training: Training
    arch: Architecture
    cluster: Cluster
    family: SoftwareFamily
    context_family: SoftwareFamily | None
    sequence: int
    recomputes: tuple[str, ...]
    strategies: tuple[str, ...]
    plain: bool = False

    @property
    def small(self) -> bool:
        """Whether it is a small model on one node."""
        return self.cluster.nodes == 1 and count_parameters(self.arch).total < SMALL_PARAMETERS

    @property
    def node_gpus(self) -> int:
        """GPUs of a node."""
        return self.cluster.node.gpus

    @property
    def world(self) -> int:
        """GPUs of the cluster."""
        return self.cluster.gpus


def settle_job(loaded: Loaded, catalogue: Catalogue) -> Job:
    """Looks up all but the layout; raises InputError with everything that is wrong whatever the layout."""
    scenario, trail = loaded.scenario, Trail(loaded.origins)
    for path, value in stated_values(loaded).items():
        trail.state(path, value, str(loaded.origins[path]))
    arch = look_up_model(loaded, catalogue, trail)
    cluster = look_up_cluster(scenario, catalogue, trail)
    generation = cluster.node.gpu.generation if cluster else ""
    family = resolve_software(scenario, generation, trail)
    if cluster is not None:
        check_compatibility(scenario, cluster, family, trail)
        look_up_profile(loaded, cluster.node.gpu, trail)
    check_plan(_with(scenario, Parallelism()), arch, trail)
    trail.stop()
    assert arch is not None
    assert cluster is not None
    training = scenario.training
    stated = training.sharding.strategy
    return Job(
        loaded=loaded,
        training=training,
        arch=arch,
        cluster=cluster,
        family=family,
        context_family=_context_family(scenario, generation),
        sequence=settle_length(scenario, arch, trail),
        recomputes=RECOMPUTES if training.recompute is None else (_written(training.recompute),),
        strategies=(stated,) if stated else strategies(family, training.sharding.group),
    )


def plainly(job: Job) -> Job:
    """The same job with data parallelism alone, sharded as its software does by itself."""
    return replace(job, plain=True, strategies=job.strategies[:1])


def _with(scenario: Scenario, plan: Parallelism) -> Scenario:
    return scenario.model_copy(update={"training": scenario.training.model_copy(update={"parallelism": plan})})


def _context_family(scenario: Scenario, generation: str) -> SoftwareFamily | None:
    """The software as it runs with context parallelism, None if it cannot."""
    trail = Trail()
    family = resolve_software(_with(scenario, Parallelism(cp=2)), generation, trail)
    return None if trail.problems else family


def _written(recompute: str | RecomputeModules) -> str:
    return recompute if isinstance(recompute, str) else "+".join(recompute.modules)


def needs_plan(loaded: Loaded) -> bool:
    """Whether a scenario leaves its layout to the planner.

    >>> from simcluster.scenario.loading import load_text
    >>> text = "{model: llama-7b, cluster: {node: dgx-h100, nodes: 4}, training: {parallelism: %s}}"
    >>> needs_plan(load_text(text % "auto")), needs_plan(load_text(text % "{tp: 2}"))
    (True, False)
    """
    return not isinstance(loaded.scenario.training.parallelism, Parallelism)
