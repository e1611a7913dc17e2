"""Prices of a block's operations."""

import numpy as np
import pytest

from simcluster.program.block import BlockOp
from simcluster.program.pricing import CLASSES, Machine, price
from simcluster.shapes import FlashAttention, Gemm, GroupShape, NetworkRates, Streaming, Transfer
from simcluster.timing.collective_profile import load_collective_profile
from simcluster.timing.gemm import gemm_time
from simcluster.timing.profile import load_profile

DGX = NetworkRates("a100-80gb-sxm", "nvlink3", 300e9, 8, 8, "ib-hdr-200", "ib", 25e9, 8)
OPS = (
    Gemm("a", 4096, 1024, 1024),
    Streaming("s", 1e8),
    Transfer("t", "all_reduce", 5e7, "tp"),
    Gemm("b", 2048, 4096, 1024),
    FlashAttention("f", 1, 8, 8, 2048, 2048, 128),
    Gemm("w", 1024, 1024, 4096, accumulate=True, layout="NT"),
    Streaming("k", 1e6, kernels=4),
    Transfer("u", "all_gather", 1e6, "tp"),
)


def machine(rate=1.0, sigma=0.0, host=5e-6):
    groups = {"tp": GroupShape(8)}
    kernels = load_profile("a100-80gb-sxm")
    return Machine(kernels, load_collective_profile(), DGX, groups, rate, sigma, host)


def priced(ops, **how):
    return price([BlockOp(op, 0, ()) for op in ops], machine(**how))


def test_a_price_does_not_depend_on_the_company():
    """Similar operators are priced in one call; the result is that of each alone, in the given order."""
    together = priced(OPS)
    for index, op in enumerate(OPS):
        alone = priced([op])
        for field in ("seconds", "host_s", "grade", "sigma", "kind"):
            assert getattr(together, field)[index] == pytest.approx(getattr(alone, field)[0]), (op.name, field)


def test_kinds():
    expected = ["gemm", "memory", "tensor", "gemm", "attention", "gemm", "memory", "tensor"]
    assert [CLASSES[kind] for kind in priced(OPS).kind] == expected


def test_a_share_takes_its_part():
    half = price([BlockOp(OPS[2], 1, (), share=0.5)], machine())
    assert half.seconds[0] == pytest.approx(priced([OPS[2]]).seconds[0] / 2)


def test_the_sustained_rate_slows_gemms_only():
    fast, slow = priced(OPS), priced(OPS, rate=0.8, sigma=0.05)
    gemm = fast.kind == CLASSES.index("gemm")
    assert slow.seconds[gemm] == pytest.approx(fast.seconds[gemm] / 0.8)
    assert slow.sigma[gemm] == pytest.approx(np.hypot(fast.sigma[gemm], 0.05))
    assert slow.seconds[~gemm].tolist() == fast.seconds[~gemm].tolist()


def test_a_gemm_is_the_profiles():
    kernels = load_profile("a100-80gb-sxm")
    assert priced([OPS[0]]).seconds[0] == pytest.approx(float(gemm_time(kernels, 4096, 1024, 1024).seconds))
    assert priced([OPS[0]]).seconds[0] > 2 * 4096 * 1024 * 1024 / 312e12


def test_the_host_issues_each_kernel():
    host = priced(OPS, host=5e-6).host_s
    assert host.tolist() == pytest.approx([5e-6 * (4 if op.name == "k" else 1) for op in OPS])
    assert priced(OPS, host=0.0).host_s.tolist() == [0.0] * len(OPS)


def test_an_exchange_is_no_faster_than_its_wire():
    """Ring lower bound on the scale-up link: (n-1)/n of the gathered bytes, twice for an all-reduce."""
    seconds = priced(OPS).seconds
    assert seconds[2] > 2 * 7 / 8 * 5e7 / 300e9
    assert seconds[7] > 7 / 8 * 1e6 / 300e9


def test_one_rank_pays_nothing():
    alone = machine()
    alone = Machine(alone.kernels, alone.collectives, DGX, {"tp": GroupShape(1)}, 1.0, 0.0, 0.0)
    assert price([BlockOp(OPS[2], 1, ())], alone).seconds.tolist() == [0.0]
