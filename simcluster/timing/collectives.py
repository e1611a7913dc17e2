"""Time of a collective or a message: the fastest of the algorithms and protocols that the paths allow.

Two regimes come out of it: low-latency protocols (LL, LL128) for small buffers and whole chunks (Simple) for large
ones. `simcluster.timing.collective_lines` has the formulas, a `CollectiveProfile` the parameters and the evidence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from simcluster.errors import InputError, Problem
from simcluster.shapes import CollectiveKind, Estimate, GroupShape, NetworkRates, Num
from simcluster.timing.collective_evidence import Standing, fabric_path, scale_up_path, stand
from simcluster.timing.collective_lines import Line, candidate_lines, span_of
from simcluster.timing.collective_profile import CollectiveProfile

SMALL_BYTES = 1 << 20  # below it an estimate carries the sigma of the latency regime


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything about a group that does not depend on the size of the buffer."""

    lines: tuple[Line, ...]
    alpha_s: NDArray[np.float64]  # axis: line
    beta_s_per_byte: NDArray[np.float64]  # axis: line
    standing: Standing


def collective_time(
    profile: CollectiveProfile,
    network: NetworkRates,
    kind: CollectiveKind,
    bytes: Num,
    group: GroupShape,
    *,
    algorithm: str | None = None,
) -> Estimate:
    """Seconds of one collective on every rank of `group`, alone on its links but for the group's sharers.

    Parameters
    ----------
    profile : CollectiveProfile
        Parameters of the paths, see `load_collective_profile`.
    network : NetworkRates
        Line rates of the scale-up link and the cards.
    kind : str
        all_reduce, all_gather, reduce_scatter, alltoall, broadcast or sendrecv.
    bytes : float or array [B]
        Any shape, >= 0, counted as nccl-tests do: the full buffer (gathered output of an all-gather, input of a
        reduce-scatter), a rank's send buffer for alltoall, the message for sendrecv.
    group : GroupShape
        ranks >= 1, domains in 1..ranks, sharers >= 1.
    algorithm : str, optional
        ring, tree, nvls, nvls-tree or (as "ring/ll") one protocol of it; None takes the fastest.

    Returns
    -------
    Estimate of the shape of `bytes`; grade A when this collective was logged on this GPU and fabric at such a size
    of group, B between logs, C for extrapolation or a fabric that stands in, D for a prior. 0 for one rank or 0 bytes.

    Raises InputError for an impossible group, or an algorithm that this path does not have.

    >>> from simcluster.timing.collective_profile import load_collective_profile
    >>> dgx = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "ib-ndr-400", "ib", 50e9, 8)
    >>> profile = load_collective_profile()
    >>> estimate = collective_time(profile, dgx, "all_reduce", 1e9, GroupShape(ranks=64, domains=8))
    >>> 300e9 < 2 * 63 / 64 * 1e9 / estimate.seconds < 390e9  # busbw; the cards' line rate is 400e9
    True
    """
    plan = collective_plan(profile, network, kind, group, algorithm)
    standing = plan.standing
    if isinstance(bytes, (int, float)):
        return _scalar(plan, float(bytes))
    size = np.asarray(bytes, dtype=np.float64)
    if size.size and not size.min() >= 0:
        raise InputError(Problem("a collective of a negative number of bytes", "sizes are >= 0"))
    if not plan.lines:
        return Estimate(np.zeros(size.shape), standing.grade, np.zeros(size.shape), np.full(size.shape, "latency"))
    wire = size[..., None] * plan.beta_s_per_byte
    seconds = wire + plan.alpha_s
    best = np.argmin(seconds, axis=-1)
    chosen = np.take_along_axis(seconds, best[..., None], -1)[..., 0]
    bound = np.where(chosen > 2 * plan.alpha_s[best], "bandwidth", "latency")
    sigma = np.where(size < SMALL_BYTES, standing.sigma_small, standing.sigma_large)
    return Estimate(np.where(size > 0, chosen, 0.0), standing.grade, sigma, bound)


def _scalar(plan: Plan, size: float) -> Estimate:
    """The same for one size, without numpy."""
    standing = plan.standing
    if not size >= 0:
        raise InputError(Problem("a collective of a negative number of bytes", "sizes are >= 0"))
    if not plan.lines or size == 0:
        return Estimate(0.0, standing.grade, 0.0 if not plan.lines else standing.sigma_small, "latency")
    seconds, alpha = min((line.alpha_s + line.beta_s_per_byte * size, line.alpha_s) for line in plan.lines)
    sigma = standing.sigma_small if size < SMALL_BYTES else standing.sigma_large
    return Estimate(seconds, standing.grade, sigma, "bandwidth" if seconds > 2 * alpha else "latency")


@lru_cache(maxsize=1 << 16)
def collective_plan(
    profile: CollectiveProfile,
    network: NetworkRates,
    kind: CollectiveKind,
    group: GroupShape,
    algorithm: str | None = None,
) -> Plan:
    """The lines that compete for a group, with the grade and sigma of their evidence; remembered."""
    problems = _check(network, kind, group)
    if problems:
        raise InputError(problems)
    standing = stand(profile, network, kind, group)
    if group.ranks == 1:
        return Plan((), np.zeros(0), np.zeros(0), standing)
    fabric = fabric_path(profile, network) if group.domains > 1 else None
    span = span_of(network, group, kind, scale_up_path(profile, network), fabric)
    lines = tuple(_select(candidate_lines(kind, span), algorithm, kind, network))
    alpha = np.array([line.alpha_s for line in lines])
    beta = np.array([line.beta_s_per_byte for line in lines])
    return Plan(lines, alpha, beta, standing)


def _select(lines: list[Line], algorithm: str | None, kind: str, network: NetworkRates) -> list[Line]:
    """The lines of one algorithm, or all."""
    if algorithm is None:
        return lines
    name, _, protocol = algorithm.partition("/")
    chosen = [line for line in lines if line.algorithm == name and protocol in ("", line.protocol)]
    if not chosen:
        has = ", ".join(dict.fromkeys(line.algorithm for line in lines))
        where = f"{kind} on {network.scale_up} and {network.fabric}"
        raise InputError(Problem(f"algorithm {algorithm!r} does not exist for {where}", f"use one of {has}"))
    return chosen


def _check(network: NetworkRates, kind: Any, group: GroupShape) -> list[Problem]:
    """What makes a group impossible."""
    problems = []
    if kind not in get_args(CollectiveKind):
        problems.append(Problem(f"no collective {kind!r}", "use one of " + ", ".join(get_args(CollectiveKind))))
    if group.ranks < 1 or group.sharers < 1:
        problems.append(Problem(f"a group of {group.ranks} ranks, {group.sharers} sharers", "both are at least 1"))
    if not 1 <= group.domains <= max(group.ranks, 1):
        problems.append(Problem(f"{group.ranks} ranks over {group.domains} domains", "domains lie in 1..ranks"))
    if group.domains > 1 and not (network.nic_bytes_per_s > 0 and network.nics_per_node > 0):
        advice = "give the cluster a fabric, or keep the group in one domain"
        problems.append(Problem(f"a group over {group.domains} domains on fabric {network.fabric!r}", advice))
    if group.domains < group.ranks and not network.scale_up_bytes_per_s > 0:
        problems.append(Problem(f"{network.gpu} has no scale-up rate", "give the node's GPU link"))
    return problems
