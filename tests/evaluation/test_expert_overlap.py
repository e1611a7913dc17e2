"""Exchanges of experts behind another micro-batch's computing: what it hides, and what it costs in memory."""

import pytest

from simcluster.parallel.schedules.order import PAIR

MODEL = {
    "name": "moe",
    "layers": 16,
    "hidden": 2048,
    "heads": 16,
    "ffn": 8192,
    "vocab": 32000,
    "experts": 16,
    "top_k": 2,
    "expert_ffn": 2048,
}


def job(overlap, **plan):
    degrees = {"tp": 1, "pp": 2, "virtual_stages": 2, "ep": 8, **plan}
    software = {"overrides": {"ep_overlap": overlap}}
    return {"model": MODEL, "training": {"parallelism": degrees, "global_batch": 128, "software": software}}


@pytest.mark.parametrize("plan", [{}, {"virtual_stages": 4}, {"pp": 1, "virtual_stages": 1}])
def test_overlap_hides_exchanges_and_holds_one_set_more(run, plan):
    plain, beside = (run(job(overlap, **plan)) for overlap in (False, True))
    assert beside.resolved.layout.schedule == "1f1b-overlapped"
    exposed = [dict(one.waterfall.items())["expert_context_parallel"] for one in (plain, beside)]
    assert exposed[1] < 0.7 * exposed[0]
    saved = plain.step.time_s - beside.step.time_s
    assert 0 < saved <= exposed[0] * (1 + 1e-9)
    assert sum(beside.waterfall.seconds) == pytest.approx(beside.step.time_s, rel=1e-9)
    assert float(beside.memory.peak_bytes) > float(plain.memory.peak_bytes)


def test_steps_of_pairs_alone(run):
    """One stage: forward, m - 1 pairs, backward; a pair takes what its block and its layers without experts take."""
    evaluation = run(job(True, pp=1, virtual_stages=1))
    program = evaluation.times.program
    pairs = program.pair == 1
    ends = evaluation.times.ends[: program.chunk_tasks, 0]
    length = (ends[pairs][-1] - ends[pairs][0]) / (pairs.sum() - 1)
    blocks = evaluation.times.blocks
    layers = blocks[PAIR, "experts|experts"].device[0] * MODEL["layers"]
    ends_of_model = sum(blocks[kind, name].device[0] for kind in (0, 1) for name in ("embedding", "head"))
    assert length == pytest.approx(layers + ends_of_model, rel=0.02)
    alone = sum(blocks[kind, "experts"].device[0] for kind in (0, 1))
    computing = sum(blocks[kind, "experts"].device[1] for kind in (0, 1))
    assert computing < blocks[PAIR, "experts|experts"].device[0] < alone
