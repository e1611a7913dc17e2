"""States that ranks share: their memory, the optimizer's time, and what more replicas save."""

from __future__ import annotations

import itertools

import pytest


def scaled(run, nodes, strategy, **plan):
    return run(
        {
            "cluster": {"nodes": nodes},
            "training": {
                "global_batch": 4 * 8 * nodes // plan.get("tp", 1) // plan.get("pp", 1) // plan.get("cp", 1),
                "parallelism": {"tp": 1, "pp": 1, **plan},
                "sharding": {"strategy": strategy, "group": "node" if strategy == "hsdp" else "all"},
            },
        }
    )


@pytest.mark.parametrize("strategy", ["none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp"])
@pytest.mark.parametrize("plan", [{}, {"tp": 8}, {"pp": 4}, {"cp": 2}, {"tp": 2, "pp": 2}])
def test_more_replicas_are_never_faster_than_what_sharding_saves(run, strategy, plan):
    if strategy == "hsdp" and plan.get("tp") == 8:
        return
    steps, optimizer = [], []
    for nodes in (1, 2, 4, 8, 16, 64):
        evaluation = scaled(run, nodes, strategy, **plan)
        steps.append(evaluation.step.time_s)
        optimizer.append(float(evaluation.times.optimizer.max()))
    for i in range(1, len(steps)):
        assert steps[i] >= steps[i - 1] - (optimizer[i - 1] - optimizer[i]) - 1e-4 * steps[i], (i, steps, optimizer)


@pytest.mark.parametrize("axis", ["tp", "pp"])
@pytest.mark.parametrize("strategy", ["none", "zero-1", "zero-2", "zero-3", "fsdp", "hsdp"])
def test_state_memory_never_grows_with_a_split(run, axis, strategy):
    held = []
    for degree in (1, 2, 4, 8):
        plan = {"tp": 1, "pp": 1, "sequence_parallel": True, axis: degree}
        change = {"parallelism": plan, "sharding": {"strategy": strategy, "group": 2}}
        stages = run({"training": change}).memory.stages
        states = ("weights", "gradients", "optimizer")
        held.append(max(sum(float(stage.components[name]) for name in states) for stage in stages))
    assert all(after <= before * (1 + 1e-9) for before, after in itertools.pairwise(held))


def test_sharded_states_shrink_with_the_set(run):
    for strategy in ("zero-1", "zero-2", "zero-3"):
        held = []
        for group in (1, 2, 4, 8, 16):
            change = {
                "parallelism": {"tp": 1, "pp": 1, "sequence_parallel": None},
                "sharding": {"strategy": strategy, "group": group},
            }
            (stage,) = run({"training": change}).memory.stages
            held.append(sum(float(stage.components[name]) for name in ("weights", "gradients", "optimizer")))
        assert all(after < before for before, after in itertools.pairwise(held))
        parameters = 16 * 2048 * 2048 * 12 + 2 * 32000 * 2048
        assert held[0] == pytest.approx(18 * parameters, rel=0.01)


@pytest.mark.parametrize("strategy", ["zero-2", "zero-3", "fsdp"])
def test_the_optimizer_touches_only_what_the_rank_holds(run, strategy):
    """With everything sharded over D ranks, D times as many ranks take a D-th of the time."""
    plan = {"tp": 1, "pp": 1, "sequence_parallel": None}
    few, many = (
        run({"training": {"parallelism": plan, "sharding": {"strategy": strategy, "group": group}}})
        for group in (2, 16)
    )
    fixed = 1e-4  # four kernels' gaps
    assert few.times.optimizer[0] == pytest.approx(8 * many.times.optimizer[0], abs=8 * fixed, rel=0.05)
