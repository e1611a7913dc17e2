"""What can be wrong with a scenario whose every value is legal by itself; nothing here needs the catalogue.

Each check is a free function of one rule that returns what it found; rules that lack a fact stay silent, and the rooms
that know the fact (heads of a catalogue model, GPUs of a catalogue node) apply them again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from simcluster.scenario.architecture import InlineArchitecture
from simcluster.scenario.cluster import NodeSpec
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.suggest import either
from simcluster.scenario.training import Parallelism

_LAYOUT = "training.parallelism"


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken rule: the path it is told at, what and advice, and all paths that it rests on."""

    path: str
    message: str
    advice: str = ""
    uses: tuple[str, ...] = ()


def layout(scenario: Scenario) -> Parallelism | None:
    """The stated layout, None when it is to be planned."""
    parallelism = scenario.training.parallelism
    return parallelism if isinstance(parallelism, Parallelism) else None


def world(scenario: Scenario) -> int | None:
    """GPUs of the job if the scenario alone tells."""
    node = scenario.cluster.node
    return scenario.cluster.nodes * node.gpus if isinstance(node, NodeSpec) and node.gpus else None


def product_finding(plan: Parallelism, gpus: int, path: str = _LAYOUT) -> Finding | None:
    """Tp pp cp dp must be the number of GPUs; for any room that knows it.

    >>> product_finding(Parallelism(tp=8, pp=3), 64).message
    'tp 8 x pp 3 x cp 1 = 24 does not divide the 64 GPUs'
    """
    fixed = plan.tp * plan.pp * plan.cp
    factors = f"tp {plan.tp} x pp {plan.pp} x cp {plan.cp}"
    uses = ("cluster", *(f"{path}.{key}" for key in ("tp", "pp", "cp", "dp")))
    if plan.dp is None:
        if gpus % fixed == 0:
            return None
        near = ", ".join(str(size) for size in _divisors_near(gpus, fixed))
        return Finding(path, f"{factors} = {fixed} does not divide the {gpus} GPUs", f"make it one of {near}", uses)
    if fixed * plan.dp == gpus:
        return None
    advice = f"dp {gpus // fixed} would fit" if gpus % fixed == 0 else f"make tp x pp x cp divide {gpus}"
    return Finding(path, f"{factors} x dp {plan.dp} = {fixed * plan.dp}, but there are {gpus} GPUs", advice, uses)


def check_world(scenario: Scenario) -> Finding | None:
    """The layout covers the GPUs."""
    plan, gpus = layout(scenario), world(scenario)
    return product_finding(plan, gpus) if plan and gpus else None


