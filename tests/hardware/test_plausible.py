from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.check import check_entry

SOURCES = """sources:
  s: {source: a sheet, date: "2026-09", kind: datasheet}
  y: {source: a sheet, date: "2026", kind: datasheet}
"""


def found(root: Path, kind: str, id_: str, text: str) -> list[str]:
    """What is wrong with one entry over the shipped catalogue."""
    (root / kind).mkdir(exist_ok=True)
    (root / kind / f"{id_}.yaml").write_text(f"id: {id_}\n{text}", encoding="utf-8")
    catalogue = Catalogue.load(root)
    try:
        entry = catalogue.entry(kind, id_)
    except InputError as error:
        return [str(problem) for problem in error.problems]
    return [str(problem) for problem in check_entry(entry, catalogue, catalogue.sources())]


def values(**pairs: str) -> str:
    lines = []
    for key, told in pairs.items():
        number, unit = told.split(" ") if " " in told else (told, "")
        lines.append(f"  {key}: {{value: {number}, {f'unit: {unit}, ' if unit else ''}from: s}}\n")
    return SOURCES + "values:\n" + "".join(lines)


@pytest.mark.parametrize(
    ("kind", "id_", "type_", "pairs", "words"),
    [
        ("gpus", "h100-80gb-sxm", "gpu", {"peak_fp8": "900 TFLOP/s"}, "peak_fp8 is below peak_bf16"),
        ("gpus", "b200-sxm", "gpu", {"peak_fp4": "4000 TFLOP/s"}, "peak_fp4 is below peak_fp8"),
        ("gpus", "h100-80gb-sxm", "gpu", {"memory_visible": "81 GiB"}, "memory_visible is larger than memory_label"),
        ("gpus", "h100-80gb-sxm", "gpu", {"scale_up_rate": "900 GB/s"}, "scale_up_rate is above that of nvlink4"),
        ("gpus", "h800-80gb-sxm", "gpu", {"scale_up_rate": "400 GB/s"}, "not half of scale_up_rate_both"),
        ("gpus", "h100-80gb-sxm", "gpu", {"matmul_measured_bf16": "1200 TFLOP/s"}, "is above peak_bf16"),
        ("gpus", "h100-80gb-sxm", "gpu", {"power_idle": "900 W"}, "power_idle is above power_limit"),
        ("gpus", "h100-80gb-sxm", "gpu", {"memory_bandwidth": "-1 GB/s"}, "is not plausible"),
        ("gpus", "h100-80gb-sxm", "gpu", {"scale_up": "nvlink44"}, "did you mean 'nvlink4'?"),
        ("nodes", "dgx-h100", "node", {"power_training": "11 kW"}, "power_training is above power_max"),
        ("nodes", "dgx-h100", "node", {"host_cpu": "xeon-8481c"}, "there is no 'xeon-8481c' in cpus"),
        ("nodes", "dgx-h100", "node", {"provider": "awz"}, "there is no 'awz' in clouds"),
        ("networks", "qm9700", "switch", {"capacity": "12.8 Tbit/s"}, "capacity is below ports times port_rate"),
        ("storage", "nvme-8tb", "drive", {"write_rate": "9 GB/s"}, "write_rate is above read_rate"),
    ],
)
def test_contradictions(tmp_path: Path, kind: str, id_: str, type_: str, pairs: dict[str, str], words: str) -> None:
    told = found(tmp_path, kind, id_, f"type: {type_}\n" + values(**pairs))
    assert any(words in problem and f"{id_}.yaml:" in problem for problem in told), told


def rent(**changes: str) -> str:
    row = {
        "instance": "x", "gpu": "h100-80gb-sxm", "gpus": "8", "term": "1y", "value": "2", "unit": "USD/GPU-h",
        "from": "s",
    } | changes  # fmt: skip
    return f"type: cloud\n{SOURCES}table:\n  - {{{', '.join(f'{key}: {told}' for key, told in row.items())}}}\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"from": "y"}, "has no month"),
        ({"node_usd_per_h": "17"}, "the instance is not its GPUs' prices together"),
        ({"gpu": "h100-80gb-sx"}, "gpu"),
        ({"node": "dgx-h10"}, "there is no 'dgx-h10' in nodes"),
        ({"low": "3", "high": "4"}, "lies outside its own low and high"),
        ({"value": "-1"}, "is not plausible"),
        ({"term": "2y"}, "term '2y' is not one of on-demand"),
        ({"unit": "USD/h"}, "table"),
    ],
)
def test_wrong_rents(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    told = found(tmp_path, "clouds", "mine", rent(**changes))
    assert len(told) == 1
    assert "mine.yaml:" in told[0]
    assert words in told[0] or words == "table"


def test_a_sound_rent(tmp_path: Path) -> None:
    assert found(tmp_path, "clouds", "mine", rent(node_usd_per_h="16")) == []
    assert found(tmp_path, "clouds", "mine", rent(**{"from": "y", "date": '"2026-10"'})) == []
