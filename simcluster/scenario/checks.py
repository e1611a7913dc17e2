"""What can be wrong with a scenario whose every value is legal by itself; nothing here needs the catalogue.

Each check is a free function of one rule that returns what it found; rules that lack a fact stay silent, and the rooms
that know the fact (heads of a catalogue model, GPUs of a catalogue node) apply them again.
"""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable

from simcluster.scenario.architecture import InlineArchitecture
from simcluster.scenario.cluster import NodeSpec
from simcluster.scenario.findings import (
    LAYOUT,
    Finding,
    accumulation_finding,
    batch_finding,
    depth_finding,
    divisors_near,
    heads_finding,
    kv_heads_finding,
    product_finding,
    sequence_finding,
)
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.training import Parallelism


def layout(scenario: Scenario) -> Parallelism | None:
    """The stated layout, None when it is to be planned."""
    parallelism = scenario.training.parallelism
    return parallelism if isinstance(parallelism, Parallelism) else None


def world(scenario: Scenario) -> int | None:
    """GPUs of the job if the scenario alone tells."""
    node = scenario.cluster.node
    return scenario.cluster.nodes * node.gpus if isinstance(node, NodeSpec) and node.gpus else None


def check_world(scenario: Scenario) -> Finding | None:
    """The layout covers the GPUs."""
    plan, gpus = layout(scenario), world(scenario)
    return product_finding(plan, gpus, nodes=scenario.cluster.nodes) if plan and gpus else None


def replicas(scenario: Scenario) -> int | None:
    """Data-parallel ranks if the scenario alone tells."""
    plan, gpus = layout(scenario), world(scenario)
    if plan is None or plan.dp is not None or not gpus:
        return plan.dp if plan else None
    model = plan.tp * plan.pp * plan.cp
    return gpus // model if gpus % model == 0 else None


def check_batch(scenario: Scenario) -> Finding | None:
    """The global batch is a whole number of micro-batches on each replica."""
    batch, micro, dp = scenario.training.global_batch, scenario.training.micro_batch, replicas(scenario)
    if not isinstance(batch, int) or not isinstance(micro, int) or dp is None:
        return None
    return batch_finding(batch, micro, dp)


def check_accumulation(scenario: Scenario) -> Finding | None:
    """Batch, micro-batch and accumulation agree where all are stated."""
    training, dp = scenario.training, replicas(scenario)
    batch, micro, times = training.global_batch, training.micro_batch, training.gradient_accumulation
    if not isinstance(batch, int) or not isinstance(micro, int) or times is None or dp is None:
        return None
    return None if batch_finding(batch, micro, dp) else accumulation_finding(batch, micro, times, dp)


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
    """The stated sequence length fits the stated context parallelism."""
    plan, length = layout(scenario), scenario.training.sequence_length
    return sequence_finding(length, plan.cp) if plan and length else None


def check_virtual_stages(scenario: Scenario) -> Finding | None:
    """Interleaving needs a pipeline and its schedule."""
    plan = layout(scenario)
    if not plan or plan.virtual_stages == 1:
        return None
    path, uses = f"{LAYOUT}.virtual_stages", (LAYOUT,)
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
    path, uses = f"{LAYOUT}.schedule", (LAYOUT,)
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
    path, chunks = f"{LAYOUT}.stages", plan.pp * plan.virtual_stages
    uses = (path, f"{LAYOUT}.pp", f"{LAYOUT}.virtual_stages", "model")
    if len(plan.stages) != chunks:
        message = f"{len(plan.stages)} entries for pp {plan.pp} x virtual_stages {plan.virtual_stages} = {chunks}"
        return Finding(path, message, f"list {chunks}", uses)
    held = sum(stage.layers for stage in plan.stages)
    if isinstance(scenario.model, InlineArchitecture) and held != scenario.model.layers:
        return Finding(path, f"hold {held} layers, the model has {scenario.model.layers}", "make them equal", uses)
    return None


def check_heads(scenario: Scenario) -> Finding | None:
    """Heads of an inline model fit tp."""
    plan, model = layout(scenario), scenario.model
    if not plan or not isinstance(model, InlineArchitecture):
        return None
    return heads_finding(model.heads, plan.tp) or kv_heads_finding(model.heads, model.kv_heads or 0, plan.tp)


