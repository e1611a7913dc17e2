"""The whole scenario."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from simcluster.scenario.architecture import InlineArchitecture
from simcluster.scenario.cluster import Cluster
from simcluster.scenario.fields import MAPPING, WORD, ByShape, Name, Part
from simcluster.scenario.money import Acquire, Facility, Use
from simcluster.scenario.operations import Operations
from simcluster.scenario.training import Training

if TYPE_CHECKING:
    from simcluster.scenario.loading import Loaded


class Scenario(Part):
    """One job on one cluster, as the user stated it; `model`: a catalogue name, path of a config.json, or inline."""

    name: Name = "unnamed"
    model: Annotated[Annotated[Name, WORD] | Annotated[InlineArchitecture, MAPPING], ByShape]
    cluster: Cluster
    training: Training = Training()
    operations: Operations = Operations()
    acquire: Acquire | None = None
    use: Use = Use()
    facility: Facility = Facility()

    @classmethod
    def load(cls, path: str | Path) -> Loaded:
        """A file's scenario, with where each value came from and `what_if`; the same as `simcluster.load`."""
        from simcluster.scenario.loading import load

        return load(path)
