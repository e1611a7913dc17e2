"""Layouts of candidates: those stated, those that the planner chooses, or that of the first for all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from simcluster.evaluation import Engine, Evaluation, evaluate
from simcluster.hardware.catalogue import Catalogue
from simcluster.planner import Plan, needs_plan, plan_layout
from simcluster.resolve import Layout
from simcluster.scenario import Loaded, Origin, apply_changes
from simcluster.shapes import Assumption

# How a scenario names schedules that follow from something else.
_STATED_AS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {"breadth-first": {"schedule": "1f1b", "order": "breadth-first"}, "1f1b-overlapped": {"schedule": "1f1b"}}
)


def settled(loaded: Loaded, catalogue: Catalogue, engine: Engine = "max-plus", seed: int = 0) -> Evaluation:
    """Evaluation of a scenario, with the planner's layout where it states none; InputError as both raise it.

    engine, seed   as in `evaluate`
    """
    if needs_plan(loaded):
        found = replace(_planned(plan_layout(loaded, catalogue)), engine=engine, seed=seed)
    else:
        found = evaluate(loaded, catalogue, engine, seed)
    found.cost  # noqa: B018 - so that unknown names and missing prices are told here, with those of other candidates
    return found


def _planned(plan: Plan) -> Evaluation:
    """The planner's evaluation, with its choice among the assumptions."""
    resolved, counts = plan.evaluation.resolved, plan.counts
    words = layout_words(resolved.layout)
    fits = f"{counts.fitting} fit in memory" if counts.fitting else "none fits in memory, this comes nearest"
    why = f"chosen: the fastest of {counts.valid} possible layouts, of which {fits} ({counts.simulated} simulated)"
    chosen = Assumption("training.parallelism", words, why)
    values = {**resolved.values, chosen.path: (chosen.value, f"assumed: {chosen.why}")}
    return Evaluation(replace(resolved, values=values, assumptions=(chosen, *resolved.assumptions)))


def layout_words(layout: Layout) -> str:
    """A layout in a line; degrees of one go without saying, but for tp, pp and dp.

    >>> from simcluster.scenario import load_text
    >>> from simcluster.hardware.catalogue import Catalogue
    >>> job = load_text("{model: gpt2, cluster: {node: dgx-a100-80gb, nodes: 1}, training: {global_batch: 64}}")
    >>> layout_words(settled(job, Catalogue.load()).resolved.layout)
    'tp 1, pp 1, dp 8, 64 sequences a step in micro-batches of 8, zero-1, recompute none'
    """
    degrees = [f"tp {layout.tp}", f"pp {layout.pp}", f"dp {layout.dp}"]
    more = (("cp", layout.cp), ("ep", layout.ep), ("virtual stages", layout.virtual_stages))
    degrees += [f"{name} {size}" for name, size in more if size > 1]
    batch = f"{layout.sequences} sequences a step in micro-batches of {layout.micro_batch}"
    rest = [batch, layout.strategy, f"recompute {layout.recompute}"]
    return ", ".join([*degrees, *rest])


def with_layout(loaded: Loaded, layout: Layout) -> Loaded:
    """The scenario with the layout of another one, as many replicas as its GPUs make."""
    return apply_changes(loaded, layout_changes(layout), Origin("candidate", "--same-layout"))


def layout_changes(layout: Layout) -> Mapping[str, Any]:
    """A layout as changes by dotted path; replicas follow from the number of GPUs."""
    degrees = ("tp", "pp", "cp", "virtual_stages", "sequence_parallel")
    plan: dict[str, Any] = {name: getattr(layout, name) for name in degrees}
    plan |= _STATED_AS.get(layout.schedule, {"schedule": layout.schedule})
    plan |= {"ep": layout.ep, "etp": layout.etp} if layout.ep > 1 or layout.etp > 1 else {}
    modules = layout.recompute.split("+")
    named = layout.recompute in ("none", "selective", "full")
    return {
        "training.parallelism": plan,
        "training.micro_batch": layout.micro_batch,
        "training.recompute": layout.recompute if named else {"modules": modules},
        "training.sharding.strategy": layout.strategy,
    }
