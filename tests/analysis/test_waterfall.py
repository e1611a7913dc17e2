"""Attribution of a step: entries are never negative and sum to the step, whatever the idealisations give."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.analysis.waterfall import CAUSES, MEANING, waterfall

LEVELS = len(CAUSES)
OF_STEP = CAUSES.index("pipeline_bubble") + 1  # levels that whole steps give; those of the chunks and ideal time follow
SECONDS = st.lists(st.floats(0, 1e6), min_size=LEVELS, max_size=LEVELS)


def split(levels, stages=1, optimizer=0.0):
    """Losses by cause; `levels` as simulated, then without each cause in the order of CAUSES, last the ideal time."""
    levels = np.asarray(levels, dtype=float)
    compute = np.tile(levels[OF_STEP:-1], (stages, 1))
    found = waterfall(levels[:OF_STEP], compute, np.full(stages, optimizer), float(levels[-1]))
    return dict(zip(CAUSES, found.seconds))


def falling(**lost):
    """Levels from losses by cause."""
    losses = [lost.get(cause, 0.0) for cause in CAUSES]
    return np.cumsum(losses[::-1])[::-1]


@given(SECONDS, st.floats(0, 10), st.integers(1, 5))
def test_it_sums_and_is_never_negative(levels, optimizer, stages):
    lost = split(levels, stages, optimizer)
    assert min(lost.values()) >= 0
    assert sum(lost.values()) == pytest.approx(levels[0], rel=1e-9, abs=1e-9)
    assert lost["ideal"] <= levels[-1]


@given(st.lists(st.floats(0, 10), min_size=LEVELS, max_size=LEVELS), st.integers(1, 4))
def test_each_cause_gets_what_its_idealisation_brings(drops, stages):
    wanted = dict(zip(CAUSES, drops))
    lost = split(falling(**wanted), stages)
    for cause, seconds in wanted.items():
        assert lost[cause] == pytest.approx(seconds, rel=1e-9, abs=1e-9)


@given(SECONDS, st.floats(1e-3, 1e3))
def test_it_scales_with_the_clock(levels, factor):
    one, other = split(levels), split(np.array(levels) * factor)
    for cause, seconds in one.items():
        assert other[cause] == pytest.approx(seconds * factor, rel=1e-6, abs=1e-6)


def test_stages_count_by_their_mean():
    step = np.full(OF_STEP, 10.0)
    compute = np.stack([np.full(LEVELS - OF_STEP - 1, 4.0), np.full(LEVELS - OF_STEP - 1, 8.0)])
    lost = dict(zip(CAUSES, waterfall(step, compute, np.zeros(2), 5.0).seconds))
    assert lost["pipeline_bubble"] == 4
    assert lost["kernel_inefficiency"] == 1


def test_the_worked_pipeline():
    """p = 4, m = 8, tf = 1, tB = 2, the last stage a quarter longer, messages 0.1: 39.6 = 0.6 + 6 + 9 + 24."""
    lost = split(falling(pipeline_messages=0.6, pipeline_imbalance=6.0, pipeline_bubble=9.0, ideal=24.0), stages=4)
    assert sum(lost.values()) == pytest.approx(39.6)
    assert lost["pipeline_bubble"] == pytest.approx(9)


def test_an_idealisation_that_costs_hands_its_share_on():
    """Equal stages can make a step longer: the imbalance is then nothing, not negative."""
    levels = falling(pipeline_bubble=9.0, ideal=24.0)
    levels[CAUSES.index("pipeline_imbalance") + 1] += 1.0
    lost = split(levels)
    assert lost["pipeline_imbalance"] == 0
    assert lost["pipeline_bubble"] == pytest.approx(9)


def test_the_optimizer_is_memory_bound_time():
    levels = falling(memory_bound=3.0, kernel_inefficiency=2.0, ideal=5.0)
    levels[:OF_STEP] += 2.0
    lost = split(levels, optimizer=2.0)
    assert lost["memory_bound"] == pytest.approx(3 + 2)
    assert lost["kernel_inefficiency"] == pytest.approx(2)


def test_items_lead_with_ideal_time_and_all_have_a_meaning():
    levels = falling(ideal=1.0, recompute=2.0)
    found = waterfall(levels[:OF_STEP], levels[None, OF_STEP:-1], np.zeros(1), 1.0)
    assert [cause for cause, _ in found.items()] == list(reversed(CAUSES[1:]))  # nothing is offloaded
    assert found.total_s == 3
    more = waterfall(np.concatenate([[5.0], levels[1:OF_STEP]]), levels[None, OF_STEP:-1], np.zeros(1), 1.0)
    assert more.items() == [*found.items(), ("offload", 2.0)]
    assert set(MEANING) == set(CAUSES)
