"""Several candidates side by side: differences under common draws, and a verdict in words."""

from __future__ import annotations

from simcluster.study.comparison import Candidate, Comparison, compare
from simcluster.study.inputs import load_candidates
from simcluster.study.verdict import Verdict

__all__ = ["Candidate", "Comparison", "Verdict", "compare", "load_candidates"]
