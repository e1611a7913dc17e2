"""What a run is given: its work, its interruptions, its checkpoints; values out of range are refused together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from simcluster.errors import InputError, Problem
from simcluster.operations.checkpoint import SaveTime

_Z90 = 1.2815515655446004  # 90th percentile of a standard normal value


@dataclass(frozen=True, slots=True)
class Incidents:
    """Outages that a person has to find: how many in a month of running, median and 90th percentile of the time [s].

    The time is log-normal and lasts until the restart begins.

    >>> round(Incidents(2, 12 * 3600, 96 * 3600).mean_s / 3600, 1)
    44.8
    """

    per_month: float
    diagnose_median_s: float
    diagnose_p90_s: float

    @property
    def sigma(self) -> float:
        """Standard deviation of ln time."""
        return math.log(self.diagnose_p90_s / self.diagnose_median_s) / _Z90

    @property
    def mean_s(self) -> float:
        """Mean time."""
        return self.diagnose_median_s * math.exp(self.sigma**2 / 2)

    @property
    def variation(self) -> float:
        """Coefficient of variation."""
        return math.sqrt(math.expm1(self.sigma**2))


@dataclass(frozen=True, slots=True)
class RunSetup:
    """A run in numbers; times in seconds.

    step_s           one step at full speed, > 0
    work_s           all useful steps without any loss, > 0; None where the amount of work is open
    failures_per_s   interruptions of the whole job [1/s] by cause, while it runs
    checkpoint       what one blocks, and what it flushes behind the steps
    interval_s       of steps between two checkpoints; None: the one that loses least
    restart_s        from an allocation to the first useful step
    detect_s         from a failure to that allocation: noticing it, a spare or a repair
    startup_s        before the first step of the run
    slow_down        factor >= 1 on every step (stragglers, running degraded)
    incidents        outages that a person has to find
    step_sigma       standard deviation of ln step time
    rate_sigma       standard deviation of ln failure rate (not of incidents); see failures.FOREIGN_FLEET_SIGMA

    Raises InputError that lists every value out of its range.
    """

    step_s: float
    work_s: float | None = None
    failures_per_s: Mapping[str, float] = field(default_factory=dict)
    checkpoint: SaveTime = field(default_factory=SaveTime)
    interval_s: float | None = None
    restart_s: float = 0.0
    detect_s: float = 0.0
    startup_s: float = 0.0
    slow_down: float = 1.0
    incidents: Incidents | None = None
    step_sigma: float = 0.0
    rate_sigma: float = 0.0

    def __post_init__(self) -> None:
        problems = [Problem(text) for text in _out_of_range(self)]
        if problems:
            raise InputError(problems)


def _out_of_range(setup: RunSetup) -> list[str]:
    """Every value that is not finite or out of its range."""
    positive = {"step_s": setup.step_s, "work_s": setup.work_s, "interval_s": setup.interval_s}
    others = {
        "checkpoint.blocking_s": float(setup.checkpoint.blocking_s),
        "checkpoint.flush_s": float(setup.checkpoint.flush_s),
        **{f"failures_per_s of {cause}": rate for cause, rate in setup.failures_per_s.items()},
        **{name: getattr(setup, name) for name in ("restart_s", "detect_s", "startup_s", "step_sigma", "rate_sigma")},
    }
    if setup.incidents:
        others["incidents.per_month"] = setup.incidents.per_month
    wrong = [
        f"{name}: {value} should be above zero"
        for name, value in positive.items()
        if value is not None and not 0 < value < math.inf
    ]
    wrong += [f"{name}: {value} should be zero or more" for name, value in others.items() if not 0 <= value < math.inf]
    if not 1 <= setup.slow_down < math.inf:
        wrong.append(f"slow_down: {setup.slow_down} should be 1 or more")
    if setup.incidents and not 0 < setup.incidents.diagnose_median_s <= setup.incidents.diagnose_p90_s < math.inf:
        wrong.append("incidents: the median time of diagnosis should be above zero and at most the 90th percentile")
    return wrong
