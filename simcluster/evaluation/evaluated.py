"""Evaluates a scenario: step time, where it goes, memory, and how sure all this is.

Parts are computed when they are asked for. What does not exist yet is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from simcluster.analysis.critical_path import CriticalStep, critical_step
from simcluster.analysis.uncertainty import Band, ErrorTerm, band, overall_grade
from simcluster.analysis.waterfall import CAUSES, Waterfall, waterfall
from simcluster.engine.step import StepTimes, sized_step_s, solve_step
from simcluster.evaluation.cost import CostResult, cost_of
from simcluster.evaluation.memory import memory_of
from simcluster.evaluation.power import PowerResult, power_of
from simcluster.evaluation.running import course_of_run, paid_error_terms, run_error_terms
from simcluster.evaluation.step import StepResult, step_error_terms
from simcluster.evaluation.stragglers import StragglerResult, stragglers_of
from simcluster.hardware.catalogue import Catalogue
from simcluster.memory.recompute import recompute_modules_of
from simcluster.memory.report import MemoryReport
from simcluster.operations.running import RunResult
from simcluster.resolve import Resolved, resolve
from simcluster.resolve.terms import Means
from simcluster.scenario import Loaded
from simcluster.shapes import Assumption
from simcluster.timing.records import PEAK_OF
from simcluster.workload.flops import AttentionFlops, StepFlops, step_flops

Engine = Literal["max-plus", "des"]


@dataclass(frozen=True, repr=False)
class Evaluation:
    """A resolved scenario and what follows from it.

    engine   of the actual step; idealisations of the waterfall and their columns are max-plus
    seed     of the draws behind the days of a run
    """

    resolved: Resolved
    engine: Engine = "max-plus"
    seed: int = 0

    def __repr__(self) -> str:
        return f"<Evaluation of {self.name}>"

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.resolved.scenario.name

    @cached_property
    def times(self) -> StepTimes:
        """The solved step."""
        plan, machine = self.resolved.plan, self.resolved.machine
        times = solve_step(plan, machine)
        if self.engine == "max-plus":
            return times
        from simcluster.engine.des_step import timed_by_events  # simpy is for those who ask for it

        return timed_by_events(plan, machine, times)

    @cached_property
    def flops(self) -> StepFlops:
        """Model and executed FLOPs of a step, causal convention."""
        layout = self.resolved.layout
        mode, modules = recompute_modules_of(layout.recompute, self.resolved.family.selective_modules)
        again = modules if mode == "selective" else mode
        return step_flops(
            self.resolved.arch, layout.sequence_length, layout.sequences, AttentionFlops.CAUSAL, recompute=again
        )

    @cached_property
    def peak_flops(self) -> float:
        """Peak of all GPUs together at the job's precision, FLOP/s."""
        cluster = self.resolved.cluster
        precision = self.resolved.layout.precision
        return cluster.gpus * cluster.node.gpu.peak_flops[PEAK_OF.get(precision, precision)]

    @cached_property
    def waterfall(self) -> Waterfall:
        """Step time by cause."""
        times = self.times
        ideal = float(self.flops.model) / self.peak_flops
        return waterfall(times.levels, times.compute, times.optimizer, ideal)

    @cached_property
    def error_terms(self) -> tuple[ErrorTerm, ...]:
        """What the step time rests on, with shares and spreads."""
        return step_error_terms(self.times, self.resolved, self.waterfall)

    @cached_property
    def confidence(self) -> Band:
        """80 % interval of the step time and its grade."""
        times = self.times
        grade = overall_grade(times.busy, times.evidence[:, 0])
        return band(float(times.total[0]), self.error_terms, grade)

    @cached_property
    def step(self) -> StepResult:
        """Step time, rates and utilisation."""
        time = float(self.times.total[0])
        layout, gpus = self.resolved.layout, self.resolved.cluster.gpus
        tokens = layout.sequences * layout.sequence_length / time
        losses = dict(zip(CAUSES[:-1], self.waterfall.seconds))
        return StepResult(
            time_s=time,
            time_s_p10=self.confidence.low_s,
            time_s_p90=self.confidence.high_s,
            tokens_per_s=tokens,
            tokens_per_s_per_gpu=tokens / gpus,
            model_tflops_per_gpu=float(self.flops.model) / time / gpus / 1e12,
            mfu=float(self.flops.model) / time / self.peak_flops,
            hfu=float(self.flops.executed) / time / self.peak_flops,
            flops_convention=f"{AttentionFlops.CAUSAL.value} attention, no recompute in mfu",
            bound_by=max(losses, key=lambda cause: losses[cause]),
        )

    @cached_property
    def memory(self) -> MemoryReport:
        """Peak memory of each stage against the GPU."""
        return memory_of(self.resolved, self.resolved.plan)

    @cached_property
    def means(self) -> Means:
        """What running and paying depends on; InputError for names and prices that the catalogue does not have."""
        return self.resolved.means()

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What nobody stated: of the step, of running, power and money."""
        return (*self.resolved.assumptions, *self.means.assumptions)

    @property
    def unmodelled(self) -> tuple[str, ...]:
        """What was stated, or belongs to the software, and nothing computes yet."""
        return (*self.resolved.unmodelled, *self.means.unmodelled)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader should know of files that the scenario names."""
        return self.means.notes

    @cached_property
    def run(self) -> RunResult:
        """Goodput and interruptions; days where the scenario states tokens."""
        slow_down = self.stragglers.slow_down if self.stragglers else 1.0
        return course_of_run(self.resolved, self.means.run, self.times, slow_down, self.error_terms, self.seed)

    @cached_property
    def stragglers(self) -> StragglerResult | None:
        """Steps on nodes of unlike speed; None where nobody says that they are."""
        return stragglers_of(self.resolved, self.times, self.means.run.nodes, self.seed)

    @cached_property
    def critical(self) -> CriticalStep:
        """What makes the step as long as it is, by max-plus."""
        return critical_step(self.resolved.plan, self.resolved.machine, self.times)

    def step_s_of_sizes(self, sizes: Sequence[float]) -> float:
        """Time [s] of a step with micro-batches of unequal size (packed, or of variable length), by max-plus.

        sizes   of each micro-batch, over that of the plan, in order; ValueError if they are not as many or not above 0
        """
        return sized_step_s(self.resolved.plan, self.resolved.machine, self.times, sizes)

    @cached_property
    def power(self) -> PowerResult:
        """Watts of GPUs, machines and facility; joules of a token."""
        return power_of(self.resolved, self.means, self.times, self.waterfall, self.run)

    @cached_property
    def cost(self) -> CostResult | None:
        """Money; None where the scenario does not say how the machines are got."""
        return cost_of(self.means, self.run, self.power, self.resolved.cluster.gpus, self.step.tokens_per_s)

    @cached_property
    def run_error_terms(self) -> tuple[ErrorTerm, ...]:
        """What the days of a run rest on: the time of a step, and how often it is interrupted."""
        return (*self.error_terms, *run_error_terms(self.means.run, self.run))

    @cached_property
    def token_error_terms(self) -> tuple[ErrorTerm, ...]:
        """What the cost of a token rests on: the time of a step, interruptions, and prices."""
        if self.cost is None:
            return self.run_error_terms
        return (*self.error_terms, *paid_error_terms(self.means.run, self.run), *self.cost.error_terms)

    @property
    def token_cost_band(self) -> tuple[float, float]:
        """80 % interval of the cost of a million tokens in USD; zeros without a cost."""
        usd = self.cost.usd_per_million_tokens if self.cost else 0.0
        found = band(usd, self.token_error_terms, "")
        return found.low_s, found.high_s


def evaluate(
    loaded: Loaded, catalogue: Catalogue | None = None, engine: Engine = "max-plus", seed: int = 0
) -> Evaluation:
    """Resolves and evaluates a scenario.

    engine   "des" runs the actual step event by event, so that exchanges share links at the moment they meet
    seed     of the draws behind the days of a run

    Raises InputError if the scenario cannot be resolved; not fitting in memory is a result, not an error.
    """
    return Evaluation(resolve(loaded, catalogue or Catalogue.load()), engine, seed)
