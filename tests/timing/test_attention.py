from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.timing.attention import attention_time, attention_work
from simcluster.timing.profile import load_profile

GPUS = ["a100-80gb-sxm", "h100-80gb-sxm", "h200-141gb-sxm", "b200-sxm", "gb200"]


def tflops(time, batch, heads, seq, dim, *, causal=True, direction="forward"):
    work = 4.0 * batch * heads * seq * seq * dim * (0.5 if causal else 1) * (2.5 if direction == "backward" else 1)
    return work / time.seconds / 1e12


def test_executed_work_by_hand():
    full = attention_work(1, 32, 32, 8192, 8192, 128, 0, "flash-2", "forward")
    causal = attention_work(1, 32, 32, 8192, 8192, 128, 1, "flash-2", "forward")
    backward = attention_work(1, 32, 32, 8192, 8192, 128, 1, "flash-2", "backward")
    assert full.flops[0] == pytest.approx(1.0995e12, rel=1e-4)
    assert causal.flops[0] == pytest.approx(5.4976e11 * (1 + 128 / 8192), rel=1e-4)
    assert backward.flops[0] == pytest.approx(2.5 * causal.flops[0])
    assert full.elements[0] == 4 * 8192 * 32 * 128


@pytest.mark.parametrize("gpu", GPUS)
def test_measured_shapes_keep_their_time(gpu):
    profile = load_profile(gpu)
    own = {key: table for key, table in profile.attention.items() if table.best == "A"}
    assert own
    for key, table in own.items():
        kernel, direction = key.split("/")
        for dim, causal, seq, batch, heads, kv_heads, seconds in table.points[::17]:
            time = attention_time(
                profile, batch, heads, kv_heads, seq, seq, dim, bool(causal), direction, kernel=kernel
            )
            assert time.seconds == pytest.approx(seconds, rel=1e-9)
            assert time.grade == 0


@pytest.mark.parametrize("gpu", GPUS)
@given(
    batch=st.integers(1, 16),
    heads=st.integers(1, 64),
    seq=st.integers(7, 17).map(lambda e: 2**e),
    dim=st.sampled_from([64, 80, 128, 192, 256]),
    causal=st.booleans(),
)
@settings(max_examples=25, deadline=None)
def test_bounds_and_order_hold_everywhere(gpu, batch, heads, seq, dim, causal):
    profile = load_profile(gpu)
    for key in profile.attention:
        kernel, direction = key.split("/")
        time, longer = (
            attention_time(profile, batch, heads, heads, s, s, dim, causal, direction, kernel) for s in (seq, 2 * seq)
        )
        assert (
            tflops(time, batch, heads, seq, dim, causal=causal, direction=direction) * 1e12
            <= (profile.device.peak_flops["bf16"])
        )
        assert longer.seconds > time.seconds
        if direction == "backward":
            forward = attention_time(profile, batch, heads, heads, seq, seq, dim, causal, "forward", kernel)
            assert forward.seconds < time.seconds < 8 * forward.seconds


def test_kernel_generations_are_ordered_on_hopper():
    profile = load_profile("h100-80gb-sxm")
    speed = {}
    for kernel in ("flash-1", "flash-2", "cudnn", "flash-3"):
        for direction in ("forward", "backward"):
            time = attention_time(profile, 2, 16, 16, 8192, 8192, 128, True, direction, kernel)
            speed[kernel, direction] = tflops(time, 2, 16, 8192, 128, direction=direction)
    for direction in ("forward", "backward"):
        order = [speed[kernel, direction] for kernel in ("flash-1", "flash-2", "cudnn", "flash-3")]
        assert order == sorted(order)
    assert speed["flash-3", "backward"] < speed["flash-3", "forward"]