def check_batch(scenario: Scenario) -> Finding | None:
    """The global batch is a whole number of micro-batches on each replica."""
    training, plan, gpus = scenario.training, layout(scenario), world(scenario)
    batch, micro = training.global_batch, training.micro_batch
    dp = plan.dp if plan else None
    if plan and dp is None and gpus and gpus % (plan.tp * plan.pp * plan.cp) == 0:
        dp = gpus // (plan.tp * plan.pp * plan.cp)
    if not isinstance(batch, int) or not isinstance(micro, int) or dp is None or batch % (micro * dp) == 0:
        return None
    uses = ("training.global_batch", "training.micro_batch", _LAYOUT, "cluster")
    message = f"{batch} sequences are not a multiple of micro_batch {micro} x dp {dp} = {micro * dp}"
    if batch % dp:
        near = dict.fromkeys(max(1, batch // dp + step) * dp for step in (0, 1))
        return Finding("training.global_batch", message, f"use {either(map(str, near))}, or change dp", uses)
    fitting = ", ".join(str(size) for size in _divisors_near(batch // dp, micro))
    return Finding("training.global_batch", message, f"micro_batch {fitting} would fit", uses)


def check_batch_tokens(scenario: Scenario) -> Finding | None:
    """A batch stated in tokens holds at least one sequence."""
    training = scenario.training
    if training.global_batch is None or isinstance(training.global_batch, int) or training.sequence_length is None:
        return None
    tokens = training.global_batch.tokens
    if tokens >= training.sequence_length:
        return None
    message = f"{tokens} tokens are less than one sequence of {training.sequence_length}"
    uses = ("training.global_batch", "training.sequence_length")
    return Finding("training.global_batch", message, "state more tokens", uses)


def check_sequence(scenario: Scenario) -> Finding | None:
    """Context parallelism cuts the sequence into equal parts."""
    plan, length = layout(scenario), scenario.training.sequence_length
    if not plan or length is None or length % plan.cp == 0:
        return None
    near = ", ".join(str(size) for size in _divisors_near(length, plan.cp))
    uses = (f"{_LAYOUT}.cp", "training.sequence_length")
    return Finding(f"{_LAYOUT}.cp", f"{plan.cp} does not divide the sequence of {length}", f"use {near}", uses)


def check_virtual_stages(scenario: Scenario) -> Finding | None:
    """Interleaving needs a pipeline and its schedule."""
    plan = layout(scenario)
    if not plan or plan.virtual_stages == 1:
        return None
    path, uses = f"{_LAYOUT}.virtual_stages", (_LAYOUT,)
    if plan.pp == 1:
        return Finding(path, f"{plan.virtual_stages} needs a pipeline, but pp is 1", "use 1, or raise pp", uses)
    if plan.schedule != "1f1b":
        message = f"{plan.virtual_stages} goes with schedule 1f1b, not {plan.schedule}"
        return Finding(path, message, "use 1, or schedule 1f1b", uses)
    return None


def check_schedule(scenario: Scenario) -> Finding | None:
    """A pipeline needs a schedule, and DualPipe an even number of stages."""
    plan = layout(scenario)
    if not plan or plan.pp == 1:
        return None
    path, uses = f"{_LAYOUT}.schedule", (_LAYOUT,)
    if plan.schedule == "none":
        return Finding(path, f"none leaves pp {plan.pp} without a schedule", "use 1f1b", uses)
    if plan.schedule == "dualpipe" and plan.pp % 2:
        return Finding(path, f"dualpipe needs an even pp, not {plan.pp}", f"use pp {plan.pp + 1} or 1f1b", uses)
    return None


def check_stages(scenario: Scenario) -> Finding | None:
    """An explicit split has an entry for each stage and holds all layers."""
    plan = layout(scenario)
    if not plan or isinstance(plan.stages, str):
        return None
    path, chunks = f"{_LAYOUT}.stages", plan.pp * plan.virtual_stages
    uses = (path, f"{_LAYOUT}.pp", f"{_LAYOUT}.virtual_stages", "model")
    if len(plan.stages) != chunks:
        message = f"{len(plan.stages)} entries for pp {plan.pp} x virtual_stages {plan.virtual_stages} = {chunks}"
        return Finding(path, message, f"list {chunks}", uses)
    held = sum(stage.layers for stage in plan.stages)
    if isinstance(scenario.model, InlineArchitecture) and held != scenario.model.layers:
        return Finding(path, f"hold {held} layers, the model has {scenario.model.layers}", "make them equal", uses)
    return None


MOST_PADDING = 0.1  # of the heads; a layout that wastes more is one that nobody would run


def padded_heads(heads: int, tp: int) -> int:
    """Heads after padding to a multiple of tp.

    >>> padded_heads(52, 8), padded_heads(64, 8)
    (56, 64)
    """
    return -(-heads // tp) * tp


def check_heads(scenario: Scenario) -> Finding | None:
    """Tensor parallelism gives each rank whole heads, at most a tenth of them padding."""
    plan, model = layout(scenario), scenario.model
    if not plan or not isinstance(model, InlineArchitecture):
        return None
    if padded_heads(model.heads, plan.tp) <= (1 + MOST_PADDING) * model.heads:
        return None
    near = ", ".join(str(size) for size in _divisors_near(model.heads, plan.tp))
    message = f"{plan.tp} does not divide the {model.heads} heads"
    return Finding(f"{_LAYOUT}.tp", message, f"use {near}", (f"{_LAYOUT}.tp", "model"))


def check_depth(scenario: Scenario) -> Finding | None:
    """There are no more stages than layers."""
    plan, model = layout(scenario), scenario.model
    if not plan or not isinstance(model, InlineArchitecture) or plan.pp * plan.virtual_stages <= model.layers + 2:
        return None
    message = f"pp {plan.pp} x virtual_stages {plan.virtual_stages} is more than the {model.layers} layers"
    uses = (f"{_LAYOUT}.pp", f"{_LAYOUT}.virtual_stages", "model")
    return Finding(f"{_LAYOUT}.pp", message, "use fewer stages", uses)


def check_experts(scenario: Scenario) -> Finding | None:
    """Expert groups are carved out of the ranks of one pipeline stage."""
    plan = layout(scenario)
    if not plan or plan.dp is None:
        return None
    ranks, wanted = plan.tp * plan.cp * plan.dp, plan.ep * (plan.etp or plan.tp)
    if ranks % wanted == 0:
        return None
    message = f"ep {plan.ep} x etp {plan.etp or plan.tp} = {wanted} does not divide tp x cp x dp = {ranks}"
    return Finding(f"{_LAYOUT}.ep", message, "ep and etp share the ranks of tp, cp and dp", (_LAYOUT,))


def check_sharding(scenario: Scenario) -> Finding | None:
    """Hsdp says how far a shard set goes."""
    sharding = scenario.training.sharding
    if sharding.strategy == "hsdp" and sharding.group == "all":
        uses = ("training.sharding",)
        return Finding("training.sharding.group", "hsdp shards over less than all ranks", "use node or a number", uses)
    return None


def check_slow_nodes(scenario: Scenario) -> Finding | None:
    """No more slow nodes than nodes."""
    slow = sum(entry.count for entry in scenario.operations.stragglers.slow_nodes)
    if slow <= scenario.cluster.nodes:
        return None
    path = "operations.stragglers.slow_nodes"
    message = f"{slow} slow nodes, but the cluster has {scenario.cluster.nodes}"
    return Finding(path, message, "lower the counts", (path, "cluster.nodes"))


def check_incidents(scenario: Scenario) -> Finding | None:
    """A 90th percentile is not below its median."""
    incidents = scenario.operations.failures.incidents
    spread = incidents.diagnose if incidents else None
    if spread is None or spread.p90 >= spread.median:
        return None
    path = "operations.failures.incidents.diagnose"
    return Finding(f"{path}.p90", "p90 is below the median", "swap them", (path,))


CHECKS: tuple[Callable[[Scenario], Finding | None], ...] = (
    check_world,
    check_batch,
    check_batch_tokens,
    check_sequence,
    check_virtual_stages,
    check_schedule,
    check_stages,
    check_heads,
    check_depth,
    check_experts,
    check_sharding,
    check_slow_nodes,
    check_incidents,
)


def check(scenario: Scenario) -> list[Finding]:
    """Everything that the checks find."""
    return [finding for rule in CHECKS if (finding := rule(scenario)) is not None]


def _divisors_near(number: int, wanted: int) -> Iterable[int]:
    """Up to three divisors of `number` around `wanted`, ascending."""
    small = [size for size in range(1, min(number, 100_000) + 1) if size * size <= number and number % size == 0]
    divisors = sorted({*small, *(number // size for size in small)})
    return sorted(sorted(divisors, key=lambda size: abs(size - wanted))[:3])
