"""simcluster: what a GPU cluster will do with a training job before anybody pays for it.

The public names are loaded when they are first used, so that importing the package is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "Scenario": "simcluster.scenario",
    "load": "simcluster.scenario",
    "load_study": "simcluster.scenario",
    "evaluate": "simcluster.evaluation",
    "Evaluation": "simcluster.evaluation",
    "compare": "simcluster.study",
    "Comparison": "simcluster.study",
    "Catalogue": "simcluster.hardware.catalogue",
    "InputError": "simcluster.errors",
    "SimclusterError": "simcluster.errors",
}

__all__ = [
    "Catalogue",
    "Comparison",
    "Evaluation",
    "InputError",
    "Scenario",
    "SimclusterError",
    "compare",
    "evaluate",
    "load",
    "load_study",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'simcluster' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
