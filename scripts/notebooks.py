"""Runs the notebooks as a reader would: in Jupyter, in an environment of their own with nothing but the extra.

`python3 scripts/notebooks.py [NAME ...]` makes `.venv-notebook` if needed, installs simcluster with its notebook extra
into it, and executes notebooks/NAME.py (all of them by default). It prints seconds and last sentence of each, and fails
if one fails or takes longer than two minutes.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv-notebook"
MARKER = VENV / ".simcluster"
LIMIT_S = 120


def notebooks(names=()):
    """Paths of notebooks by name; stops at one that does not exist."""
    known = {path.stem: path for path in sorted((ROOT / "notebooks").glob("*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no notebook {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names] if names else list(known.values())


def python():
    """The interpreter of the notebooks' environment."""
    return VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def ensure():
    """Makes the environment; again only if the project file changed."""
    import venv

    digest = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    if python().is_file() and MARKER.is_file() and MARKER.read_text() == digest:
        return
    sys.stderr.write(f"setting up {VENV.name} (once; a minute or two) ...\n")
    venv.EnvBuilder(with_pip=True, clear=VENV.exists()).create(str(VENV))
    install = [str(python()), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, "-e", f"{ROOT}[notebook]"], check=False, cwd=str(ROOT), capture_output=True, text=True
    )
    if done.returncode:
        sys.stderr.write(done.stdout + done.stderr)
        sys.exit("pip could not install simcluster with its notebook extra")
    MARKER.write_text(digest)


def execute(path):
    """The executed notebook; raises what its first failing cell raised."""
    import jupytext
    from nbclient import NotebookClient

    notebook = jupytext.read(path)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=LIMIT_S, kernel_name="python3", resources=resources).execute()
    return notebook


def last_sentence(notebook):
    """Last line that an executed notebook printed.

    >>> printed = {"output_type": "stream", "name": "stdout", "text": "one\\ntwo\\n"}
    >>> last_sentence({"cells": [{"cell_type": "code", "outputs": [printed]}, {"cell_type": "markdown"}]})
    'two'
    """
    lines = [
        line
        for cell in notebook["cells"]
        for output in cell.get("outputs", ())
        if output["output_type"] == "stream" and output["name"] == "stdout"
        for line in output["text"].splitlines()
        if line.strip()
    ]
    return lines[-1] if lines else ""


def report(path):
    """Executes a notebook and prints how it went; whether it went well."""
    started = time.perf_counter()
    try:
        sentence = last_sentence(execute(path))
    except Exception as error:  # whatever a cell raises, the other notebooks run too
        print(f"{path.stem}: failed: {error}")
        return False
    seconds = time.perf_counter() - started
    print(f"{path.stem}: {seconds:.0f} s: {sentence}", flush=True)
    if seconds > LIMIT_S:
        print(f"{path.stem}: longer than {LIMIT_S} s")
    return bool(sentence) and seconds <= LIMIT_S


if __name__ == "__main__":
    paths = notebooks(sys.argv[1:])
    if Path(sys.prefix).resolve() == VENV.resolve():
        results = [report(path) for path in paths]  # all of them, also after one that failed
        sys.exit(not all(results))
    ensure()
    sys.exit(subprocess.run([str(python()), __file__, *sys.argv[1:]], check=False, cwd=str(ROOT)).returncode)
