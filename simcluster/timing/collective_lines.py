"""Each algorithm and protocol of a collective as one line, seconds = alpha + beta*bytes.

The forms follow NVIDIA/nccl's tuner (`src/graph/tuning.cc`: base latency, steps times hop latency, log2(nodes) levels
of a double binary tree) and Thakur, Rabenseifner, Gropp 2005 ("Optimization of Collective Communication Operations in
MPICH"); their parameters come from a profile. S is the full buffer, n the ranks, N the domains, r = n/N. "Wire bytes"
are what a link really carries: LL sends a flag with each payload word, so its payload is half of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from simcluster.shapes import GroupShape, NetworkRates
from simcluster.timing.collective_profile import PAYLOAD, PROTOCOLS, FabricPath, ScaleUpPath


@dataclass(frozen=True, slots=True)
class Line:
    """One algorithm with one protocol: `alpha_s` + `beta_s_per_byte` * S."""

    algorithm: str
    protocol: str
    alpha_s: float
    beta_s_per_byte: float


@dataclass(frozen=True, slots=True)
class Span:
    """A group on its paths: what every formula below needs.

    up_bytes_per_s     line rate of the scale-up link of one GPU
    nics_bytes_per_s   line rate of the cards that the group has in each domain, after sharing and oversubscription
    """

    ranks: int
    domains: int
    up: ScaleUpPath
    up_bytes_per_s: float
    fabric: FabricPath | None = None
    nics_bytes_per_s: float = math.inf

    @property
    def local(self) -> float:
        """Ranks per domain."""
        return self.ranks / self.domains


def group_nic_bytes_per_s(network: NetworkRates, group: GroupShape, limit_bytes_per_s: float = 0.0) -> float:
    """Line rate of the network cards that one group has in each of its domains, one direction [B/s].

    A rank drives the cards next to it (at least one); groups that share a node's cards split them; the worst tier's
    oversubscription divides the rest, which is what a placement that ignores the leaves gets. `limit_bytes_per_s`
    caps a card (sockets). A domain of several nodes (NVL72) has the cards of all the nodes that the group touches.

    >>> dgx = NetworkRates("h100-80gb-sxm", "nvlink4", 450e9, 8, 8, "ib-ndr-400", "ib", 50e9, 8)
    >>> group_nic_bytes_per_s(dgx, GroupShape(ranks=64, domains=8)) / 1e9
    400.0
    >>> group_nic_bytes_per_s(dgx, GroupShape(ranks=8, domains=8, sharers=8)) / 1e9
    50.0
    """
    local = group.ranks / group.domains
    nodes_per_domain = max(1.0, network.domain_gpus / network.gpus_per_node)
    nodes = min(max(local * group.sharers / network.gpus_per_node, 1.0), nodes_per_domain)
    beside_a_gpu = max(1.0, network.nics_per_node / network.gpus_per_node)
    cards = min(nodes * network.nics_per_node / group.sharers, local * beside_a_gpu)
    rate = min(network.nic_bytes_per_s, limit_bytes_per_s or math.inf)
    return cards * rate / max(network.oversubscription, 1.0)


def span_of(network: NetworkRates, group: GroupShape, kind: str, up: ScaleUpPath, fabric: FabricPath | None) -> Span:
    """The group on its records; `fabric` is ignored in one domain, and one pair of a message has one GPU's cards."""
    if group.domains == 1 or fabric is None:
        return Span(group.ranks, group.domains, up, network.scale_up_bytes_per_s)
    lot = GroupShape(2, 2, group.sharers) if kind == "sendrecv" else group
    nics = group_nic_bytes_per_s(network, lot, fabric.nic_limit_bytes_per_s)
    if up.boundary_bytes_per_s and group.ranks > group.domains and kind not in ("alltoall", "sendrecv"):
        nics = min(nics, up.boundary_bytes_per_s)
    return Span(group.ranks, group.domains, up, network.scale_up_bytes_per_s, fabric, nics)


def candidate_lines(kind: str, span: Span) -> list[Line]:
    """All algorithms and protocols that compete for a collective."""
    return _LINES[kind](span)


def ring_lines(span: Span, passes: int, copies: bool = True) -> list[Line]:
    """Ring: all-gather and reduce-scatter take one pass of n-1 steps, all-reduce two.

    alpha = base + passes*((n-N)*hop_in + (N-1)*hop_out); beta = passes*((1-1/n)/B + (1/n)/B_copy), where B is the
    slower of the scale-up link and the cards, and B_copy the local copy of a rank's own shard. A broadcast
    (`copies` False) streams all S through every link.
    """
    n, up = span.ranks, span.up
    copy = up.ring_copy * span.up_bytes_per_s
    lines = []
    for index, protocol in enumerate(PROTOCOLS):
        steps_in, steps_out = n - span.domains, span.domains - 1
        inside = up.ring_efficiency[index] * (2.0 / n) ** up.crowding if span.local > 1 else math.inf
        beta = 1 / (span.up_bytes_per_s * inside * PAYLOAD[index])
        alpha = up.ring_base_s[index] if span.fabric is None else span.fabric.ring_base_s[index]
        hops = steps_in * up.ring_hop_s[index]
        if span.fabric is not None:
            beta = max(beta, 1 / (span.nics_bytes_per_s * span.fabric.ring_efficiency[index] * PAYLOAD[index]))
            hops += steps_out * span.fabric.ring_hop_s[index]
        per_byte = passes * ((1 - 1 / n) * beta + 1 / (n * copy)) if copies else beta
        lines.append(Line("ring", protocol, alpha + passes * hops, per_byte))
    return lines


