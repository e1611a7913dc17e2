"""The mesh of ranks, and where each group of it lies on the machine.

Axis order is Megatron's default: tp varies fastest, then cp, dp, pp. Ranks are numbered along it and placed on GPUs in
order, so a group along an axis has a stride (the product of faster axes) and a length.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from simcluster.shapes import GroupShape

AXES = ("tp", "cp", "dp", "pp")


@dataclass(frozen=True, slots=True)
class Mesh:
    """Degrees of parallelism; the world is their product.

    >>> mesh = Mesh(tp=8, pp=4, dp=16)
    >>> mesh.world, mesh.stride("dp")
    (512, 8)
    """

    tp: int = 1
    cp: int = 1
    dp: int = 1
    pp: int = 1

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.tp * self.cp * self.dp * self.pp

    def degree(self, axis: str) -> int:
        """Length of one axis."""
        return int(getattr(self, axis))

    def stride(self, axis: str) -> int:
        """Distance in ranks between neighbours along an axis."""
        stride = 1
        for faster in AXES[: AXES.index(axis)]:
            stride *= self.degree(faster)
        return stride


def group_shape(ranks: int, stride: int, world: int, domain_gpus: int, node_gpus: int) -> GroupShape:
    """Shape of the groups of `ranks` members, `stride` ranks apart, on domains of `domain_gpus` GPUs.

    A group that fits in a domain never uses the fabric. Otherwise `sharers` counts the groups of the same kind that
    use a node's network cards at the same time: the GPUs of a node divided by those that one group has there.

    >>> group_shape(16, 8, 512, 8, 8)          # dp over tp=8: one rank a node, eight groups share its cards
    GroupShape(ranks=16, domains=16, sharers=8)
    >>> group_shape(8, 1, 512, 8, 8)           # tp inside the node
    GroupShape(ranks=8, domains=1, sharers=1)
    >>> group_shape(64, 2, 128, 8, 8)          # dp over tp=2: four ranks a node, two groups share its cards
    GroupShape(ranks=64, domains=16, sharers=2)
    """
    if ranks <= 1:
        return GroupShape(1, 1, 1)
    domains = min(ranks, _domains(ranks * stride, world, domain_gpus, node_gpus))
    if domains == 1:
        return GroupShape(ranks, 1, 1)
    members_in_node = max(1, min(ranks, node_gpus // stride)) if stride < node_gpus else 1
    gpus_in_use = min(node_gpus, world)
    return GroupShape(ranks, domains, max(1, gpus_in_use // members_in_node))


def _domains(span: int, world: int, domain_gpus: int, node_gpus: int) -> int:
    """Domains that the worst placed block of `span` neighbouring ranks touches.

    Blocks follow each other without a gap, so on nodes that they do not divide some straddle. A larger domain is taken
    to leave nodes idle instead, so that blocks start with it.

    >>> _domains(6, 24, 8, 8), _domains(6, 6, 8, 8), _domains(64, 256, 72, 4)
    (2, 1, 1)
    """
    start = domain_gpus - gcd(span, domain_gpus) if world > span and domain_gpus <= node_gpus else 0
    return max(1, -(-(span + start) // domain_gpus))


def axis_group(mesh: Mesh, axis: str, domain_gpus: int, node_gpus: int) -> GroupShape:
    """Shape of the groups along one axis of a mesh.

    >>> axis_group(Mesh(tp=8, pp=4, dp=16), "dp", 8, 8).domains
    16
    """
    return group_shape(mesh.degree(axis), mesh.stride(axis), mesh.world, domain_gpus, node_gpus)


def joined_group(mesh: Mesh, axes: tuple[str, str], domain_gpus: int, node_gpus: int) -> GroupShape:
    """Shape of the groups over two neighbouring axes (such as cp and dp together, over which gradients are reduced).

    >>> joined_group(Mesh(tp=2, cp=2, dp=4), ("cp", "dp"), 8, 8)
    GroupShape(ranks=8, domains=2, sharers=2)
    """
    ranks = mesh.degree(axes[0]) * mesh.degree(axes[1])
    return group_shape(ranks, mesh.stride(axes[0]), mesh.world, domain_gpus, node_gpus)


def stage_pair(mesh: Mesh, stage: int, neighbour: int, domain_gpus: int, node_gpus: int) -> GroupShape:
    """Shape of a message between two pipeline stages.

    Stages in one domain talk over the scale-up link; otherwise all GPUs of a node send at the same time, each to its
    peer, and share the node's cards.

    >>> stage_pair(Mesh(tp=8, pp=4, dp=16), 0, 1, 8, 8)
    GroupShape(ranks=2, domains=2, sharers=8)
    >>> stage_pair(Mesh(tp=2, pp=4), 0, 1, 8, 8)
    GroupShape(ranks=2, domains=1, sharers=1)
    """
    if stage == neighbour:
        return GroupShape(1, 1, 1)
    stride = mesh.stride("pp")
    low, high = min(stage, neighbour), max(stage, neighbour)
    if low * stride // domain_gpus == ((high + 1) * stride - 1) // domain_gpus:
        return GroupShape(2, 1, 1)
    return GroupShape(2, 2, min(node_gpus, mesh.world))
