"""Designs in whatever form they are at hand, compared: what Python code and notebooks call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from simcluster.errors import UsageError
from simcluster.hardware.catalogue import Catalogue
from simcluster.scenario import Loaded, LoadedStudy, load_study
from simcluster.study.comparison import Comparison
from simcluster.study.comparison import compare as compare_named
from simcluster.study.naming import unique


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
    found = [pair for design in designs for pair in _named(design)]
    if len(found) < 2:
        raise UsageError(f"compare needs two designs or more, got {len(found)}")
    return compare_named(unique(found), catalogue, seed)


def _named(design: Any) -> Iterator[tuple[str, Loaded]]:
    """Scenarios with their names, of whatever stands for some."""
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
