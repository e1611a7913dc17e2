"""Cost per token."""

from __future__ import annotations

from simcluster.economics.hours import HOUR_S
from simcluster.shapes import Num

_MILLION = 1e6


def usd_per_million_tokens(usd_per_gpu_hour: Num, gpus: Num, tokens_per_s: Num) -> Num:
    """Cost of 10^6 tokens.

    Parameters: `usd_per_gpu_hour` of useful hours with `tokens_per_s` > 0 of the job at full run (a step's rate), or of
    used hours with the mean rate of the run; `gpus` of the job.

    >>> round(usd_per_million_tokens(3.73981, 256, 512_886), 5)
    0.51852
    """
    return usd_per_gpu_hour * gpus / HOUR_S / tokens_per_s * _MILLION
