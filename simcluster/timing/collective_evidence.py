"""How well a collective's time is known: which records serve a path, and what their logs showed.

Nothing is borrowed silently. A link or fabric without a record of its own is served by the reference of its protocol,
scaled by line rate, and the estimate is graded C (same protocol) or D (another one).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from simcluster.errors import InputError, Problem
from simcluster.shapes import GroupShape, NetworkRates
from simcluster.timing.collective_profile import CollectiveProfile, Evidence, FabricPath, ScaleUpPath

A, B, C, D = range(4)
_FLOOR = {A: 0.03, B: 0.06, C: 0.15, D: 0.35}  # least sigma by grade: logs of one cluster do not span all clusters
_UNKNOWN = {A: 0.15, B: 0.2, C: 0.25, D: 0.5}  # sigma without any log to read it from
# Boxes of PCIe cards differ by bridges, sockets, and whether peers may talk: eight cards reach 1.4 GB/s in the one
# logged machine (ai-dynamo/aiconfigurator, L40S) and 24 GB/s in the maker's chart; about a quarter of that range in ln.
_BRIDGED_SIGMA = 0.8


@dataclass(frozen=True, slots=True)
class Standing:
    """Grade and sigma of one (network, collective, group); `stand_in` names a record of another path."""

    grade: int
    sigma_small: float
    sigma_large: float
    stand_in: str = ""


def scale_up_path(profile: CollectiveProfile, network: NetworkRates) -> ScaleUpPath:
    """Record of the scale-up link: its own, else the newest of its family (nvlink, pcie, xgmi), else nvlink's."""
    own = profile.scale_up.get(network.scale_up)
    if own is not None:
        return own
    family = _family(network.scale_up)
    for wanted in (family, "nvlink"):
        members = [path for name, path in sorted(profile.scale_up.items()) if _family(name) == wanted]
        if members:
            rate = network.scale_up_bytes_per_s or 1.0
            return min(members, key=lambda path: (abs(math.log(path.line_bytes_per_s / rate)), -path.source.points))
    raise InputError(Problem(f"the collective profile has no scale-up link like {network.scale_up!r}", "calibrate it"))


def fabric_path(profile: CollectiveProfile, network: NetworkRates) -> FabricPath:
    """Record of the fabric: its own, else the reference of its protocol, else InfiniBand's."""
    own = profile.fabrics.get(network.fabric)
    if own is not None:
        return own
    name = profile.reference.get(network.protocol) or profile.reference.get("ib")
    if name is None:
        raise InputError(Problem(f"the collective profile has no fabric like {network.fabric!r}", "calibrate it"))
    return profile.fabrics[name]


def stand(profile: CollectiveProfile, network: NetworkRates, kind: str, group: GroupShape) -> Standing:
    """Grade and sigma from the logs nearest to the case.

    >>> from simcluster.timing.collective_profile import load_collective_profile
    >>> dgx = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "ib-ndr-400", "ib", 50e9, 8)
    >>> stand(load_collective_profile(), dgx, "all_reduce", GroupShape(64, 8)).grade
    0
    """
    if group.ranks == 1:
        return Standing(A, 0.0, 0.0)
    fabric = network.fabric if group.domains > 1 else "none"
    own = profile.evidence.get((network.gpu, fabric, kind))
    grade, stand_in = _path_grade(profile, network, group, own is not None)
    logs = [own] if own is not None else _others(profile, network, fabric, kind)
    grade = max(grade, _log_grade(own, logs, group), _terms_grade(profile, network, group))
    small = _sigma([log.sigma_small for log in logs], grade)
    large = _sigma([log.sigma_large for log in logs], grade)
    if own is None and group.domains < group.ranks and _family(network.scale_up) == "pcie":
        return Standing(max(grade, C), max(small, _BRIDGED_SIGMA), max(large, _BRIDGED_SIGMA), stand_in)
    return Standing(grade, small, large, stand_in)


def _family(link: str) -> str:
    return link.rstrip("0123456789").split("-")[0].rstrip("0123456789")


def _path_grade(profile: CollectiveProfile, network: NetworkRates, group: GroupShape, logged: bool) -> tuple[int, str]:
    """What using another record costs; a record made from its `like` without logs counts as one."""
    grade, names = A, []
    if group.domains < group.ranks and not logged:
        up = scale_up_path(profile, network)
        if up.id != network.scale_up or not up.source.logs:
            grade = C if _family(up.id) == _family(network.scale_up) else D
            names.append(up.id)
    if group.domains > 1:
        fabric = fabric_path(profile, network)
        if fabric.id != network.fabric or not fabric.source.logs:
            grade = max(grade, C if fabric.protocol == network.protocol else D)
            names.append(fabric.id)
    return grade, ", ".join(names)


def _others(profile: CollectiveProfile, network: NetworkRates, fabric: str, kind: str) -> list[Evidence]:
    """Logs of the same collective on other GPUs: same fabric, or same scale-up link in one domain."""
    same = [log for log in profile.evidence.values() if log.kind == kind and log.fabric == fabric]
    return [log for log in same if fabric != "none" or log.scale_up == network.scale_up]


def _log_grade(own: Evidence | None, logs: list[Evidence], group: GroupShape) -> int:
    """A inside the logged sizes of group, B near them or on another GPU of the path, C beyond or without a log."""
    if not logs:
        return C
    ranks = min(log.ranks[0] for log in logs), max(log.ranks[1] for log in logs)
    domains = min(log.domains[0] for log in logs), max(log.domains[1] for log in logs)
    if ranks[0] <= group.ranks <= ranks[1] and domains[0] <= group.domains <= domains[1]:
        return A if own is not None else B
    return C if group.domains > 2 * domains[1] or group.ranks > 4 * ranks[1] else B


def _terms_grade(profile: CollectiveProfile, network: NetworkRates, group: GroupShape) -> int:
    """Terms that no log tests: shared cards, other cards than the logged ones, oversubscription."""
    if group.domains == 1:
        return A
    if network.oversubscription > 1:
        return C
    logged = fabric_path(profile, network).nic_bytes_per_s
    return B if group.sharers > 1 or not 0.95 < network.nic_bytes_per_s / logged < 1.05 else A


def _sigma(values: list[float], grade: int) -> float:
    known = [value for value in values if not math.isnan(value)]
    return max(max(known) if known else _UNKNOWN[grade], _FLOOR[grade])
