"""Cost per token and per run, and the part of it that is electricity."""

from __future__ import annotations

from dataclasses import dataclass

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


def electricity_usd_per_million_tokens(joules_per_token: Num, electricity_usd_per_j: Num) -> Num:
    """Electricity of 10^6 tokens; `joules_per_token` at the facility's meter.

    >>> round(electricity_usd_per_million_tokens(0.953, 0.09 / 3.6e6), 4)  # 0.2647 kWh
    0.0238
    """
    return joules_per_token * electricity_usd_per_j * _MILLION


@dataclass(frozen=True, slots=True)
class RunCost:
    """Cost of one run.

    gpu_hours               that it holds, from start to end
    total_usd               their cost
    usd_per_million_tokens  total over the tokens trained
    commitment_usd          what a reserved term owes anyway; stated beside the total, not part of it
    electricity_usd         of the run; part of the total if the cluster is owned
    electricity_share       of the total
    """

    gpu_hours: Num
    total_usd: Num
    usd_per_million_tokens: Num
    commitment_usd: Num
    electricity_usd: Num
    electricity_share: Num


def run_cost(
    usd_per_used_gpu_hour: Num,
    gpus: Num,
    wall_s: Num,
    tokens: Num,
    *,
    commitment_usd: Num = 0.0,
    facility_j: Num = 0.0,
    electricity_usd_per_j: Num = 0.0,
) -> RunCost:
    """Cost of a run that holds `gpus` for `wall_s` (failures, checkpoints and restarts included) and trains `tokens`.

    A used hour's price already carries the idle hours of the cluster and (spot) pre-emptions; `wall_s` must then hold
    only what failures take, else a loss counts twice. Useful price times useful hours is the same sum.
    `usd_per_used_gpu_hour`, `tokens`, `wall_s` > 0.

    >>> cost = run_cost(3.0, 256, 10 * 86_400.0, 400e9)
    >>> cost.gpu_hours, cost.total_usd, cost.usd_per_million_tokens
    (61440.0, 184320.0, 0.4608)
    """
    gpu_hours = gpus * wall_s / HOUR_S
    total = usd_per_used_gpu_hour * gpu_hours
    electricity = facility_j * electricity_usd_per_j
    return RunCost(
        gpu_hours=gpu_hours,
        total_usd=total,
        usd_per_million_tokens=total / tokens * _MILLION,
        commitment_usd=commitment_usd,
        electricity_usd=electricity,
        electricity_share=electricity / total,
    )
