"""Capacity that can be taken away."""

from __future__ import annotations

import numpy as np

from simcluster.memory.arrays import plain
from simcluster.shapes import Num


def job_preemptions_per_s(instances: Num, per_instance_s: Num, batch: Num = 1) -> Num:
    """Pre-emptions of the job [1/s]: any instance stops it; a provider that takes `batch` at once does so less often.

    >>> job_preemptions_per_s(64, 1e-6, batch=4)
    1.6e-05
    """
    return plain(np.divide(np.multiply(instances, per_instance_s), batch))
