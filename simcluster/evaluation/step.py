"""One step in figures, and what the error of its time is made of."""

from __future__ import annotations

from dataclasses import dataclass

from simcluster.analysis.uncertainty import ErrorTerm, error_terms
from simcluster.analysis.waterfall import CAUSES, Waterfall
from simcluster.engine.step import EVIDENCE_ROW, StepTimes
from simcluster.resolve import Resolved
from simcluster.timing.sustained import model_residual

_OFFLOAD_SIGMA = 0.7  # estimate: updates at memory rate; measured ones took up to three times as long
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


def step_error_terms(times: StepTimes, resolved: Resolved, fall: Waterfall) -> tuple[ErrorTerm, ...]:
    """Exposed exchanges take their share from the waterfall; the rest is split over kernels as they are busy."""
    total = float(times.total[0])
    lost = dict(zip(CAUSES, fall.seconds))
    gpu, network = resolved.cluster.node.gpu, resolved.machine.network
    fabric = f"{network.scale_up}/{network.fabric}/{network.nics_per_node}"
    exposed = (  # seconds, row of the evidence, path that it is of
        (lost["tensor_parallel"], EVIDENCE_ROW["tensor"], network.scale_up),
        (lost["expert_context_parallel"], EVIDENCE_ROW["expert_context"], fabric),
        (lost["data_parallel"], EVIDENCE_ROW["data_parallel"], fabric),
        (lost["pipeline_messages"], EVIDENCE_ROW["messages"], fabric),
    )
    rest = max(0.0, total - lost["offload"] - sum(seconds for seconds, _, _ in exposed)) / total
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
    if lost["offload"] > 0:
        host = resolved.cluster.node.host_cpu or "host"
        shares[f"offload:{host}"], sigmas[f"offload:{host}"] = lost["offload"] / total, _OFFLOAD_SIGMA
    shares[f"model:{gpu.generation}:{resolved.family.id}"] = 1.0
    sigmas[f"model:{gpu.generation}:{resolved.family.id}"] = model
    return error_terms(shares, sigmas)