def test_forward_and_backward_add_up_to_what_was_published():
    """FlashAttention-2's authors give both passes together: A100, causal, d = 128, 16k tokens of width 2048."""
    profile = load_profile("a100-80gb-sxm")
    for seq, published in ((1024, 133), (2048, 155), (4096, 173), (8192, 182), (16384, 189)):
        batch = 16384 // seq
        both = sum(
            attention_time(profile, batch, 16, 16, seq, seq, 128, True, direction, "flash-2").seconds
            for direction in ("forward", "backward")
        )
        assert 3.5 * 2 * batch * 16 * seq**2 * 128 / both / 1e12 == pytest.approx(published, rel=0.04)


def test_solved_backward_agrees_with_a_direct_measurement():
    """NVIDIA's attention benchmark times FlashAttention-2 backward on an A100 (PCIe) by itself; not in this table."""
    profile = load_profile("a100-80gb-sxm")
    for seq, published in ((2048, 141), (4096, 168), (8192, 173), (16384, 175)):
        time = attention_time(profile, 2, 64, 8, seq, seq, 128, True, "backward", "flash-2")
        assert tflops(time, 2, 64, seq, 128, direction="backward") == pytest.approx(published, rel=0.12)


@pytest.mark.parametrize("gpu", GPUS)
def test_few_heads_leave_the_device_idle(gpu):
    """On one head of 2k tokens 16 blocks run: the rate must fall, and the time must not fall below that of its SMs."""
    profile = load_profile(gpu)
    few = attention_time(profile, 1, 1, 1, 2048, 2048, 128, kernel="flash-2")
    many = attention_time(profile, 1, 64, 64, 2048, 2048, 128, kernel="flash-2")
    assert tflops(few, 1, 1, 2048, 128) < 0.35 * tflops(many, 1, 64, 2048, 128)


def test_head_sizes_are_padded_to_what_kernels_are_compiled_for():
    profile = load_profile("h100-80gb-sxm")
    times = [attention_time(profile, 4, 16, 16, 4096, 4096, dim, kernel="flash-2").seconds for dim in (64, 80, 96, 128)]
    assert times[0] < times[1] == times[2] < times[3]


def test_context_parallel_chunk_costs_its_share():
    profile = load_profile("h100-80gb-sxm")
    whole = attention_time(profile, 1, 32, 32, 32768, 32768, 128, False, kernel="flash-3").seconds
    chunk = attention_time(profile, 1, 32, 32, 8192, 32768, 128, False, kernel="flash-3").seconds
    assert chunk == pytest.approx(whole / 4, rel=0.1)


def test_arrays_broadcast_and_match_single_calls():
    profile = load_profile("b200-sxm")
    batch, seq = np.array([[1], [4]]), np.array([2048, 4096, 8192])
    grid = attention_time(profile, batch, 32, 8, seq, seq, 128, kernel="cudnn")
    assert grid.seconds.shape == grid.grade.shape == grid.bound.shape == (2, 3)
    single = attention_time(profile, 4, 32, 8, 8192, 8192, 128, kernel="cudnn")
    assert grid.seconds[1, 2] == pytest.approx(single.seconds, rel=1e-12)
    assert isinstance(single.seconds, float)


def test_unknown_kernels_are_refused_with_advice():
    with pytest.raises(InputError, match="flash-3"):
        attention_time(load_profile("h100-80gb-sxm"), 1, 8, 8, 1024, 1024, 128, kernel="flash3")
    with pytest.raises(InputError, match="known: cudnn, flash-1, flash-2"):
        attention_time(load_profile("a100-80gb-sxm"), 1, 8, 8, 1024, 1024, 128, kernel="triton")


def test_estimates_without_measurement_are_graded_d():
    assert attention_time(load_profile("a100-80gb-sxm"), 1, 8, 8, 4096, 4096, 128, kernel="flash-1").grade == 3
    fp8 = attention_time(load_profile("h100-80gb-sxm"), 1, 8, 8, 4096, 4096, 128, kernel="flash-3", dtype="fp8")
    assert fp8.grade == 3
