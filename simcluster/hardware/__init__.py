"""Hardware: the catalogue with the source of every value, and clusters made of it."""

from __future__ import annotations

from simcluster.hardware.catalogue import Catalogue
from simcluster.hardware.check import check_catalogue
from simcluster.hardware.cluster import Cluster, cluster_from
from simcluster.hardware.entry import Entry
from simcluster.hardware.gpu import GpuSpec
from simcluster.hardware.network import FabricSpec
from simcluster.hardware.node import NodeSpec
from simcluster.hardware.quantity import Quantity

__all__ = [
    "Catalogue",
    "Cluster",
    "Entry",
    "FabricSpec",
    "GpuSpec",
    "NodeSpec",
    "Quantity",
    "check_catalogue",
    "cluster_from",
]
