"""Exchanges of experts behind another micro-batch's computing: what it hides, and what it costs in memory."""

import pytest

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
    degrees = {"tp": 1, "pp": 2, "ep": 8, **plan}
    software = {"overrides": {"ep_overlap": overlap}}
    return {"model": MODEL, "training": {"parallelism": degrees, "global_batch": 128, "software": software}}


@pytest.mark.parametrize("plan", [{}, {"virtual_stages": 2}, {"pp": 1}])
def test_overlap_hides_exchanges_and_holds_one_set_more(run, plan):
    plain, beside = (run(job(overlap, **plan)) for overlap in (False, True))
    assert beside.resolved.layout.schedule == "1f1b-overlapped"
    exposed = [dict(one.waterfall.items())["expert_context_parallel"] for one in (plain, beside)]
    assert exposed[1] < 0.7 * exposed[0]
    saved = plain.step.time_s - beside.step.time_s
    assert 0 < saved <= exposed[0] * (1 + 1e-9)
    assert sum(beside.waterfall.seconds) == pytest.approx(beside.step.time_s, rel=1e-9)
    assert float(beside.memory.peak_bytes) > float(plain.memory.peak_bytes)


def test_a_pair_takes_the_longer_of_computing_and_exchanging(run):
    """One stage: forward, m - 1 pairs, backward; a pair hides the shorter of its exchanges and its computing."""
    evaluation = run(job(True, pp=1))
    times = evaluation.times
    program = times.program
    pairs = program.pair == 1
    chunks = {key[0]: one.duration for key, one in times.chunks.items()}
    computing = chunks[0][2] + chunks[1][2]
    moving = sum(max(one[0] - one[2], 0.0) for one in chunks.values())
    ends = times.ends[: program.chunk_tasks, 0]
    length = (ends[pairs][-1] - ends[pairs][0]) / (pairs.sum() - 1)
    assert length == pytest.approx(max(computing, moving, chunks[0][0], chunks[1][0]), rel=0.05)
