"""README and docs do what they show."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest
from pydantic import BaseModel

from simcluster.analysis.waterfall import CAUSES
from simcluster.errors import InputError
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import resolve
from simcluster.scenario import Scenario, load_text

ROOT = Path(__file__).parent.parent


def script(name: str) -> ModuleType:
    """A module of scripts/, which is no package."""
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


docs = script("docs")


@pytest.mark.parametrize("name", docs.PAGES)
def test_page_shows_what_is(name: str, tmp_path: Path) -> None:
    _, wrong = docs.refresh((ROOT / name).read_text(encoding="utf-8"), tmp_path)
    assert not wrong, "\n".join([*wrong, "run `make docs` and look at the difference"])


@pytest.mark.parametrize("name", docs.PAGES)
def test_links_and_scripts_exist(name: str) -> None:
    page = (ROOT / name).read_text(encoding="utf-8")
    linked = re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]*)?\)", page)
    named = re.findall(r"(?:scripts|calibration|benchmarks)/\w+\.py", page)
    missing = [path for path in linked if not (ROOT / name).parent.joinpath(path).exists()]
    missing += [path for path in named if not (ROOT / path).exists()]
    assert not missing


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {word for name in docs.PAGES for word in re.findall(r"`?make (\w+)`", (ROOT / name).read_text())}
    assert named <= targets


def _keys(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """Dotted paths of all scenario keys; parts that take a word or a mapping are followed into the mapping."""
    for name, field in model.model_fields.items():
        here = f"{path}{field.alias or name}"
        parts = list(_parts(field.annotation))
        if not parts:
            yield here
        for part in parts:
            yield from _keys(part, f"{here}.")


def _parts(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _parts(inner)


def test_every_scenario_key_is_documented() -> None:
    page = (ROOT / "docs" / "scenario.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([\w.]+)`", page, re.MULTILINE))
    keys = set(_keys(Scenario))
    parents = {".".join(key.split(".")[:depth]) for key in keys for depth in range(1, key.count(".") + 1)}
    assert keys - documented == set(), "add a row to docs/scenario.md"
    assert documented - keys - parents == {"what_ifs", "candidates"}


def test_every_cause_is_explained() -> None:
    page = (ROOT / "docs" / "model.md").read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| `(\w+)` \|", page.partition("## Waterfall")[2], re.MULTILINE)) == CAUSES


def test_notice_names_every_source() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert docs.with_tables(notice) == notice, "run `make docs`"
    tables = [*(ROOT / "calibration").glob("measured/*.csv"), ROOT / "calibration" / "published" / "training.csv"]
    repositories = {
        found
        for path in tables
        for found in re.findall(r"github(?:\.com/|:)([\w.-]+/[\w.-]+)", path.read_text(encoding="utf-8"))
    }
    short = {name.rsplit("_", 1)[0] for name in repositories if name.startswith("mlcommons/")}
    missing = sorted(name for name in repositories if not name.startswith("mlcommons/") and name not in notice)
    assert not missing
    assert all(name in notice for name in short)


INLINE = """
model: {layers: 16, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000}
cluster: {node: dgx-a100-80gb, nodes: 2, fabric: {base: ib-hdr-200}}
training:
  sequence_length: 2048
  global_batch: 64
  micro_batch: 1
  parallelism: {tp: 2, pp: 2}
  software: {family: megatron-core, date: 2024-06}
"""


def _settings(title: str) -> list[str]:
    """Settings of a table of docs/coverage.md."""
    page = (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")
    table = page.partition(f"| {title} | setting |")[2].partition("\n\n")[0]
    return re.findall(r"`([\w.]+=[^`]+)`", table)


@pytest.mark.parametrize("setting", _settings("refused"))
def test_coverage_refused(setting: str, catalogue: Catalogue) -> None:
    with pytest.raises(InputError, match=r"not (simulated|built) yet"):
        resolve(load_text(INLINE, sets=[setting]), catalogue)


@pytest.mark.parametrize("setting", _settings("named, not computed"))
def test_coverage_named(setting: str, catalogue: Catalogue) -> None:
    resolved = resolve(load_text(INLINE, sets=[setting]), catalogue)
    named = (*resolved.unmodelled, *resolved.means().unmodelled)
    assert any(setting.startswith(path) for path in named)


@pytest.mark.parametrize(
    ("shown", "real", "same"),
    [
        (["step 20.6 s"], ["step 613 ms"], True),
        (["step 20.6 s"], ["stop 20.6 s"], False),
        (["a", "...", "c"], ["a", "b", "c"], True),
        (["a", "..."], ["a"], True),
        (["a"], ["a", "[exit 3]"], False),
        (["on dgx-h100"], ["on dgx-a100"], False),
        (["x  + 1.5 s"], ["x - 2 s"], True),
    ],
)
def test_comparison_ignores_numbers_only(shown: list[str], real: list[str], same: bool) -> None:
    assert (docs.differences(shown, real) == []) is same


def test_refresh_writes_the_real_output(tmp_path: Path) -> None:
    page = "# T\n\n```console\n$ echo one; echo two; exit 3\nwrong\n[exit 3]\n```\n\n```python\n>>> 1 + 2\n4\n\n```\n"
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    fresh, wrong = docs.refresh(page, tmp_path / "first")
    assert "one\ntwo\n[exit 3]\n```" in fresh
    assert ">>> 1 + 2\n3\n\n```" in fresh
    assert len([line for line in wrong if line.startswith("$")]) == 1
    assert docs.refresh(fresh, tmp_path / "second") == (fresh, [])


def test_refresh_never_writes_a_new_failure(tmp_path: Path) -> None:
    page = "```console\n$ echo /secret/path; exit 3\nfine\n```\n"
    fresh, wrong = docs.refresh(page, tmp_path)
    assert fresh == page
    assert wrong


def test_a_wrong_piece_of_a_scenario_is_found(tmp_path: Path) -> None:
    _, wrong = docs.refresh("```yaml\ntraining: {micro_batchs: 2}\n```\n", tmp_path)
    assert "micro_batch" in wrong[0]
