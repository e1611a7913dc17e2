from __future__ import annotations

import time

import numpy as np
import pytest

from simcluster.calibrate.profile_writer import profile_text
from simcluster.errors import InputError
from simcluster.shapes import GpuRates
from simcluster.timing.profile import has_profile, load_profile, peak_flops, prior_profile, profile_path
from simcluster.timing.profile_reader import read_profile
from simcluster.timing.records import peak_name

A100 = ["a100-40gb-sxm", "a100-80gb-pcie", "a100-80gb-sxm"]
SHIPPED = [*A100, "h100-80gb-sxm", "h200-141gb-sxm", "b200-sxm", "b300-sxm", "gb200", "gb300"]


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_profile_survives_a_round_trip(name, tmp_path):
    profile = load_profile(name)
    text = profile_text(profile)
    path = tmp_path / "copy.yaml"
    path.write_text(text)
    assert profile_text(read_profile(path)) == text


@pytest.mark.parametrize("name", SHIPPED)
def test_every_figure_says_where_it_comes_from(name):
    profile = load_profile(name)
    assert profile.id == profile.gpu == name
    tables = [*profile.gemm.tables.values(), *profile.attention.values()]
    origins = [profile.device.origin, profile.launch.origin, *(table.origin for table in tables)]
    figures = [profile.streaming.bytes_per_s, profile.streaming.half_bytes, profile.gemm.efficiency_prior]
    figures += [*profile.gemm.layouts.values(), *profile.gemm.alignment.values()]
    for item in [*origins, *figures]:
        assert item.source
        assert item.date
    for table in tables:
        assert (table.origin.kind == "estimate") == (len(table.points) == 0)
        if table.origin.kind == "estimate":
            assert table.best == "D"


@pytest.mark.parametrize("name", SHIPPED)
def test_tables_measured_elsewhere_earn_no_better_than_c(name):
    own = {
        "a100-80gb-sxm": {"A100-SXM4-80GB"},
        "a100-80gb-pcie": {"A100-PCIe (SimuMax host)", "NVIDIA A100 80GB PCIe"},
        "h100-80gb-sxm": {"H100-SXM5"},
        "h200-141gb-sxm": {"H200-SXM5", "NVIDIA H200"},
        "b200-sxm": {"B200-SXM", "NVIDIA B200"},
        "b300-sxm": {"B300-SXM"},
        "gb200": {"GB200", "NVIDIA GB200"},
        "gb300": {"NVIDIA GB300"},
    }.get(name, set())
    profile = load_profile(name)
    for table in [*profile.gemm.tables.values(), *profile.attention.values()]:
        if len(table.points):
            assert (table.best == "A") == (table.origin.device in own), table.origin


def test_loading_takes_milliseconds():
    path = profile_path("h200-141gb-sxm")
    read_profile(path)
    start = time.perf_counter()
    for _ in range(5):
        read_profile(path)
    assert (time.perf_counter() - start) / 5 < 0.05  # 5 ms on an idle machine
    assert load_profile("h200-141gb-sxm") is load_profile("h200-141gb-sxm")


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(InputError, match="a100-80gb-sxm"):
        load_profile("h100")
    assert not has_profile("h100")


def broken(tmp_path, *changes):
    text = profile_text(load_profile("h100-80gb-sxm"))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_every_problem_is_told_with_its_place(tmp_path):
    path = broken(
        tmp_path,
        ("sms: 132", "smms: 132"),
        ("latency_s: 4e-06", "latency_s: -1"),
        ('kind: "datasheet"', 'kind: "hearsay"'),
        ("m n k time_us\n", "m n k time_ms\n"),
    )
    with pytest.raises(InputError) as caught:
        load_profile(path)
    said = [str(problem) for problem in caught.value.problems]
    assert all(str(path) + ":" in line for line in said)
    text = "\n".join(said)
    for part in ("device.smms", "did you mean sms", "device.sms is missing", "latency_s is -1", "hearsay", "time_ms"):
        assert part in text


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("16 1024 1024 4.07", "16 1024 1024", "without 4 numbers"),
        ("16 1024 1024 4.07", "16 1024 1024 fast", "could not convert"),
        ("16 1024 1024 4.07", "16 1024 1024 0", "zero value"),
        ("16 1024 1024 4.07", "16 1024 1024 nan", "negative, infinite"),
        ("schema: 1", "schema: 7", "schema is 7"),
        ('base: "flash-3-paged/forward"', 'base: "flash-9/forward"', "flash-9"),
        ('base: "flash-3-paged/forward"', 'base: "cudnn/backward"', "refers back to itself"),
    ],
)
def test_bad_files_are_refused(tmp_path, old, new, said):
    with pytest.raises(InputError, match=said):
        load_profile(broken(tmp_path, (old, new)))


def test_missing_file_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        load_profile(tmp_path / "none.yaml")


def test_prior_profile_needs_no_file(tmp_path):
    profile = prior_profile(GpuRates("x1", "hopper", {"bf16": 5e14}, 2e12, 64e9, 100))
    path = tmp_path / "x1.yaml"
    path.write_text(profile_text(profile))
    assert profile_text(read_profile(path)) == path.read_text()
    assert all(table.best == "D" for table in profile.attention.values())
    with pytest.raises(InputError, match="no fp8 rate"):
        peak_flops(profile, "fp8")


def test_points_are_in_seconds():
    points = load_profile("a100-80gb-sxm").gemm.tables["bf16"].points
    row = points[(points[:, :3] == (8192, 4096, 4096)).all(axis=1)][0]
    np.testing.assert_allclose(row[3], 1035.5e-6, rtol=1e-3)


@pytest.mark.parametrize(
    ("peaks", "precision", "name"),
    [
        ({"bf16": 1.0}, "bf16", "bf16"),
        ({"bf16": 1.0}, "fp16", "bf16"),
        ({"bf16": 71.0, "fp16": 142.0}, "fp16", "fp16"),  # a part whose two 16-bit rates differ
        ({"fp16": 125.0}, "fp16", "fp16"),
        ({"fp8": 1.0}, "fp8-block", "fp8"),
        ({"fp8": 1.0}, "mxfp8", "fp8"),
        ({"fp4": 1.0}, "nvfp4", "fp4"),
        ({"bf16": 1.0}, "fp8", "fp8"),  # absent: the caller says so
    ],
)
def test_a_precision_runs_at_its_own_peak_or_that_of_its_format(peaks, precision, name):
    assert peak_name(peaks, precision) == name
