"""How unlike nodes are: factors that are drawn, named or measured.

A node's factor is its time over that of a typical node: 1.02 takes 2 % longer. Draws come in blocks of fixed size, each
with a seed of its own, so they depend neither on how many columns are solved at a time nor on workers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DRAWN = 64  # samples drawn from one seed
_LEAST = 0.1  # a node is never drawn faster than ten times a typical one


@dataclass(frozen=True, slots=True)
class NodeSpeeds:
    """How unlike nodes are.

    nodes         [count >= 1]
    node_sigma    spread of nodes, one standard deviation of their factors (normal), >= 0
    jitter_sigma  spread of one node from step to step, likewise
    slow_nodes    (count, factor) of nodes known to be slow, anywhere in the cluster
    named         (node, factor) of slow nodes whose place is known
    measured      (nodes,) factors instead of all these but jitter, such as `relative` of measured times; else empty
    """

    nodes: int
    node_sigma: float = 0.0
    jitter_sigma: float = 0.0
    slow_nodes: tuple[tuple[int, float], ...] = ()
    named: tuple[tuple[int, float], ...] = ()
    measured: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.measured and len(self.measured) != self.nodes:
            raise ValueError(f"{len(self.measured)} factors for {self.nodes} nodes")
        if len(self.named) + sum(count for count, _ in self.slow_nodes) > self.nodes:
            raise ValueError(f"more slow nodes than the {self.nodes} there are")
        if not {node for node, _ in self.named} <= set(range(self.nodes)):
            raise ValueError(f"a named node is none of the {self.nodes} there are")

    @property
    def is_drawn(self) -> bool:
        """Whether one draw differs from another."""
        return self.jitter_sigma > 0 or (not self.measured and bool(self.node_sigma > 0 or self.slow_nodes))

    @property
    def is_one_anywhere(self) -> bool:
        """Whether all that is known is that one node is slow."""
        others = self.node_sigma or self.jitter_sigma or self.named or self.measured
        return not others and sum(count for count, _ in self.slow_nodes) == 1

    def known(self) -> Floats:
        """(nodes,) factors of the nodes that are named or measured, the others typical.

        >>> NodeSpeeds(3, slow_nodes=((1, 1.2),), named=((2, 1.1),)).known().tolist()
        [1.0, 1.0, 1.1]
        """
        if self.measured:
            return np.array(self.measured)
        factors = np.ones(self.nodes)
        for node, factor in self.named:
            factors[node] = factor
        return factors

    def draw(self, samples: int, seed: int, first: int = 0) -> Floats:
        """Factors (samples, nodes); `first` [a multiple of 64] is the number of the first sample.

        >>> speeds = NodeSpeeds(8, node_sigma=0.01)
        >>> bool((speeds.draw(128, 0)[64:] == speeds.draw(64, 0, first=64)).all())
        True
        """
        blocks = range(first // DRAWN, -(-(first + samples) // DRAWN))
        return np.concatenate([self._block(seed, block) for block in blocks])[:samples]

    def _block(self, seed: int, block: int) -> Floats:
        random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(block,)))
        shape = (DRAWN, self.nodes)
        factors = np.broadcast_to(np.array(self.measured), shape) if self.measured else self._fleets(random, shape)
        if self.jitter_sigma > 0:
            factors = factors * self._normal(random, shape, self.jitter_sigma)
        return factors

    def _fleets(self, random: np.random.Generator, shape: tuple[int, int]) -> Floats:
        factors = self._normal(random, shape, self.node_sigma) if self.node_sigma > 0 else np.ones(shape)
        names = [node for node, _ in self.named]
        factors[:, names] = [factor for _, factor in self.named]
        anywhere = np.repeat([factor for _, factor in self.slow_nodes], [count for count, _ in self.slow_nodes])
        if not len(anywhere):
            return factors
        free = np.setdiff1d(np.arange(self.nodes), names)
        slow = np.zeros((len(factors), len(free)))
        slow[:, : len(anywhere)] = anywhere
        slow = random.permuted(slow, axis=1, out=slow)
        factors[:, free] = np.where(slow > 0.0, slow, factors[:, free])
        return factors

    @staticmethod
    def _normal(random: np.random.Generator, shape: tuple[int, int], sigma: float) -> Floats:
        drawn = random.standard_normal(shape)
        drawn *= sigma
        drawn += 1.0
        return np.maximum(drawn, _LEAST, out=drawn)


def relative(times: Sequence[float]) -> tuple[float, ...]:
    """Measured times of nodes (any unit, above zero) over their median.

    >>> relative([2.0, 2.0, 2.2])
    (1.0, 1.0, 1.1)
    """
    return tuple((np.asarray(times) / np.median(times)).tolist())