def check_depth(scenario: Scenario) -> Finding | None:
    """Layers of an inline model fill the stages."""
    plan, model = layout(scenario), scenario.model
    if not plan or not isinstance(model, InlineArchitecture) or not isinstance(plan.stages, str):
        return None
    return depth_finding(plan, model.layers)


def check_experts(scenario: Scenario) -> Finding | None:
    """Expert groups are carved out of the ranks of one pipeline stage; what is not stated gives way."""
    plan, dp = layout(scenario), replicas(scenario)
    if not plan or dp is None:
        return None
    ep = plan.ep or 1
    ranks, wanted = plan.tp * plan.cp * dp, ep * (plan.etp or 1)
    if ranks % wanted == 0:
        return None
    inside = f" x etp {plan.etp} = {wanted}" if plan.etp else ""
    message = f"ep {ep}{inside} does not divide tp {plan.tp} x cp {plan.cp} x dp {dp} = {ranks} ranks of a stage"
    fitting = ", ".join(str(size) for size in divisors_near(max(1, ranks // (plan.etp or 1)), ep))
    return Finding(f"{LAYOUT}.ep", message, f"use ep {fitting}", (LAYOUT, "cluster"))


def check_sharding(scenario: Scenario) -> Finding | None:
    """Hsdp says how far a shard set goes."""
    sharding = scenario.training.sharding
    if sharding.strategy == "hsdp" and sharding.group == "all":
        uses = ("training.sharding",)
        return Finding("training.sharding.group", "hsdp shards over less than all ranks", "use node or a number", uses)
    return None


def check_slow_nodes(scenario: Scenario) -> Finding | None:
    """No more slow nodes than nodes, each of the cluster and named once."""
    entries, nodes = scenario.operations.stragglers.slow_nodes, scenario.cluster.nodes
    path, named = "operations.stragglers.slow_nodes", set[int]()
    for index, entry in enumerate(entries):
        if entry.node is not None and entry.node >= nodes:
            message = f"{entry.node} is no node of {nodes}"
            return Finding(f"{path}.{index}.node", message, f"count from 0 to {nodes - 1}", (path, "cluster.nodes"))
        if entry.node is not None and entry.node in named:
            return Finding(f"{path}.{index}.node", f"{entry.node} is there twice", "state each node once", (path,))
        named |= {entry.node} if entry.node is not None else set()
    slow = sum(entry.count or 1 for entry in entries)
    if slow <= nodes:
        return None
    return Finding(path, f"{slow} slow nodes, but the cluster has {nodes}", "lower the counts", (path, "cluster.nodes"))


def check_incidents(scenario: Scenario) -> Finding | None:
    """A 90th percentile is not below its median."""
    incidents = scenario.operations.failures.incidents
    spread = incidents.diagnose if incidents else None
    if spread is None or spread.p90 >= spread.median:
        return None
    path = "operations.failures.incidents.diagnose"
    return Finding(f"{path}.p90", "p90 is below the median", "swap them", (path,))


_FIRST_YEAR, _LAST_YEAR = 2012, 2099


def check_date(scenario: Scenario) -> Finding | None:
    """A software date is a day of the calendar."""
    date = scenario.training.software.date
    if date is None:
        return None
    year, month, day = (int(part) for part in f"{date}-01-01".split("-")[:3])
    path = "training.software.date"
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return Finding(path, f"{date} is no year of training software", f"from {_FIRST_YEAR} on", (path,))
    if not 1 <= month <= 12:
        return Finding(path, f"{date} has no month {month:02}", f"write {year}, or {year}-06", (path,))
    if not 1 <= day <= monthrange(year, month)[1]:
        return Finding(path, f"{date} has no day {day:02}", f"write {year}-{month:02}", (path,))
    return None


CHECKS: tuple[Callable[[Scenario], Finding | None], ...] = (
    check_world,
    check_batch,
    check_accumulation,
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
    check_date,
)


def check(scenario: Scenario) -> list[Finding]:
    """Everything that the checks find."""
    return [finding for rule in CHECKS if (finding := rule(scenario)) is not None]
