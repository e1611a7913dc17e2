from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.timing.profile import load_profile
from simcluster.timing.streaming import streaming_time


def test_worked_number_of_a_large_and_a_small_stream():
    """Rate 0.9 * 3.35 TB/s, gap 4 us, half size 4 MB: 1409.286 MB take 472.752 us, 1 MB takes 5.658 us."""
    profile = load_profile("h100-80gb-sxm")
    rates = profile.streaming
    rates = replace(rates, bytes_per_s=replace(rates.bytes_per_s, value=0.9 * 3.35e12))
    profile = replace(profile, streaming=rates, launch=replace(profile.launch, device_gap_s=4e-6))
    time = streaming_time(profile, [1409.286e6, 1e6])
    np.testing.assert_allclose(np.asarray(time.seconds) * 1e6, [472.752, 5.658], rtol=1e-3)
    assert list(time.bound) == ["memory", "launch"]


def test_measured_rates_and_grades():
    for gpu, rate, grade in (
        ("a100-80gb-sxm", 1.70e12, 1),
        ("h100-80gb-sxm", 2.97e12, 1),
        ("h200-141gb-sxm", 4.15e12, 1),
    ):
        time = streaming_time(load_profile(gpu), 100e9)
        assert 100e9 / time.seconds == pytest.approx(rate, rel=1e-3)
        assert time.grade == grade
    for gpu in ("a100-40gb-sxm", "b200-sxm"):
        assert streaming_time(load_profile(gpu), 100e9).grade == 2
    assert (
        streaming_time(load_profile("a100-40gb-sxm"), 100e9).seconds
        > streaming_time(load_profile("a100-80gb-sxm"), 100e9).seconds
    )


@given(size=st.floats(0, 1e12), kernels=st.integers(1, 100))
def test_splitting_a_stream_costs_and_merging_gains(size, kernels):
    profile = load_profile("h200-141gb-sxm")
    one, many = streaming_time(profile, size).seconds, streaming_time(profile, size, kernels).seconds
    assert many >= one
    separate = kernels * streaming_time(profile, size / kernels).seconds
    assert many == pytest.approx(separate, rel=1e-9)


def test_small_streams_rest_on_the_prior():
    assert streaming_time(load_profile("h100-80gb-sxm"), 1e5).grade == 3
