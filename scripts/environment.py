"""Makes `.venv` in the checkout and installs simcluster into it; needs nothing but Python 3.10 or newer.

`python3 scripts/environment.py [dev]` sets up and stops. The other scripts call `ensure` first. The code runs on old
Pythons too, so that they can be told what is missing.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
MARKER = VENV / ".simcluster"
LOG = VENV / "setup.log"
OLDEST = (3, 10)
NEWER = ("python3.13", "python3.12", "python3.11", "python3.10")


def stop(message):
    sys.exit("simcluster setup: " + message)


def python():
    """The environment's interpreter."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def state():
    """What was set up: digest of the project file, and the extras; ("", set()) if nothing was."""
    if not python().is_file() or not MARKER.is_file():
        return "", set()
    digest, *extras = MARKER.read_text().split() or [""]
    return digest, set(extras)


def check_python():
    """Stops with one line if this Python is too old or lacks venv."""
    if sys.version_info < OLDEST:
        newer = next(filter(shutil.which, NEWER), None)
        advice = "; run it with " + newer if newer else ""
        stop("Python 3.10 or newer is needed, this is " + sys.version.split()[0] + advice)
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        stop("Python's venv module is missing; on Debian or Ubuntu run: apt-get install python3-venv")


def works(*module):
    """Whether the environment's Python can run a module."""
    command = [str(python()), "-m", *module]
    return not subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


def make_venv():
    """An empty environment with pip; a broken one is replaced."""
    import venv

    if python().is_file() and (works("pip", "--version") or works("ensurepip")):
        return
    try:
        venv.EnvBuilder(with_pip=True, clear=VENV.exists()).create(str(VENV))
    except (OSError, subprocess.CalledProcessError) as error:
        stop(f"could not make {VENV}: {error}")


def install(extras):
    """Installs the checkout with extras; stops with one line that names what pip could not get."""
    target = f"{ROOT}[{','.join(sorted(extras))}]" if extras else str(ROOT)
    command = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-e", target]
    done = subprocess.run(command, check=False, cwd=str(ROOT), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    text = done.stdout.decode(errors="replace")
    LOG.write_text(text, encoding="utf-8")
    if done.returncode:
        stop(f"{reason(text)} (details in {LOG})")


def reason(log):
    """What a failed pip run lacked, in one line.

    >>> reason("ERROR: No matching distribution found for numpy>=1.26")
    'pip could not get numpy>=1.26: no package index is reachable, or it has none for this Python'
    """
    missing = re.search(r"No matching distribution found for (\S+)", log)
    if missing:
        return f"pip could not get {missing[1]}: no package index is reachable, or it has none for this Python"
    errors = [line.strip() for line in log.splitlines() if line.strip().lower().startswith("error")]
    return "pip failed: " + (errors[-1] if errors else "it gave no reason")


def ensure(*extras):
    """Sets up once; again only if the project file changed or more extras are wanted."""
    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    known, have = state()
    if known == digest and have.issuperset(extras):
        return
    check_python()
    sys.stderr.write("setting up .venv (once; a minute or two) ...\n")
    make_venv()
    wanted = have.union(extras)
    install(wanted)
    MARKER.write_text(" ".join([digest, *sorted(wanted)]))


def run(*arguments):
    """Runs the environment's Python in the checkout and returns its exit code."""
    return subprocess.run([str(python()), *arguments], check=False, cwd=str(ROOT)).returncode


if __name__ == "__main__":
    ensure(*sys.argv[1:])
