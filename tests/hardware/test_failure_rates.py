from __future__ import annotations

import math
from pathlib import Path

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.cluster import cluster_from
from simcluster.hardware.failure_rates import UnitCounts, default_failures, failure_causes, node_rate_spread

CATALOGUE = Catalogue.load()
DAY_S = 86400.0
LLAMA = UnitCounts(16384, 2048, 16384, 16384)

# The Llama 3 Herd of Models (arXiv:2407.21783), table 5: unexpected interruptions of 54 days on 16384 H100.
PUBLISHED = [148, 72, 54, 35, 32, 19, 17, 7, 7, 6, 6, 3, 3, 2, 2, 2, 2, 2]


def per_54_days(name: str, counts: UnitCounts) -> list[float]:
    return [cause.value * 54 * DAY_S for cause in failure_causes(CATALOGUE, name, counts).values()]


def test_llama_gives_its_own_counts_back() -> None:
    counts = per_54_days("llama-3-405b", LLAMA)
    assert counts == pytest.approx(PUBLISHED)
    assert sum(counts) == pytest.approx(419)
    rate = sum(cause.value for cause in failure_causes(CATALOGUE, "llama-3-405b", LLAMA).values())
    assert 1 / rate / 3600 == pytest.approx(3.0931, rel=1e-4)  # hours between interruptions


def test_causes_grow_with_what_they_come_from() -> None:
    wide = failure_causes(CATALOGUE, "llama-3-405b", UnitCounts(4096, 1024, 8192, 16384))
    rows = [cause.value * 54 * DAY_S for cause in wide.values()]
    assert rows[0] == pytest.approx(148 / 4)  # per GPU
    assert rows[3] == pytest.approx(35)  # per port
    assert rows[4] == pytest.approx(32 / 2)  # per node
    assert rows[7] == pytest.approx(7 / 2)  # per card
    assert "7 in 54 days of 16384 nics" in list(wide.values())[7].why


def test_entries_with_a_node_rate_have_one_cause() -> None:
    causes = failure_causes(CATALOGUE, "meta-rsc-1", UnitCounts(512, 64, 512, 512))
    assert list(causes) == ["Node"]
    assert causes["Node"].value * DAY_S == pytest.approx(64 * 6.5e-3)
    assert causes["Node"].kind == "measured"


def test_what_the_b200_fleet_did_not_count_is_an_estimate() -> None:
    causes = failure_causes(CATALOGUE, "skt-b200", UnitCounts(504, 63, 504, 504))
    assert causes["GPU"].value * 55 * DAY_S == pytest.approx(10, rel=0.01)
    assert {name: cause.kind for name, cause in causes.items()} == {
        "GPU": "derived", "Host": "estimate", "Network card": "estimate", "Network link": "estimate",
        "Software": "estimate",
    }  # fmt: skip


def test_counts_of_a_cluster() -> None:
    cluster = cluster_from("dgx-h100", 16, catalogue=CATALOGUE, spares=2)
    assert UnitCounts.of(cluster) == UnitCounts(128, 16, 128, 128)


def test_entries_without_rates() -> None:
    with pytest.raises(InputError, match=r"recovery holds no failure rates.*meta-rsc-1"):
        failure_causes(CATALOGUE, "recovery", LLAMA)
    with pytest.raises(InputError, match="no failure rates 'rsc'"):
        failure_causes(CATALOGUE, "rsc", LLAMA)


@pytest.mark.parametrize(
    ("gpu", "fleet", "kind"),
    [
        ("a100-80gb-sxm", "meta-rsc-1", "measured"), ("a100-40gb-sxm", "meta-rsc-1", "estimate"),
        ("h100-80gb-sxm", "llama-3-405b", "measured"), ("h200-141gb-sxm", "llama-3-405b", "estimate"),
        ("b200-sxm", "skt-b200", "measured"), ("gb300", "skt-b200", "estimate"),
        ("v100-32gb-sxm", "meta-rsc-1", "estimate"), ("mi300x", "llama-3-405b", "estimate"),
    ],
)  # fmt: skip
def test_default_fleet(gpu: str, fleet: str, kind: str) -> None:
    found = default_failures(CATALOGUE, CATALOGUE.gpu(gpu)[0])
    assert (found.name, found.kind) == (fleet, kind)
    assert ("nearest" in found.why) == (kind == "estimate")


def test_spread_is_that_of_the_fleets() -> None:
    logs = [math.log(rate) for rate in (6.5, 2.34, 3.79)]
    mean = sum(logs) / 3
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / 2)
    assert node_rate_spread(CATALOGUE) == pytest.approx(spread)
    few = default_failures(CATALOGUE, CATALOGUE.gpu("b200-sxm")[0])
    assert few.ln_sigma == pytest.approx(math.sqrt(spread**2 + 1 / 10), rel=0.01)  # ten failures seen


def test_a_users_fleet_counts(tmp_path: Path) -> None:
    (tmp_path / "reliability").mkdir()
    (tmp_path / "reliability" / "ours.yaml").write_text(
        "id: ours\ntype: failure-rates\nname: Ours\n"
        'sources: {s: {source: our own log, date: "2026-11", kind: measured}}\n'
        "values:\n  gpu: {value: b200-sxm, from: s}\n  gpus: {value: 2048, unit: count, from: s}\n"
        '  node_failures: {value: 3, unit: "1/1000-days", from: s}\n'
    )
    own = Catalogue.load(tmp_path)
    assert default_failures(own, own.gpu("b200-sxm")[0]).name == "ours"
    assert node_rate_spread(own) < node_rate_spread(CATALOGUE)
