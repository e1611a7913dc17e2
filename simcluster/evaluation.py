"""Evaluates a scenario: step time, where it goes, memory, and how sure all this is.

Parts are computed when they are asked for. What does not exist yet is absent.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from simcluster.analysis.uncertainty import Band, ErrorTerm, band, error_terms, overall_grade
from simcluster.analysis.waterfall import CAUSES, Waterfall, waterfall
from simcluster.engine.step import EVIDENCE_ROW, StepTimes, solve_step
from simcluster.hardware.catalogue import Catalogue
from simcluster.memory.recompute import recompute_modules_of
from simcluster.memory.report import MemoryReport, memory_report
from simcluster.memory.setup import MemorySetup
from simcluster.resolve import Resolved, resolve
from simcluster.scenario import Loaded
from simcluster.timing.records import PEAK_OF
from simcluster.timing.sustained import model_residual
from simcluster.workload.flops import AttentionFlops, StepFlops, step_flops

ENGINE = "max-plus"
KERNELS = ("gemm", "attention", "memory")  # evidence that is about the GPU


@dataclass(frozen=True, slots=True)
class StepResult:
    """One training step: time in seconds with its 80 % interval, rates, utilisation."""

    time_s: float
    time_s_p10: float
    time_s_p90: float
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_tflops_per_gpu: float
    mfu: float
    hfu: float
    flops_convention: str
    bound_by: str


@dataclass(frozen=True)
class Evaluation:
    """A resolved scenario and what follows from it."""

    resolved: Resolved

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.resolved.scenario.name

    @cached_property
    def times(self) -> StepTimes:
        """The solved step."""
        return solve_step(self.resolved.plan, self.resolved.machine)

    @cached_property
    def flops(self) -> StepFlops:
        """Model and executed FLOPs of a step, causal convention."""
        layout = self.resolved.layout
        mode, modules = self._recompute
        again = modules if mode == "selective" else mode
        return step_flops(
            self.resolved.arch, layout.sequence_length, layout.sequences, AttentionFlops.CAUSAL, recompute=again
        )

    @property
    def _recompute(self) -> tuple[str, tuple[str, ...]]:
        """Mode and modules of recompute."""
        return recompute_modules_of(self.resolved.layout.recompute, self.resolved.family.selective_modules)

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
        return waterfall(times.total, times.compute, times.optimizer, ideal)

    @cached_property
    def error_terms(self) -> tuple[ErrorTerm, ...]:
        """What the step time rests on, with shares and spreads."""
        return _error_terms(self)

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
        resolved = self.resolved
        layout, plan = resolved.layout, resolved.plan
        mode, modules = self._recompute
        setup = MemorySetup(
            tp=layout.tp,
            pp=layout.pp,
            dp=layout.dp,
            cp=layout.cp,
            micro_batch=layout.micro_batch,
            sequence=layout.sequence_length,
            micro_batches=layout.micro_batches,
            schedule=layout.schedule,
            sequence_parallel=layout.sequence_parallel,
            sharding=layout.strategy,
            shard_ranks=layout.shards,
            recompute=mode,
            modules=modules,
            precision=layout.precision,
            ep=layout.ep,
            etp=layout.etp,
            expert_shard_ranks=plan.data.expert_shards,
            imbalance=plan.layer.imbalance,
        )
        capacity = resolved.cluster.node.gpu.memory_bytes
        return memory_report(plan.arch, plan.contents, setup, resolved.family, capacity)


def _error_terms(evaluation: Evaluation) -> tuple[ErrorTerm, ...]:
    """Exposed exchanges take their share from the waterfall; the rest is split over kernels as they are busy."""
    times, resolved = evaluation.times, evaluation.resolved
    total = float(times.total[0])
    lost = dict(zip(CAUSES, evaluation.waterfall.seconds))
    gpu, network = resolved.cluster.node.gpu, resolved.machine.network
    fabric = f"{network.scale_up}/{network.fabric}/{network.nics_per_node}"
    exposed = (  # seconds, row of the evidence, path that it is of
        (lost["tensor_parallel"], EVIDENCE_ROW["tensor"], network.scale_up),
        (lost["expert_context_parallel"], EVIDENCE_ROW["expert_context"], fabric),
        (lost["data_parallel"], EVIDENCE_ROW["data_parallel"], fabric),
        (lost["pipeline_messages"], EVIDENCE_ROW["messages"], fabric),
    )
    rest = max(0.0, total - sum(seconds for seconds, _, _ in exposed)) / total
    kernels = [EVIDENCE_ROW[name] for name in KERNELS]
    busy = times.busy[kernels] / max(float(times.busy[kernels].sum()), 1e-30)
    model = model_residual()
    names = [f"{name}:{gpu.id}" for name in KERNELS]
    shares = {name: float(share) * rest for name, share in zip(names, busy)}
    sigmas = {name: float(sigma) for name, sigma in zip(names, times.evidence[kernels, 1])}
    for seconds, row, path in exposed:
        evidence = f"collectives:{path}"
        shares[evidence] = shares.get(evidence, 0.0) + seconds / total
        sigmas[evidence] = max(sigmas.get(evidence, 0.0), float(times.evidence[row, 1]))
    shares[f"model:{gpu.generation}:{resolved.family.id}"] = 1.0
    sigmas[f"model:{gpu.generation}:{resolved.family.id}"] = model
    return error_terms(shares, sigmas)


def evaluate(loaded: Loaded, catalogue: Catalogue | None = None) -> Evaluation:
    """Resolves and evaluates a scenario.

    Raises InputError if the scenario cannot be resolved; not fitting in memory is a result, not an error.
    """
    return Evaluation(resolve(loaded, catalogue or Catalogue.load()))
