"""Compares two shipped examples; sets everything up first. `python3 scripts/demo.py`."""

import sys

from environment import ensure, run

COMMAND = ("compare", "examples/llama-65b-512xa100.yaml", "examples/llama-65b-512xa100-roce.yaml")

if __name__ == "__main__":
    ensure()
    sys.exit(run("-m", "simcluster", *COMMAND))
