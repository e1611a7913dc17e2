"""Several candidates side by side: differences under common draws, and a verdict in words."""

from __future__ import annotations

from simcluster.study.comparison import Candidate, Comparison, compare
from simcluster.study.inputs import load_candidates, load_one
from simcluster.study.layouts import settled
from simcluster.study.saving import save_study
from simcluster.study.verdict import Verdict

__all__ = ["Candidate", "Comparison", "Verdict", "compare", "load_candidates", "load_one", "save_study", "settled"]
