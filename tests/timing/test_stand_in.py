"""Profiles for accelerators that nobody measured."""

import numpy as np
import pytest

from simcluster.shapes import GpuRates
from simcluster.timing.attention import attention_time
from simcluster.timing.gemm import gemm_time
from simcluster.timing.profile import load_profile
from simcluster.timing.stand_in import SAME_PEAK, stand_in_profile
from simcluster.timing.streaming import streaming_time

H800 = GpuRates("h800-80gb-sxm", "hopper", {"bf16": 989.4e12, "fp8": 1978.9e12}, 3.35e12, 80e9, 132)


def rates(**more):
    base = {"generation": "hopper", "peak_flops": dict(H800.peak_flops), "hbm_bytes_per_s": 3.35e12}
    return GpuRates("new", hbm_bytes=80e9, sms=132, **(base | more))


def test_the_same_chip_multiplies_as_fast():
    h100 = load_profile("h100-80gb-sxm")
    for shape in ((4096, 4096, 4096), (8192, 1000, 512)):
        lent, own = gemm_time(stand_in_profile(H800), *shape), gemm_time(h100, *shape)
        assert lent.seconds == pytest.approx(own.seconds, rel=1e-9)
        assert lent.grade == max(own.grade, 2)
    shape = (2, 16, 16, 4096, 4096, 128)
    lent, own = (attention_time(one, *shape, kernel="flash-2") for one in (stand_in_profile(H800), h100))
    assert lent.seconds == pytest.approx(own.seconds, rel=1e-9)
    assert lent.grade >= 2


@pytest.mark.parametrize("share", [0.5, 1.0, 1.4])
def test_memory_bound_rates_follow_the_memory(share):
    lent = stand_in_profile(rates(hbm_bytes_per_s=share * 3.35e12))
    own = load_profile("h100-80gb-sxm")
    times = [streaming_time(one, 1e12).seconds for one in (lent, own)]
    assert times[0] * share == pytest.approx(times[1], rel=1e-4)
    assert streaming_time(lent, 1e12).grade == 2


@pytest.mark.parametrize(
    "more",
    [
        {"peak_flops": {"bf16": 989.4e12 * (1 + 2 * SAME_PEAK)}},
        {"peak_flops": {"bf16": 989.4e12 * (1 - 2 * SAME_PEAK)}},
        {"generation": "unheard-of"},
        {"peak_flops": {"fp16": 989.4e12}},
    ],
)
def test_another_chip_rests_on_priors(more):
    profile = stand_in_profile(rates(**more))
    assert not profile.gemm.tables
    assert profile.gpu == "new"
    if "bf16" in profile.device.peak_flops:
        assert gemm_time(profile, 4096, 4096, 4096).grade == 3


def test_nothing_runs_above_its_peak():
    for generation in ("ampere", "hopper", "blackwell", "unheard-of"):
        profile = stand_in_profile(rates(generation=generation, peak_flops={"bf16": 500e12}))
        sizes = np.array([64, 1000, 4096, 16384])
        seconds = gemm_time(profile, sizes, sizes, sizes).seconds
        assert (2.0 * sizes.astype(float) ** 3 / seconds <= 500e12).all()


def test_a_lent_profile_names_its_borrower():
    profile = stand_in_profile(H800)
    assert profile.id == profile.gpu == "h800-80gb-sxm"
    assert {table.best for table in profile.gemm.tables.values()} == {"C"}
    assert {table.best for table in profile.attention.values()} == {"C"}
