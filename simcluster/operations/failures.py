"""How often a job is interrupted: rates of parts by cause, scaled to the parts that the job uses.

Causes are independent and exponential, so rates add: a job's rate is the sum over causes of parts times rate a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simcluster.memory.arrays import plain, total
from simcluster.shapes import Num

Unit = Literal["node", "gpu", "nic", "port", "job"]

# ln spread of a rate taken from another fleet. Three published ones, 6.50 and 2.34 per 1000 node-days (Kokolis et al.
# 2024) and 3.79 (Grattafiori et al. 2024), spread by 0.51; a fourth is off their mean by 0.51 * sqrt(1 + 1/3).
FOREIGN_FLEET_SIGMA = 0.59


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts that the job runs on [counts, >= 0]; arrays broadcast. `port` counts switch ports with a cable."""

    nodes: Num
    gpus: Num = 0
    nics: Num = 0
    ports: Num = 0

    def count(self, unit: Unit) -> Num:
        """How many of that unit: node, gpu, nic, port, or job (always one)."""
        return {"node": self.nodes, "gpu": self.gpus, "nic": self.nics, "port": self.ports, "job": 1}[unit]


@dataclass(frozen=True, slots=True)
class CauseRate:
    """Interruptions by one cause [1/s, >= 0] for each part of a kind."""

    cause: str
    unit: Unit
    per_s: Num


def observed_per_s(events: Num, parts: Num, time_s: Num) -> Num:
    """Rate a part [1/s] from a count of events: events / (parts * time_s).

    Llama 3 405B: 419 unexpected interruptions on 2048 nodes in 54 days (Grattafiori et al. 2024).

    >>> round(observed_per_s(419, 2048, 54 * 86400) * 86400 * 1000, 4)
    3.7887
    """
    return plain(np.divide(events, np.multiply(parts, time_s)))


def job_rates(rates: Iterable[CauseRate], parts: Parts) -> dict[str, Num]:
    """Interruptions of the job [1/s] by cause; a cause that is listed for several units is summed.

    >>> rates = [CauseRate("gpu", "gpu", 1e-9), CauseRate("host", "node", 2e-9), CauseRate("gpu", "node", 1e-9)]
    >>> {cause: f"{rate:.2e}" for cause, rate in job_rates(rates, Parts(nodes=2, gpus=16)).items()}
    {'gpu': '1.80e-08', 'host': '4.00e-09'}
    """
    found: dict[str, list[Num]] = {}
    for rate in rates:
        found.setdefault(rate.cause, []).append(np.multiply(rate.per_s, parts.count(rate.unit)))
    return {cause: total(values) for cause, values in found.items()}


def mtbf_s(rates: Mapping[str, Num]) -> Num:
    """Mean time between interruptions of the job [s], infinite where the rates are zero.

    >>> round(mtbf_s({"all": 419 / (54 * 86400)}) / 3600, 4)
    3.0931
    """
    rate = np.asarray(total(rates.values()), dtype=float)
    return plain(np.divide(1.0, rate, out=np.full(rate.shape, np.inf), where=rate > 1e-300))


def expected_interruptions(rates: Mapping[str, Num], time_s: Num) -> dict[str, Num]:
    """Expected count by cause over `time_s` [s] in which the job can fail.

    >>> {cause: round(count, 3) for cause, count in expected_interruptions({"gpu": 1e-5, "nic": 1e-6}, 1e6).items()}
    {'gpu': 10.0, 'nic': 1.0}
    """
    return {cause: plain(np.multiply(rate, time_s)) for cause, rate in rates.items()}


def merge(rates: Mapping[str, Num], groups: Mapping[str, Iterable[str]]) -> dict[str, Num]:
    """Sum causes into groups; a cause that no group names keeps its own name. The total does not change.

    Raises ValueError where two groups name the same cause.

    >>> merge({"hbm": 1.0, "sram": 2.0, "nic": 4.0}, {"gpu": ["hbm", "sram"]})
    {'gpu': 3.0, 'nic': 4.0}
    """
    home: dict[str, str] = {}
    for group, causes in groups.items():
        for cause in causes:
            if home.setdefault(cause, group) != group:
                raise ValueError(f"cause {cause!r} is in the groups {home[cause]!r} and {group!r}")
    merged: dict[str, list[Num]] = {}
    for cause, rate in rates.items():
        merged.setdefault(home.get(cause, cause), []).append(rate)
    return {group: total(values) for group, values in merged.items()}


def mean_delay_s(rates: Mapping[str, Num], delays_s: Mapping[str, Num], default_s: Num = 0.0) -> Num:
    """Mean delay [s] of an interruption: delays by cause weighted by rate; `default_s` where a cause has none.

    A crash is seen in seconds, a hang when the collective's watchdog fires (10 min by default in pytorch/pytorch).

    >>> round(mean_delay_s({"crash": 9.0, "hang": 1.0}, {"hang": 600.0}, default_s=10.0), 6)
    69.0
    """
    rate = np.asarray(total(rates.values()), dtype=float)
    weighted = total(np.multiply(value, delays_s.get(cause, default_s)) for cause, value in rates.items())
    weighted, rate = np.broadcast_arrays(np.asarray(weighted, dtype=float), rate)
    return plain(np.divide(weighted, rate, out=np.zeros(rate.shape), where=rate > 0))


def observed_sigma(events: Num) -> Num:
    """Relative spread (of ln) of a rate that rests on a count of events: 1/sqrt(events + 1/2), about Poisson's.

    >>> round(observed_sigma(419), 3)
    0.049
    """
    return plain(1.0 / np.sqrt(np.add(events, 0.5)))
