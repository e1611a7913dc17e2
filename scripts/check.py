"""Lint, types, imports and tests: what must be green before a change lands. `python3 scripts/check.py`."""

import subprocess
import sys

from environment import ROOT, VENV, ensure

BIN = VENV / "bin"
STEPS = (
    (BIN / "ruff", "check", "."),
    (BIN / "ruff", "format", "--check", "."),
    (BIN / "mypy",),
    (BIN / "lint-imports",),
    (sys.executable, ROOT / "scripts" / "test.py"),
)

if __name__ == "__main__":
    ensure("dev")
    commands = [[str(word) for word in step] for step in STEPS]
    failed = [command for command in commands if subprocess.run(command, check=False, cwd=str(ROOT)).returncode]
    for command in failed:
        sys.stderr.write(f"failed: {' '.join(command)}\n")
    sys.exit(bool(failed))
