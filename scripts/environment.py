"""Makes `.venv` in the checkout and installs simcluster into it; needs nothing but Python 3.10 or newer.

`python3 scripts/environment.py [dev]` sets up and stops. The other scripts call `ensure` first.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
OLDEST = (3, 10)


def stop(message):
    sys.exit(f"simcluster setup: {message}")


def python():
    """The environment's interpreter."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _stamp(extras):
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + extras.encode())
    return f"{digest.hexdigest()} {sys.version_info[:2]}"


def _make_venv():
    try:
        import ensurepip  # noqa: F401
        import venv
    except ImportError:
        stop("Python's venv module is missing; on Debian or Ubuntu run: apt-get install python3-venv")
    venv.EnvBuilder(with_pip=True).create(VENV)


def ensure(extras=""):
    """Sets up once; again only if the project file, the extras or the Python version changed."""
    if sys.version_info < OLDEST:
        stop(f"Python {OLDEST[0]}.{OLDEST[1]} or newer is needed, this is {sys.version.split()[0]}")
    marker = VENV / ".simcluster"
    if python().is_file() and marker.is_file() and marker.read_text() == _stamp(extras):
        return
    sys.stderr.write("setting up .venv (once; a minute or two) ...\n")
    if not python().is_file():
        _make_venv()
    target = f"{ROOT}[{extras}]" if extras else str(ROOT)
    command = [python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", target]
    if subprocess.run(list(map(str, command)), check=False, cwd=ROOT).returncode:
        stop("pip could not install the packages named in pyproject.toml; its message above says which and why")
    marker.write_text(_stamp(extras))


def run(*arguments):
    """Runs the environment's Python and returns its exit code."""
    return subprocess.run([str(python()), *arguments], check=False, cwd=ROOT).returncode


if __name__ == "__main__":
    ensure(",".join(sys.argv[1:]))
