"""Switches and cables of a folded Clos network (fat tree) of one to three tiers, in closed form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

from simcluster.errors import InputError, Problem

MOST_TIERS = 3


@dataclass(frozen=True, slots=True)
class ClosCounts:
    """Switches of each tier and the cables below each tier, for the cards' line rate; 0 above the top tier."""

    leaf: int = 0
    spine: int = 0
    core: int = 0
    cables_node_leaf: int = 0
    cables_leaf_spine: int = 0
    cables_spine_core: int = 0

    @property
    def switches(self) -> tuple[int, int, int]:
        """Leaf, spine, core."""
        return self.leaf, self.spine, self.core

    @property
    def cables(self) -> tuple[int, int, int]:
        """Cables below leaf, spine and core."""
        return self.cables_node_leaf, self.cables_leaf_spine, self.cables_spine_core


def clos_counts(
    nodes: int,
    nics: int,
    radix: int,
    *,
    tiers: int = 0,
    rails: bool = True,
    oversubscription: Mapping[str, float] | None = None,
) -> ClosCounts:
    """Switches and cables that join `nodes` nodes of `nics` cards with switches of `radix` ports.

    With rails, card i of every node goes to leaf switches of rail i; nodes that do not fill them share leaves between
    rails. Every
    leaf switch is fully wired upwards and reaches each spine switch of its group with the same number of cables, so
    the spines of a group are a divisor of a leaf's uplinks; with three tiers, a group holds at most as many leaf
    switches of a rail as a spine switch has ports downwards. These rules give the switch tables of NVIDIA's DGX
    SuperPOD reference architectures (A100, H100, B200, B300).

    nodes, nics       [count] >= 1
    radix             [count] ports of a switch at the cards' rate, >= 2
    tiers             [count] wanted; 0 or too few: as few as join all cards (one tier joins rails only when wanted)
    oversubscription  ports towards the hosts over ports upwards, by tier ("leaf", "spine"); absent is 1

    Raises InputError if three tiers cannot hold the cluster.

    >>> clos_counts(512, 8, 64).switches, clos_counts(128, 8, 64).switches, clos_counts(4, 8, 64).switches
    ((128, 128, 64), (32, 16, 0), (1, 0, 0))
    """
    ratios = oversubscription or {}
    cards = nodes * nics
    if tiers <= 1 and cards <= radix:
        return ClosCounts(leaf=1, cables_node_leaf=cards)
    if tiers == 1 and rails and nodes <= radix:
        return ClosCounts(leaf=ceil(nics / (radix // nodes)), cables_node_leaf=cards)
    leaf = _split(radix, ratios.get("leaf", 1.0))
    leaves, groups = _leaves(nodes, nics, leaf.down, rails)
    if tiers != MOST_TIERS and leaves <= radix:
        cables = leaves * leaf.up
        spines = _even(leaf.up, cables / radix)
        return ClosCounts(leaves, spines, 0, cards, cables)
    return _three_tiers(cards, leaves, groups, leaf, _split(radix, ratios.get("spine", 1.0)), radix)


@dataclass(frozen=True, slots=True)
class _Ports:
    down: int
    up: int


def _split(radix: int, ratio: float) -> _Ports:
    """Ports down and up of a switch, so that down / up is at most the ratio."""
    down = max(1, int(radix * ratio / (1.0 + ratio) + 1e-9))
    return _Ports(down, max(1, ceil(down / ratio - 1e-9)))


def _leaves(nodes: int, nics: int, down: int, rails: bool) -> tuple[int, int]:
    """Leaf switches, and groups of them that share no cards: one a rail where rails fill switches, else one."""
    if not rails:
        return ceil(nodes * nics / down), 1
    full, rest = divmod(nodes, down)
    shared = ceil(nics / (down // rest)) if rest else 0
    return nics * full + shared, nics if full else 1


def _even(uplinks: int, least: float) -> int:
    """Smallest divisor of a leaf switch's uplinks that is not below `least` switches."""
    return next(count for count in range(max(1, ceil(least - 1e-9)), uplinks + 1) if uplinks % count == 0)


def _three_tiers(cards: int, leaves: int, groups: int, leaf: _Ports, spine: _Ports, radix: int) -> ClosCounts:
    in_group = ceil(leaves / groups)
    pods = ceil(in_group / spine.down)
    wide = ceil(in_group / pods)
    each = _even(leaf.up, wide * leaf.up / spine.down)
    spines = groups * pods * each
    links_down = wide * leaf.up // each
    links_up = ceil(links_down * spine.up / spine.down - 1e-9)
    cables = spines * links_up
    if groups * pods > radix:
        message = f"cluster.fabric: three tiers of switches with {radix} ports cannot join {cards} cards"
        raise InputError(Problem(message, "name a switch with more ports, or drop tiers and oversubscribe less"))
    return ClosCounts(leaves, spines, ceil(cables / radix), cards, leaves * leaf.up, cables)
