"""Which machines for a run: the README's first question; sets everything up first. `python3 scripts/demo.py`."""

import sys

from environment import ensure, run

JOB = ("--model", "llama-3-70b", "--tokens", "2T")
COMMAND = ("compare", *JOB, "32xdgx-b200:own", "32xaws-p6-b200:3y", "64xhgx-h100:1y")

if __name__ == "__main__":
    ensure()
    sys.exit(run("-m", "simcluster", *COMMAND))
