"""simcluster: what a GPU cluster will do with a training job before anybody pays for it.

The public names are loaded when they are first used, so that importing the package is cheap.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simcluster.errors import InputError, SimclusterError
    from simcluster.evaluation import Evaluation, evaluate
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.scenario import Loaded, Scenario, load, load_study
    from simcluster.study import Comparison

__version__ = "0.1.0"

_HOME = {
    "Scenario": "simcluster.scenario",
    "load": "simcluster.scenario",
    "load_study": "simcluster.scenario",
    "evaluate": "simcluster.evaluation",
    "Evaluation": "simcluster.evaluation",
    "Comparison": "simcluster.study",
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


def compare(*designs: Any, catalogue: Catalogue | None = None, seed: int = 0) -> Comparison:
    r"""Compares designs with the first of them, under the same draws.

    designs    loaded scenarios, a loaded study, paths of either; also one list of them, pairs of name and scenario, or
               a mapping from names to scenarios
    catalogue  the shipped one if None
    seed       of the draws behind intervals

    Raises InputError with every problem of every design, UsageError for fewer than two.

    >>> from simcluster.scenario import load_text
    >>> job = load_text("model: llama-7b\ncluster: {node: dgx-h100, nodes: 1}").set("training.parallelism={tp: 2}")
    >>> [one.name for one in compare({"two": job, "four": job.set("training.parallelism.tp=4")}).candidates]
    ['two', 'four']
    """
    from simcluster.errors import UsageError
    from simcluster.study import compare as compare_named

    found = [pair for design in designs for pair in _named(design)]
    if len(found) < 2:
        raise UsageError(f"compare needs two designs or more, got {len(found)}")
    seen: Counter[str] = Counter()
    named = []
    for name, loaded in found:
        seen[name] += 1
        named.append((f"{name} ({seen[name]})" if seen[name] > 1 else name, loaded))
    return compare_named(named, catalogue, seed)


def _named(design: Any) -> Iterator[tuple[str, Loaded]]:
    """Scenarios with their names, of whatever stands for some."""
    from simcluster.scenario import Loaded, LoadedStudy, load_study

    if isinstance(design, Loaded):
        yield design.name, design
    elif isinstance(design, LoadedStudy):
        yield from design.candidates
    elif isinstance(design, Mapping):
        yield from design.items()
    elif (
        isinstance(design, tuple) and len(design) == 2 and isinstance(design[1], Loaded) and isinstance(design[0], str)
    ):
        yield design[0], design[1]
    elif isinstance(design, (list, tuple)):
        for one in design:
            yield from _named(one)
    else:
        yield from load_study(design).candidates


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
