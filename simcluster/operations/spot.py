"""Capacity that can be taken away."""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num


def job_preemptions_per_s(instances: Num, per_instance_s: Num) -> Num:
    """Pre-emptions of the job [1/s]: losing any instance stops it (an upper bound where several are taken at once).

    >>> job_preemptions_per_s(64, 1e-6)
    6.4e-05
    """
    return plain(np.multiply(instances, per_instance_s))
