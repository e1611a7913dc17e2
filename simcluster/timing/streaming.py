"""Time of operators that are limited by memory traffic: norms, activations, softmax, copies, optimizer."""

from __future__ import annotations

import numpy as np

from simcluster.shapes import GRADES, Estimate, Num
from simcluster.timing.records import KernelProfile

# Relative standard deviations. A: copy, triad and dot on one part spread by 0.04 to 0.06; B: the fraction of the
# datasheet spreads by 0.08 over all tests and parts (calibration/measured/memory_links.csv). C and D: estimates.
_SIGMA = {"A": 0.05, "B": 0.08, "C": 0.12, "D": 0.20}


def streaming_time(profile: KernelProfile, bytes: Num, kernels: Num = 1) -> Estimate:
    """Time alone on the device: kernels * (gap + half/rate) + bytes/rate.

    Parameters
    ----------
    profile
        Rates of the device.
    bytes
        Read plus written [B], at least 0; a number or an array.
    kernels
        Kernels that the traffic is spread over, at least 0.

    The rate is that of long streams (BabelStream triad; Deakin et al., 2016), `half` the size at which a kernel reaches
    half of it. Host launches are not included, the gap between kernels on the device is.

    Examples
    --------
    >>> from simcluster.timing.profile import load_profile
    >>> h100 = load_profile("h100-80gb-sxm")
    >>> time = streaming_time(h100, [1e6, 1409.286e6])
    >>> [round(float(s) * 1e6, 1) for s in time.seconds], [str(b) for b in time.bound]
    ([3.2, 477.4], ['launch', 'memory'])
    """
    rates = profile.streaming
    rate = rates.bytes_per_s.value
    size, count = np.broadcast_arrays(np.asarray(bytes, dtype=float), np.asarray(kernels, dtype=float))
    fixed = count * (profile.launch.device_gap_s + rates.half_bytes.value / rate)
    moved = size / rate
    seconds = fixed + moved
    bound = np.where(fixed > moved, "launch", "memory")
    grade = np.where(size < rates.half_bytes.value * count, 3, GRADES.index(rates.best))  # small ones rest on the prior
    sigma = np.where(grade == 3, _SIGMA["D"], _SIGMA[rates.best])
    if seconds.ndim:
        return Estimate(seconds, grade, sigma, bound)
    return Estimate(float(seconds), int(grade), float(sigma), str(bound))
