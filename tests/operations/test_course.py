"""The numbers of a run against the renewal equation and a count of its parts."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.operations.course import Course

DAY = 86400.0
BASE = Course(
    work_s=20 * DAY,
    interval_s=1800.0,
    checkpoint_s=30.0,
    flush_s=120.0,
    failures_per_s=3 / DAY,
    incidents_per_s=0.5 / DAY,
    restart_s=400.0,
    down_s=600.0,
    diagnosis_s=4 * 3600.0,
    diagnosis_cv=2.0,
    startup_s=500.0,
)
RATES = st.just(0.0) | st.floats(1e-9, 1e-3)
COURSES = st.builds(
    replace,
    st.just(BASE),
    interval_s=st.floats(600, 7200),
    checkpoint_s=st.floats(0, 120),
    flush_s=st.floats(0, 600),
    failures_per_s=RATES,
    incidents_per_s=RATES,
    restart_s=st.floats(0, 1800),
    down_s=st.floats(0, DAY),
    diagnosis_s=st.floats(0, 7 * DAY),
)


def renewal_s(course, rate, down_s):
    """e^(lambda (R + F)) (1/lambda + D) (e^(lambda (tau + C)) - 1), as published for F = 0 (Bougeret et al. 2011)."""
    span = course.interval_s + course.checkpoint_s
    growth = math.exp(rate * (course.restart_s + course.flush_s))
    return growth * (1 / rate + down_s) * math.expm1(rate * span)


@given(COURSES)
def test_a_segment_is_the_renewal_equation_at_the_mean_downtime(course):
    failures, incidents = course.failures_per_s, course.incidents_per_s
    rate = failures + incidents
    if rate == 0:
        return
    down_s = (failures * course.down_s + incidents * course.diagnosis_s) / rate
    parts = course.expected_segment()
    assert parts.total_s == pytest.approx(renewal_s(course, rate, down_s), rel=1e-9)
    assert parts.down_s == pytest.approx(parts.interruptions * down_s, rel=1e-9, abs=1e-9 * (1 + parts.interruptions))
    assert (parts.useful_s, parts.checkpoint_s) == (course.interval_s, course.checkpoint_s)


@given(COURSES)
def test_either_sort_of_interruption_counts_as_often_as_it_occurs(course):
    failures, incidents = course.failures_per_s, course.incidents_per_s
    assert course.interruptions_per_s == failures + incidents
    assert course.incident_share * course.interruptions_per_s == pytest.approx(incidents, rel=1e-12)
    least, most = sorted((course.down_s, course.diagnosis_s))
    assert least - 1e-9 <= course.mean_down_s <= most + 1e-9
    if incidents == 0:
        assert course.mean_down_s == course.down_s
    elif failures == 0:
        assert course.mean_down_s == pytest.approx(course.diagnosis_s, rel=1e-12, abs=1e-9)


def test_the_mean_downtime_is_that_of_drawn_interruptions():
    """Of 3.5 interruptions a day one in seven waits four hours for a person, the others ten minutes."""
    draws = np.random.default_rng(1)
    found_by_a_person = draws.random(400_000) < 0.5 / 3.5
    assert BASE.mean_down_s == pytest.approx(np.where(found_by_a_person, 4 * 3600.0, 600.0).mean(), rel=5e-3)


def test_without_interruptions_a_segment_is_its_steps_and_a_checkpoint():
    quiet = replace(BASE, failures_per_s=0.0, incidents_per_s=0.0)
    assert (quiet.incident_share, quiet.mean_down_s) == (0.0, 600.0)
    parts = quiet.expected_segment()
    assert parts.total_s == 1830.0
    assert (parts.lost_s, parts.restart_s, parts.down_s, parts.interruptions) == (0, 0, 0, 0)


def test_the_last_segment_may_be_short():
    assert BASE.segments == 20 * 48
    assert replace(BASE, work_s=2.5 * 1800.0).segments == 2.5


@pytest.mark.parametrize(
    "longer",
    ["checkpoint_s", "flush_s", "failures_per_s", "incidents_per_s", "restart_s", "down_s", "diagnosis_s"],
)
def test_every_trouble_lengthens_a_segment(longer):
    worse = replace(BASE, **{longer: 1.1 * getattr(BASE, longer)})
    assert worse.expected_segment().total_s > BASE.expected_segment().total_s * (1 + 1e-6)


@pytest.mark.parametrize("other", ["work_s", "diagnosis_cv", "startup_s"])
def test_a_segment_knows_neither_the_spread_of_a_diagnosis_nor_the_length_of_the_run(other):
    changed = replace(BASE, **{other: 3.0 * getattr(BASE, other)})
    assert changed.expected_segment() == BASE.expected_segment()
