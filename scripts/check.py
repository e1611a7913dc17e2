"""Lint, types, imports and tests: what must be green before a change lands. `python3 scripts/check.py`."""

import subprocess
import sys

from environment import ROOT, VENV, ensure

ensure("dev")
BIN = VENV / "bin"
STEPS = (
    [BIN / "ruff", "check", "."],
    [BIN / "ruff", "format", "--check", "."],
    [BIN / "mypy"],
    [BIN / "lint-imports"],
    [sys.executable, ROOT / "scripts" / "test.py"],
)
failed = [step for step in STEPS if subprocess.run(list(map(str, step)), check=False, cwd=ROOT).returncode]
for step in failed:
    sys.stderr.write(f"failed: {' '.join(map(str, step))}\n")
sys.exit(bool(failed))
