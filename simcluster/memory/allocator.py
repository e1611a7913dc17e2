"""From tensors to the device: what a caching allocator and the driver add to the bytes that a framework allocates.

Three figures are kept apart: `allocated` (live tensors), `reserved` (segments that the allocator holds) and `device`
(what the driver's tool shows, with context and communicators).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simcluster.memory.arrays import plain, total
from simcluster.shapes import Num

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class MemoryPriors:
    """What no closed form gives; all are estimates of grade D until they are measured.

    workspace_bytes    library workspaces inside the allocator (cuBLAS on Hopper: 32 MiB by default)
    context_bytes      context, kernels and library handles outside the allocator: 0.6 to 1.5 GB
    nccl_group_bytes   buffers of the communicators of one parallel axis: 0.2 to 0.5 GB, 1 GB for three axes
    fragmentation      reserved but unusable, as a fraction of what comes and goes within a step; 3 to 10 % of all that
                       is allocated is usual, and the states, which stay in place, do not take part
    margin             fraction of the visible memory that is left free
    """

    workspace_bytes: float = 32.0 * _MIB
    context_bytes: float = 1.0e9
    nccl_group_bytes: float = 0.33e9
    fragmentation: float = 0.10
    margin: float = 0.02


PRIORS = MemoryPriors()


def segment_slack_bytes(request: Num) -> Num:
    """What a request of its own segment leaves unused: above 10 MiB segments are rounded up to 2 MiB, below they are
    shared (PyTorch's CUDA caching allocator).

    >>> segment_slack_bytes(11 * 2**20) / 2**20, segment_slack_bytes(1000.0)
    (1.0, 0.0)
    """
    size = np.asarray(request, dtype=float)
    segment = np.ceil(size / (2 * _MIB)) * (2 * _MIB)
    return plain(np.where(size > 10 * _MIB, segment - size, 0.0))


def communicator_bytes(sizes: tuple[Num, ...], priors: MemoryPriors = PRIORS) -> Num:
    """Buffers of the communicators: a prior for each parallel axis of more than one rank.

    >>> communicator_bytes((8, 4, 1)) / 1e9
    0.66
    """
    return priors.nccl_group_bytes * total(np.greater(size, 1) * 1.0 for size in sizes)
