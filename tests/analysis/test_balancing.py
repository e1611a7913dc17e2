"""Layers split over stages by their time and pace."""

import pytest

from simcluster.analysis.balancing import balanced_layers, can_balance, layers_of, with_layers


def planned(run, **parallelism):
    resolved = run({"training": {"parallelism": {"tp": 2, "pp": 4, **parallelism}}}).resolved
    return resolved.plan, resolved.machine


def test_a_split_can_be_put_in_and_read_back(run):
    for more in ({}, {"virtual_stages": 2}, {"schedule": "dualpipe"}):
        plan, machine = planned(run, **more)
        assert can_balance(plan)
        sizes = balanced_layers(plan, machine, [1.0, 1.0, 1.5, 1.0])
        assert sum(sizes) == 16
        assert layers_of(with_layers(plan, sizes)) == sizes
        assert len(sizes) == (8 if "virtual_stages" in more else 4)


def test_a_slow_stage_gets_fewer_layers(run):
    plan, machine = planned(run)
    alike = balanced_layers(plan, machine)
    slow = balanced_layers(plan, machine, [1.0, 1.5, 1.0, 1.0])
    assert alike == balanced_layers(plan, machine, [1.0] * 4) == balanced_layers(plan, machine, [1.2] * 4)
    assert slow[1] < alike[1]
    chunks = balanced_layers(*planned(run, virtual_stages=2), [1.0, 2.0, 1.0, 1.0])
    assert chunks[1] + chunks[5] < chunks[2] + chunks[6]


def test_slow_devices_of_a_two_way_pipeline_hold_two_stages(run):
    plan, machine = planned(run, schedule="dualpipe")
    assert balanced_layers(plan, machine, [1.5, 1, 1, 1]) == balanced_layers(plan, machine, [1, 1, 1, 1.5])


@pytest.mark.parametrize(
    "stages",
    [
        [{"layers": 0, "embedding": True}, 6, 5, 5],
        [{"layers": 5}, {"layers": 5}, {"layers": 6, "head": True}, {"layers": 0}],
    ],
)
def test_a_head_that_is_not_last_stays(run, stages):
    written = [one if isinstance(one, dict) else {"layers": one} for one in stages]
    plan, _ = planned(run, stages=written)
    assert can_balance(plan) == (not any("head" in one for one in written))


def test_one_stage_has_nothing_to_balance(run):
    assert not can_balance(planned(run, pp=1)[0])
