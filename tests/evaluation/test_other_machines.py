"""The same layout on machines with faster links or kernels, and where exchanges are free or all that counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine.step import solve_step
from simcluster.program.plan import block_names, block_ops
from simcluster.shapes import Transfer

SAME = settings.get_profile("reproducible")
FASTER_NETWORK = st.sampled_from(["nic_bytes_per_s", "scale_up_bytes_per_s", "both"])


@settings(SAME, max_examples=40)
@given(st.data(), FASTER_NETWORK, st.floats(1.0, 10.0))
def test_faster_links_never_slow_a_step(assess, scenarios, data, which, factor):
    evaluation = assess(data.draw(scenarios))
    machine = evaluation.resolved.machine
    names = ("nic_bytes_per_s", "scale_up_bytes_per_s") if which == "both" else (which,)
    rates = {name: getattr(machine.network, name) * factor for name in names}
    faster = dataclasses.replace(machine, network=dataclasses.replace(machine.network, **rates))
    times = solve_step(evaluation.resolved.plan, faster)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)


@settings(SAME, max_examples=40)
@given(st.data(), st.floats(0.8, 1.0), st.floats(0.1, 1.0))
def test_faster_kernels_and_hosts_never_slow_a_step(assess, scenarios, data, rate, host):
    evaluation = assess(data.draw(scenarios))
    machine = evaluation.resolved.machine
    faster = dataclasses.replace(machine, gemm_rate=machine.gemm_rate / rate, host_issue_s=machine.host_issue_s * host)
    times = solve_step(evaluation.resolved.plan, faster)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)


@settings(SAME, max_examples=40)
@given(st.data())
def test_on_a_free_network_only_computing_is_left(assess, scenarios, on_free, data):
    """Exposed exchanges vanish (with no launches to pay), and one stage takes its chunks and its optimizer."""
    scenario = data.draw(scenarios)
    scenario["training"]["software"]["overrides"]["host_issue_s"] = 0.0
    evaluation = assess(scenario)
    times = on_free(evaluation)
    assert times.total[0] <= evaluation.times.total[0] * (1 + 1e-12)
    assert np.ptp(times.total[:4]) <= 1e-9 * times.total[0]
    assert times.compute[:, 0] == pytest.approx(evaluation.times.compute[:, 1], rel=1e-9)
    if evaluation.resolved.layout.pp == 1:
        assert times.total[0] == pytest.approx(times.compute[0, 0] + times.optimizer[0], rel=1e-9)


@settings(SAME, max_examples=40)
@given(st.data())
def test_exposed_exchanges_are_no_more_than_all_there_are(assess, scenarios, on_free, on_toll, sent, data):
    """On a wire that takes a second a byte a stage waits for no more than all bytes of the job."""
    evaluation = assess(data.draw(scenarios))
    times, free = on_toll(evaluation), on_free(evaluation)
    plan = evaluation.resolved.plan
    if plan.mesh.pp > 1:
        return
    moved = [
        (op.operator, op.share)
        for name in block_names(plan, plan.contents[0][0])
        for backward in (False, True)
        for op in block_ops(plan, name, backward)
        if isinstance(op.operator, Transfer)
    ]
    groups = evaluation.resolved.machine.groups
    inside = sum(float(sent(one.kind, one.bytes, groups[one.group].ranks)) * share for one, share in moved)
    exposed = times.total[1] - free.total[1]
    assert -1e-9 <= exposed <= plan.micro_batches * inside * (1 + 1e-9) + 1e-6
