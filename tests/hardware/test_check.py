from __future__ import annotations

from pathlib import Path

import pytest

from simcluster.data import data_root
from simcluster.hardware.catalogue import Catalogue

GOOD = """id: {id}
type: switch
aliases: {aliases}
sources: {{s: {{source: {source}, date: "2026", kind: {kind}}}}}
values:
  ports: {{value: {ports}, unit: count, from: s}}
  port_rate: {{value: 400, unit: Gbit/s, from: s, low: {low}, high: 800}}
"""
FINE = {"id": "box", "aliases": "[]", "source": "a sheet", "kind": "datasheet", "ports": 64, "low": 100}


def check(root: Path, **changes: object) -> list[str]:
    (root / "networks").mkdir(exist_ok=True)
    (root / "networks" / "box.yaml").write_text(GOOD.format(**{**FINE, **changes}), encoding="utf-8")
    return [str(problem) for problem in Catalogue.load(root).check()]


def test_shipped_catalogue_is_sound() -> None:
    assert Catalogue.load().check() == []


def test_a_good_addition_is_sound(tmp_path: Path) -> None:
    assert check(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ports": -1}, ":6:3: box: ports: -1 is not plausible"),
        ({"ports": 1e9}, "is not plausible"),
        ({"low": 500}, ":7:3: box: port_rate: 400 Gbit/s lies outside its own low and high"),
        ({"source": "latif-2042"}, "source 'latif-2042' is not in sources.yaml; did you mean 'latif-2024'?"),
        ({"aliases": "[qm8790]"}, "alias 'qm8790' also means qm8700"),
        ({"aliases": "[qm8700]"}, "alias 'qm8700' also means qm8700"),
        ({"aliases": '["\\x41BC"]'}, "is written with escapes"),
        ({"kind": "gossip"}, "kind 'gossip' is not one of"),
    ],
)
def test_what_breaks_a_rule_is_told_with_its_place(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    found = check(tmp_path, **changes)
    assert any(words in problem for problem in found), found
    assert all("box.yaml" in problem or "qm8" in problem for problem in found)


def test_dangling_references(tmp_path: Path) -> None:
    (tmp_path / "nodes").mkdir()
    text = (data_root("hardware_db") / "nodes" / "dgx-h100.yaml").read_text(encoding="utf-8")
    changed = text.replace("id: dgx-h100", "id: mine").replace("value: h100-80gb-sxm", "value: h100-80gb-sx")
    changed = changed.replace("value: ib-ndr-400", "value: ib-nd-400").replace("DGX H100/", "my ")
    (tmp_path / "nodes" / "mine.yaml").write_text(changed, encoding="utf-8")
    found = " ".join(str(problem) for problem in Catalogue.load(tmp_path).check())
    assert "gpu: there is no 'h100-80gb-sx' in gpus; did you mean 'h100-80gb-sxm'?" in found
    assert "fabric: there is no 'ib-nd-400' in networks" in found


def test_bad_sources_file(tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text("a: {title: A}\n")
    assert "source a lacks reference, kind" in str(Catalogue.load(tmp_path).check()[0])
    (tmp_path / "sources.yaml").write_text("a: {title: A\n")
    assert "not valid YAML" in str(Catalogue.load(tmp_path).check()[0])
    (tmp_path / "sources.yaml").write_text("- a\n")
    assert "must be a mapping" in str(Catalogue.load(tmp_path).check()[0])


def test_a_file_outside_the_folders_of_kinds_is_named(tmp_path):
    (tmp_path / "x1.yaml").write_text("id: x1\n", encoding="utf-8")
    (tmp_path / "gpus").mkdir()
    (tmp_path / "gpus" / "x2.yml").write_text("id: x2\n", encoding="utf-8")
    found = [problem for problem in Catalogue.load(tmp_path).check() if "nothing reads" in problem.message]
    assert [str(problem.mark) for problem in found] == [str(tmp_path / "gpus" / "x2.yml"), str(tmp_path / "x1.yaml")]
    assert "gpus" in found[0].advice
