"""The user's words: scenarios, studies, what-ifs and changes, validated, with the origin of every value."""

from __future__ import annotations

from simcluster.scenario.architecture import InlineArchitecture
from simcluster.scenario.cluster import Background, Cluster, FabricSpec, Nics, NodeSpec, Oversubscription
from simcluster.scenario.dump import digest, from_dict, to_dict
from simcluster.scenario.loading import (
    Loaded,
    apply_changes,
    apply_sets,
    apply_what_if,
    load,
    load_mapping,
    load_text,
)
from simcluster.scenario.money import Acquire, Facility, Own, PurchasePrice, Rent, RentPrice, Use
from simcluster.scenario.operations import Checkpoint, Failures, Operations, Storage, StorageSystem, Stragglers
from simcluster.scenario.scenario import Scenario
from simcluster.scenario.studies import (
    LoadedStudy,
    apply_candidate,
    inline_candidate,
    is_candidate,
    load_study,
    load_study_text,
    parse_candidate,
)
from simcluster.scenario.suggest import closest, did_you_mean
from simcluster.scenario.training import (
    BatchTokens,
    Parallelism,
    RecomputeModules,
    Sharding,
    Software,
    StageSpec,
    Training,
    parse_compression,
)
from simcluster.scenario.tree import Origin

__all__ = [
    "Acquire",
    "Background",
    "BatchTokens",
    "Checkpoint",
    "Cluster",
    "FabricSpec",
    "Facility",
    "Failures",
    "InlineArchitecture",
    "Loaded",
    "LoadedStudy",
    "Nics",
    "NodeSpec",
    "Operations",
    "Origin",
    "Oversubscription",
    "Own",
    "Parallelism",
    "PurchasePrice",
    "RecomputeModules",
    "Rent",
    "RentPrice",
    "Scenario",
    "Sharding",
    "Software",
    "StageSpec",
    "Storage",
    "StorageSystem",
    "Stragglers",
    "Training",
    "Use",
    "apply_candidate",
    "apply_changes",
    "apply_sets",
    "apply_what_if",
    "closest",
    "did_you_mean",
    "digest",
    "from_dict",
    "inline_candidate",
    "is_candidate",
    "load",
    "load_mapping",
    "load_study",
    "load_study_text",
    "load_text",
    "parse_candidate",
    "parse_compression",
    "to_dict",
]
