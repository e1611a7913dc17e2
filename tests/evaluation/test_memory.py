"""Memory with the layers of another plan against the scenario that states them."""

from simcluster.analysis.balancing import with_layers
from simcluster.evaluation.memory import memory_of


def test_layers_of_another_plan_take_what_a_scenario_that_states_them_takes(run):
    evaluation = run()
    moved = memory_of(evaluation.resolved, with_layers(evaluation.resolved.plan, (10, 6)))
    stated = run({"training": {"parallelism": {"stages": [10, 6]}}}).memory
    assert [float(one.peak_bytes) for one in moved.stages] == [float(one.peak_bytes) for one in stated.stages]
    assert float(moved.peak_bytes) > float(evaluation.memory.peak_bytes)
