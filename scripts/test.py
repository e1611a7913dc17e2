"""Runs the tests; sets everything up first. `python3 scripts/test.py [pytest arguments]`."""

import os
import sys

from environment import ensure, run

if __name__ == "__main__":
    ensure("dev")
    workers = ["-n", str(min(os.cpu_count() or 1, 8))] if len(sys.argv) == 1 else []
    sys.exit(run("-m", "pytest", *workers, "-m", "not slow", *sys.argv[1:]))
