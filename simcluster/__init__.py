"""simcluster: what a GPU cluster will do with a training job before anybody pays for it.

The public names are loaded when they are first used, so that importing the package is cheap.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simcluster.errors import InputError, SimclusterError
    from simcluster.evaluation import Evaluation, evaluate
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.planner import Plan, plan_layout
    from simcluster.scenario import Scenario, load, load_study
    from simcluster.study import Comparison
    from simcluster.study.designs import compare

__version__ = "0.1.0"

_HOME = {
    "Scenario": "simcluster.scenario",
    "load": "simcluster.scenario",
    "load_study": "simcluster.scenario",
    "evaluate": "simcluster.evaluation",
    "Evaluation": "simcluster.evaluation",
    "Comparison": "simcluster.study",
    "compare": "simcluster.study.designs",
    "Catalogue": "simcluster.hardware.catalogue",
    "Plan": "simcluster.planner",
    "plan_layout": "simcluster.planner",
    "InputError": "simcluster.errors",
    "SimclusterError": "simcluster.errors",
}

__all__ = [
    "Catalogue",
    "Comparison",
    "Evaluation",
    "InputError",
    "Plan",
    "Scenario",
    "SimclusterError",
    "compare",
    "evaluate",
    "load",
    "load_study",
    "plan_layout",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'simcluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


def _join_notebook() -> None:
    """In a running IPython, evaluations and comparisons show as pages."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is not None:
        import_module("simcluster.reports.jupyter").load_ipython_extension(shell)


_join_notebook()
