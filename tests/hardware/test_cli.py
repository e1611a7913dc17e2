from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from simcluster.cli.hardware import hardware
from simcluster.errors import InputError, UsageError
from simcluster.hardware.schema import KINDS


def run(*args: str) -> str:
    result = CliRunner().invoke(hardware, args, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_list() -> None:
    lines = run("list", "gpus").splitlines()
    assert lines[0].split() == ["type", "id", "name"]
    assert any("h100-80gb-sxm" in line for line in lines)
    assert not any("dgx-h100" in line for line in lines)
    assert {row["kind"] for row in json.loads(run("list", "--format", "json"))} == set(KINDS)


@pytest.mark.parametrize(
    "kind", ["gpu", "cpu", "node", "network", "storage", "cloud", "price", "facility", "reliability"]
)
def test_list_of_every_kind_by_its_singular(kind: str) -> None:
    assert len(run("list", kind).splitlines()) > 5


@pytest.mark.parametrize("name", ["epyc-7742", "qm9790", "nvme-8tb", "market", "resale", "pue", "meta-rsc-1"])
def test_show_of_every_kind(name: str) -> None:
    shown = json.loads(run("show", name, "--format", "json"))
    assert [entry["id"] for entry in shown["entries"]] == [name]
    assert "sources:" in run("show", name)


def test_show_of_a_price_list() -> None:
    lines = run("show", "aws").splitlines()
    row = next(line for line in lines if "p5.48xlarge" in line and "on-demand" in line and "2026" in line)
    assert "6.88 USD/GPU-h" in row
    assert "cloud-list-prices-2026-09" in row
    shown = json.loads(run("show", "aws", "--format", "json"))["entries"][0]["table"]
    assert {"instance", "term", "gpu", "value", "unit", "date", "kind", "source", "confidence"} <= set(shown[0])


def test_show_has_unit_source_date_kind_and_conflicts() -> None:
    text = run("show", "B200")
    row = next(line for line in text.splitlines() if line.startswith("power_limit"))
    assert "1000 W" in row
    assert "datasheet" in row
    assert "2026-08-22" in row
    assert "but also" in text
    assert "700 W" in text
    assert "github.com/stas00/ml-engineering" in text


def test_show_range() -> None:
    assert "400000 to 520000" in run("show", "dgx-b200")


def test_show_json() -> None:
    shown = json.loads(run("show", "dgx-b200", "--format", "json"))
    price = shown["entries"][0]["values"]["price"]
    assert (price["value"], price["low"], price["unit"], price["kind"]) == (460_000, 400_000, "USD", "estimate")
    assert price["source"] in shown["sources"]


def test_wrong_words() -> None:
    with pytest.raises(InputError, match="did you mean"):
        run("show", "dgx-h10")
    with pytest.raises(UsageError, match="gpus, cpus, nodes, networks"):
        run("list", "apples")


def test_check(tmp_path: Path) -> None:
    assert "no problems" in run("check")
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "x.yaml").write_text("id: x\ntype: gpu\n")
    with pytest.raises(InputError, match="lacks generation"):
        run("check", str(tmp_path))
    result = CliRunner().invoke(hardware, ["check", str(tmp_path), "--format", "json"])
    assert result.exit_code == 3
    assert json.loads(result.output)["problems"]