def tree_wire_factor(domains: int) -> float:
    """Bytes that the cards of a domain send per byte of a double binary tree's all-reduce.

    With two domains each is the root of one tree and the leaf of the other: S/2 up and S/2 down. From three on, a
    domain is an inner vertex of one tree (S/2 up, 2*S/2 down) and a leaf of the other (S/2 up): 2*S.
    """
    return 1.0 if domains == 2 else 2.0


def tree_lines(span: Span) -> list[Line]:
    """Double binary tree over the domains, a chain inside each; all-reduce only.

    alpha = base + 2*((r-1)*hop_in + log2(N)*hop_out), with log2 not rounded, so that unseen sizes lie between their
    neighbours; beta = max(2/B_in, wire/B_nics). A message too small for many chunks goes from level to level almost
    whole, so the beta of LL and LL128 grows with the levels; Simple pays a fixed ramp per level instead.
    """
    if span.fabric is None:
        return []
    levels = math.log2(span.domains)
    lines = []
    for index, protocol in enumerate(PROTOCOLS):
        inside = 2 / (span.up_bytes_per_s * span.up.ring_efficiency[index]) if span.local > 1 else 0.0
        outside = tree_wire_factor(span.domains) / (span.nics_bytes_per_s * span.fabric.tree_efficiency[index])
        chain = max(span.local - 1, 0.0) * span.up.ring_hop_s[index]
        alpha = span.fabric.ring_base_s[index] + 2 * (chain + levels * span.fabric.tree_hop_s[index])
        fill = 1 + span.fabric.tree_fill * levels if protocol != "simple" else 1.0
        lines.append(Line("tree", protocol, alpha, fill * max(inside, outside) / PAYLOAD[index]))
    return lines


def nvls_lines(span: Span, gather: bool) -> list[Line]:
    """Reduction (all-reduce) or multicast (all-gather, reduce-scatter) in the scale-up switch of one domain.

    Each GPU sends S and receives S whatever n is, so algbw is the constant: beta = 1/(eff*B); a gather moves
    S*(n-1)/n.
    """
    efficiency = span.up.nvls_gather_efficiency if gather else span.up.nvls_efficiency
    if span.domains > 1 or not efficiency:
        return []
    moved = 1 - 1 / span.ranks if gather else 1.0
    return [Line("nvls", "simple", span.up.nvls_base_s, moved / (efficiency * span.up_bytes_per_s))]


def nvls_tree_lines(span: Span) -> list[Line]:
    """NVLS inside each domain and a double binary tree between them; all-reduce on several domains."""
    if span.fabric is None or span.local <= 1 or not span.up.nvls_efficiency:
        return []
    inside = 1 / (span.up.nvls_efficiency * span.up_bytes_per_s)
    outside = tree_wire_factor(span.domains) / (span.nics_bytes_per_s * span.fabric.nvls_tree_efficiency)
    alpha = span.fabric.nvls_tree_base_s + math.log2(span.domains) * span.fabric.nvls_tree_hop_s
    return [Line("nvls-tree", "simple", alpha, max(inside, outside))]


def alltoall_lines(span: Span) -> list[Line]:
    """Every pair at once: a latency regime and a bandwidth regime.

    alpha = base + (r-1)*peer_in + (n-r)*peer_out; beta = max((r-1)/n/B_in, (n-r)/n/B_card) + (1/n)/B_copy, where
    B_card is a rank's share of the cards: busbw tends to (n-1)/(n-r) of it.
    """
    n, up, local = span.ranks, span.up, span.local
    lines = []
    for index, (protocol, payload) in enumerate((("ll", PAYLOAD[0]), ("simple", PAYLOAD[2]))):
        inside = (local - 1) / n / (span.up_bytes_per_s * up.alltoall_efficiency[index]) if local > 1 else 0.0
        alpha, beta = up.alltoall_base_s[index] + (local - 1) * up.alltoall_peer_s[index], inside
        if span.fabric is not None:
            card = span.nics_bytes_per_s / local * span.fabric.alltoall_efficiency[index]
            alpha = span.fabric.alltoall_base_s[index] + (local - 1) * up.alltoall_peer_s[index]
            alpha += (n - local) * span.fabric.alltoall_peer_s[index]
            beta = max(inside, (n - local) / n / card)
        crowd = (n / 2.0) ** up.crowding if span.fabric is None else 1.0
        copy = 1 / (n * up.alltoall_copy * span.up_bytes_per_s)
        lines.append(Line("pairwise", protocol, alpha, beta * crowd / payload + copy))
    return lines


def sendrecv_lines(span: Span) -> list[Line]:
    """One message from one rank to another: over the scale-up link, or over the cards beside one GPU."""
    up = span.up
    inside = 1 / (up.p2p_efficiency * span.up_bytes_per_s)
    if span.fabric is None:
        return [Line("p2p", "simple", up.p2p_base_s, inside)]
    return [Line("p2p", "simple", span.fabric.p2p_base_s, 1 / (span.fabric.p2p_efficiency * span.nics_bytes_per_s))]


def _all_reduce(span: Span) -> list[Line]:
    return ring_lines(span, 2) + tree_lines(span) + nvls_lines(span, gather=False) + nvls_tree_lines(span)


def _gather(span: Span) -> list[Line]:
    return ring_lines(span, 1) + nvls_lines(span, gather=True)


def _broadcast(span: Span) -> list[Line]:
    return ring_lines(span, 1, copies=False)


_LINES: dict[str, Callable[[Span], list[Line]]] = {
    "all_reduce": _all_reduce,
    "all_gather": _gather,
    "reduce_scatter": _gather,
    "broadcast": _broadcast,
    "alltoall": alltoall_lines,
    "sendrecv": sendrecv_lines,
}
