"""The set-up scripts: what they say when something is missing; slow: they work on a bare machine, and so do builds."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "dist", "build")


def script(folder: str, name: str) -> ModuleType:
    """A module of scripts/ or benchmarks/, which are no packages."""
    spec = importlib.util.spec_from_file_location(f"{folder}_{name}", ROOT / folder / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """scripts/environment.py on a checkout without `.venv`."""
    module = script("scripts", "environment")
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "VENV", tmp_path / ".venv")
    monkeypatch.setattr(module, "MARKER", tmp_path / ".venv" / ".simcluster")
    monkeypatch.setattr(module, "LOG", tmp_path / ".venv" / "setup.log")
    return module


def test_old_python_is_told_what_is_needed(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment.sys, "version_info", (3, 9, 1))
    monkeypatch.setattr(environment.shutil, "which", lambda name: name if name == "python3.11" else None)
    with pytest.raises(
        SystemExit, match=r"^simcluster setup: Python 3\.10 or newer is needed.*run it with python3\.11$"
    ):
        environment.ensure()


def test_missing_venv_module_is_named(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    with pytest.raises(SystemExit, match="venv module is missing"):
        environment.ensure()


def test_unreachable_index_is_named(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    log = b"WARNING: Retrying\nERROR: No matching distribution found for hatchling>=1.25\n"
    monkeypatch.setattr(environment, "make_venv", lambda: None)
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, log))
    with pytest.raises(SystemExit, match=r"could not get hatchling>=1\.25.*setup\.log"):
        environment.ensure("dev")
    assert not environment.MARKER.exists()
    assert "Retrying" in environment.LOG.read_text()


def test_set_up_once_and_again_only_for_more(environment: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[set[str]] = []
    environment.python().write_text("")
    monkeypatch.setattr(environment, "make_venv", lambda: None)
    monkeypatch.setattr(environment, "install", installed.append)
    for extras in ((), (), ("dev",), ("dev",), ()):
        environment.ensure(*extras)
    assert installed == [set(), {"dev"}]
    (environment.ROOT / "pyproject.toml").write_text("[project]\nversion = '2'\n")
    environment.ensure()
    assert installed[2:] == [{"dev"}]


def test_demo_is_what_the_readme_shows() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        demo = script("scripts", "demo")
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    assert f"$ simcluster {' '.join(demo.COMMAND)}\n" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("loop", "most"),
    [([0.25, 0.25, 0.26], 1.1), ([0.2, 0.2, 0.27], 1.35), ([0.2, 0.2, 0.9], 1.5), ([0.5, 0.5, 0.5], 2.2)],
)
def test_benchmark_limits_allow_noise_and_slow_machines(loop: list[float], most: float) -> None:
    assert script("benchmarks", "run").allowed(1.0, loop) == pytest.approx(most)


def _copy(target: Path) -> Path:
    shutil.copytree(ROOT, target, ignore=LEFT_OUT)
    return target


def _bare(command: list[str], folder: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as on a machine where nothing is set up (but for how pip finds packages)."""
    home.mkdir(exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    env = {**kept, "PATH": "/usr/bin:/bin", "HOME": str(home)}
    return subprocess.run(command, check=False, cwd=folder, env=env, capture_output=True, text=True)


def _base_python() -> str:
    return getattr(sys, "_base_executable", sys.executable)


@pytest.mark.slow
def test_demo_sets_itself_up(tmp_path: Path) -> None:
    checkout = _copy(tmp_path / "checkout")
    first = _bare([_base_python(), "scripts/demo.py"], checkout, tmp_path / "home")
    assert first.returncode == 0, first.stderr
    assert first.stderr.splitlines() == ["setting up .venv (once; a minute or two) ..."]
    again = _bare([_base_python(), "scripts/demo.py"], checkout, tmp_path / "home")
    assert (again.stdout, again.stderr) == (first.stdout, "")


@pytest.mark.slow
def test_wheel_from_the_sdist_runs_outside_the_checkout(tmp_path: Path) -> None:
    checkout, home, venv = _copy(tmp_path / "checkout"), tmp_path / "home", tmp_path / "venv"

    def run(*command: str, folder: Path = tmp_path) -> str:
        done = _bare(list(command), folder, home)
        assert done.returncode == 0, done.stderr
        return done.stdout

    python = str(venv / "bin" / "python")
    run(_base_python(), "-m", "venv", str(venv))
    run(python, "-m", "pip", "install", "--quiet", "hatchling")
    run(python, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path / "dist"), folder=checkout)
    sdist = next((tmp_path / "dist").glob("*.tar.gz"))
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"calibration/measured/gemm.csv", "NOTICE", "scripts/demo.py", "docs/model.md"} <= names
    run(python, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), str(sdist))
    wheel = next(tmp_path.glob("*.whl"))
    run(python, "-m", "pip", "install", "--quiet", str(wheel))
    shutil.rmtree(checkout)
    found = run(
        python, "-c", "from simcluster.data import data_root; print(*map(data_root, ['calibration', 'examples']))"
    ).split()
    assert all(path.startswith(str(venv)) for path in found)
    calibration, examples = map(Path, found)
    assert sorted(path.name for path in calibration.iterdir()) == ["profiles", "published", "software"]
    example = next(examples.glob("llama-65b*.yaml"))
    simcluster = str(venv / "bin" / "simcluster")
    assert "A step takes" in run(simcluster, "simulate", str(example))
    assert "dgx-h100" in run(simcluster, "hardware", "list", "nodes")
