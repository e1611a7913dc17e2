"""The fitter: recovers known parameters, is deterministic, and the shipped profile meets its targets on the logs."""

from __future__ import annotations

import csv
import dataclasses

import numpy as np
import pytest

from simcluster.calibrate.collective_logs import Log, read_logs
from simcluster.calibrate.collectives import (
    dump_profile,
    fit_profile,
    fit_record,
    predict,
    scale_up_parameters,
    with_values,
)
from simcluster.data import data_root
from simcluster.errors import InputError
from simcluster.shapes import GroupShape, NetworkRates
from simcluster.timing.collective_profile import CollectiveProfile, load_collective_profile, parse_collective_profile
from simcluster.timing.collectives import collective_time

PROFILE = load_collective_profile()
CSV = data_root("calibration") / "measured" / "collectives.csv"
NODE = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "none", "none", 0.0, 0)

pytestmark = pytest.mark.skipif(not CSV.is_file(), reason="the measured logs are in the source archive only")


@pytest.fixture(scope="module")
def errors():
    """(log, |relative error| of every row) of the shipped profile on healthy logs."""
    pairs = []
    for log in read_logs(CSV):
        if not (log.kind == "sendrecv" and log.group.domains > 2):
            estimate = collective_time(
                PROFILE, log.network, log.kind, log.bytes, log.group, algorithm=log.algorithm or None
            )
            pairs.append((log, np.abs(estimate.seconds / log.seconds - 1)))
    return pairs


def made_logs(up, noise=0.0):
    sizes = np.geomspace(512, 8e9, 25)
    generator = np.random.default_rng(5)
    logs = []
    for kind in ("all_reduce", "all_gather", "alltoall"):
        for ranks in (2, 4, 8):
            blank = Log(f"{kind}{ranks}", NODE, GroupShape(ranks), kind, "", "made", sizes, sizes)
            seconds = predict(blank, up, None) * np.exp(noise * generator.standard_normal(sizes.size))
            logs.append(dataclasses.replace(blank, seconds=seconds))
    return logs


def test_fit_recovers_the_parameters_that_made_the_logs():
    truth = PROFILE.scale_up["nvlink4"]
    parameters = scale_up_parameters(truth)
    start = with_values(
        truth, parameters, [1.2 * p.get(truth) if p.field.endswith("_s") else 0.9 * p.get(truth) for p in parameters]
    )
    fit = fit_record(start, parameters, made_logs(truth, 0.01), lambda trial, _: (trial, None))
    assert fit.record.ring_efficiency[2] == pytest.approx(truth.ring_efficiency[2], rel=0.03)
    assert fit.record.ring_base_s[0] == pytest.approx(truth.ring_base_s[0], rel=0.05)
    assert fit.record.nvls_efficiency == pytest.approx(truth.nvls_efficiency, rel=0.03)
    assert np.median(np.abs(np.concatenate(list(fit.residuals.values())))) < 0.012
    assert fit.record.source.logs == 9
    assert 0 < fit.record.source.sigma["ring_efficiency[2]"] < 0.1


def test_fit_shrugs_off_a_sick_log():
    truth = PROFILE.scale_up["nvlink4"]
    logs = made_logs(truth)
    sick = dataclasses.replace(logs[0], id="sick", seconds=4 * logs[0].seconds)
    parameters = scale_up_parameters(truth)
    fit = fit_record(truth, parameters, [*logs, sick], lambda trial, _: (trial, None))
    assert fit.record.ring_efficiency[2] == pytest.approx(truth.ring_efficiency[2], rel=0.03)


def test_fit_is_deterministic_and_the_text_round_trips():
    logs = made_logs(PROFILE.scale_up["nvlink4"], 0.02)[:4]
    start = CollectiveProfile("", {"nvlink4": PROFILE.scale_up["nvlink4"]}, {}, {}, {})
    texts = [dump_profile(fit_profile(logs, start, {}, "2025-01-01"), "note") for _ in range(2)]
    assert texts[0] == texts[1]
    again = parse_collective_profile(texts[0])
    assert again.scale_up["nvlink4"].source.kind == "measured"
    assert again.evidence["h100-80gb-sxm", "none", "all_reduce"].logs == 3


def test_healthy_rows_meet_the_targets(errors):
    large = np.concatenate([e[log.bytes >= 1 << 20] for log, e in errors])
    small = np.concatenate([e[log.bytes < 1 << 20] for log, e in errors])
    assert np.median(large) <= 0.10
    assert np.median(small) <= 0.20
    assert np.quantile(large, 0.9) <= 0.25


@pytest.mark.parametrize(("low", "high"), [(2, 2), (4, 4), (8, 1024)])
def test_h100_infiniband_all_reduce(errors, low, high):
    rows = [
        error[log.bytes >= 256 << 20]
        for log, error in errors
        if log.network.fabric == "ib-ndr-400" and log.network.gpu == "h100-80gb-sxm" and log.kind == "all_reduce"
        and log.group.ranks == 8 * log.group.domains and low <= log.group.domains <= high
    ]  # fmt: skip
    assert np.median(np.concatenate(rows)) <= 0.10
    assert np.mean(np.concatenate(rows)) <= 0.10


def test_evidence_covers_the_rows(errors):
    inside = total = 0
    for log, error in errors:
        sigma = collective_time(PROFILE, log.network, log.kind, log.bytes, log.group).sigma
        inside += int((error <= 1.2816 * sigma).sum())
        total += error.size
    assert 0.7 < inside / total < 0.9


def test_logs_have_a_public_source():
    with CSV.open(newline="", encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    assert all(row["source"].startswith(("github:", "public log")) for row in rows)
    assert all(float(row["time_s"]) > 0 and float(row["bytes"]) > 0 for row in rows)
    assert {row["health"] for row in rows} == {"healthy", "degraded", "tcp"}


def test_unreadable_rows_are_all_reported(tmp_path):
    lines = CSV.read_text(encoding="utf-8").splitlines()[:4]
    broken = [
        lines[0],
        lines[1].replace(",healthy,", ",healthy,").replace(",512,", ",many,"),
        lines[2],
        lines[3].replace(",2048,", ",-2,"),
    ]
    path = tmp_path / "logs.csv"
    path.write_text("\n".join(broken) + "\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_logs(path)
    assert [problem.mark.line for problem in caught.value.problems] == [2, 4]
