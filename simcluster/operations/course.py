"""One run as numbers: what it has to do, what stops it, and where its wall time is expected to go."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.operations.renewal import Segment, segment


@dataclass(frozen=True, slots=True)
class Course:
    """What a run goes through. Times in seconds; rates in 1/s of the whole job while it runs.

    work_s            all useful steps at the speed at which they run, > 0
    interval_s        of steps between two checkpoints, > 0
    checkpoint_s      a checkpoint blocks the steps; flush_s behind them until it counts
    failures_per_s    interruptions that are seen and handled by themselves
    incidents_per_s   outages that a person has to find
    restart_s         from an allocation to the first step
    down_s            from a failure to an allocation
    diagnosis_s       mean time of an incident until the restart; diagnosis_cv its coefficient of variation (log-normal)
    startup_s         before the first step of all
    """

    work_s: float
    interval_s: float
    checkpoint_s: float
    flush_s: float
    failures_per_s: float
    incidents_per_s: float
    restart_s: float
    down_s: float
    diagnosis_s: float
    diagnosis_cv: float
    startup_s: float

    @property
    def interruptions_per_s(self) -> float:
        """Failures and incidents together."""
        return self.failures_per_s + self.incidents_per_s

    @property
    def incident_share(self) -> float:
        """Share of interruptions that are incidents, 0 where there are none."""
        rate = self.interruptions_per_s
        return self.incidents_per_s / rate if rate > 0 else 0.0

    @property
    def mean_down_s(self) -> float:
        """Mean downtime of an interruption of either sort; the renewal equation asks for no more than the mean."""
        return self.down_s + self.incident_share * (self.diagnosis_s - self.down_s)

    @property
    def segments(self) -> float:
        """How many checkpoint intervals the work is; the last one may be short."""
        return self.work_s / self.interval_s

    def expected_segment(self) -> Segment:
        """Expected parts of one checkpoint interval."""
        return segment(
            self.interval_s,
            self.checkpoint_s,
            self.interruptions_per_s,
            restart_s=self.restart_s,
            down_s=self.mean_down_s,
            flush_s=self.flush_s,
        )
