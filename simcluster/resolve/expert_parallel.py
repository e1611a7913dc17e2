"""Settles expert parallelism and the groups that it needs."""

from __future__ import annotations

from math import comb, gcd

from simcluster.parallel.mesh import group_shape
from simcluster.resolve.trail import Trail
from simcluster.scenario.findings import LAYOUT
from simcluster.scenario.training import Parallelism, Training
from simcluster.shapes import Architecture, GroupShape
from simcluster.timing.software import SoftwareFamily

DEDUPLICATING = ("deepep", "hybridep")


def expert_degrees(
    plan: Parallelism, arch: Architecture, dp: int, family: SoftwareFamily, trail: Trail
) -> tuple[int, int]:
    """(ep, etp); what is absent is settled as the software does. Notes what cannot be."""
    if not arch.experts:
        if plan.ep is not None and plan.ep > 1:
            trail.problem(f"{LAYOUT}.ep", f"{arch.name} has no experts", "set ep: 1")
        if plan.etp is not None and plan.etp not in (1, plan.tp):
            trail.problem(f"{LAYOUT}.etp", f"{arch.name} has no experts", "leave it out")
        return 1, 1
    ranks = plan.tp * plan.cp * dp
    ep = _expert_ranks(plan, arch, ranks, family, trail)
    etp = _expert_tensor_ranks(plan, ep, ranks, trail)
    if arch.experts % ep:
        trail.problem(f"{LAYOUT}.ep", f"{ep} does not divide {arch.experts} experts", "use a divisor of the experts")
    if ranks % (ep * etp):
        factors = f"tp {plan.tp} x cp {plan.cp} x dp {dp} = {ranks} ranks of a stage"
        message = f"ep {ep} x etp {etp} does not divide {factors}"
        trail.problem(f"{LAYOUT}.ep", message, f"use an ep that divides {ranks // etp}")
    _check_dispatch(plan, ep, etp, ranks, trail)
    return ep, etp


def _expert_ranks(plan: Parallelism, arch: Architecture, ranks: int, family: SoftwareFamily, trail: Trail) -> int:
    """As stated, else one, or as many as the ranks of a stage and the experts share."""
    if plan.ep is not None:
        return plan.ep
    ep = gcd(arch.experts, max(1, ranks // (plan.etp or 1))) if family.default_ep == "all" else 1
    trail.assume(f"{LAYOUT}.ep", ep, f"not stated: {family.default_ep}, as {family.id} does")
    return ep


def _expert_tensor_ranks(plan: Parallelism, ep: int, ranks: int, trail: Trail) -> int:
    """As stated, else tp where the ranks of a stage hold it, else 1."""
    if plan.etp is not None:
        return plan.etp
    etp = plan.tp if ranks % (ep * plan.tp) == 0 else 1
    if plan.tp > 1:
        trail.assume(f"{LAYOUT}.etp", etp, "not stated: tp, or 1 where the ranks of a stage cannot hold it")
    return etp


def _check_dispatch(plan: Parallelism, ep: int, etp: int, ranks: int, trail: Trail) -> None:
    """Ranks of a tp group that hold the same tokens and other experts need sequence parallelism, if it is ruled out."""
    if plan.sequence_parallel is not False or etp >= plan.tp:
        return
    message = f"false with tp {plan.tp} and etp {etp}: all ranks of a tp group would dispatch the same tokens"
    fits = f", or etp: {plan.tp}" if ranks % (ep * plan.tp) == 0 else ""
    trail.problem(f"{LAYOUT}.sequence_parallel", message, f"set it true{fits}")


def expert_imbalance(training: Training, arch: Architecture, ep: int, trail: Trail) -> float:
    """Tokens of the busiest expert rank over the mean; 1 where no exchange spreads them."""
    path, stated = "training.expert_imbalance", training.expert_imbalance
    if ep == 1:
        if stated is not None and stated > 1:
            why = f"ep is 1 and {arch.name} has experts" if arch.experts else f"{arch.name} has no experts"
            trail.problem(path, f"{stated:g}, but {why}", "leave it out: one rank holds all experts")
        return 1.0
    if stated is None:
        trail.assume(path, 1.0, "not stated: routing is balanced")
        return 1.0
    if stated > ep:
        trail.problem(path, f"{stated:g} is more than ep {ep}", f"1 (balanced) to {ep} (all tokens on one rank)")
    return stated


def expert_copies(arch: Architecture, family: SoftwareFamily, group: GroupShape, ep: int) -> float:
    """Bytes that cross between nodes over those of one copy for each chosen expert.

    A dispatcher that sends each token once to a node, and spreads it there, moves as many copies as there are distinct
    other nodes among its experts: E[nodes] - 1/N of them, with N nodes, against top_k (1 - 1/N).

    >>> from simcluster.timing.software import SoftwareFamily
    >>> deepseek = Architecture("d", 1, 64, 4, 4, 16, 256, 100, experts=256, top_k=8)
    >>> family = SoftwareFamily("x", dispatcher="deepep")
    >>> round(expert_copies(deepseek, family, GroupShape(64, 8, 1), 64) * 8, 4)
    5.2947
    """
    nodes = group.domains
    if family.dispatcher not in DEDUPLICATING or nodes == 1 or ep == 1:
        return 1.0
    held = arch.experts // nodes
    distinct = nodes * (1.0 - comb(arch.experts - held, arch.top_k) / comb(arch.experts, arch.top_k))
    return (distinct - distinct / nodes) / (arch.top_k * (1.0 - 1.0 / nodes))


def expert_groups(ep: int, etp: int, world: int, domain: int, node: int) -> dict[str, GroupShape]:
    """Shapes of the ep and etp groups; etp varies fastest, as tp does in the dense mesh."""
    return {"ep": group_shape(ep, etp, world, domain, node), "etp": group_shape(etp, 1, world, domain, node)}
