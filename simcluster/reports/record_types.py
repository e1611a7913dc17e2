"""The form of JSON answers, key by key. The shipped JSON Schemas are made from these types.

Numbers are SI, with the unit in the key; a part that an answer does not have is absent.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from pydantic import ConfigDict, with_config
from typing_extensions import NotRequired, TypedDict

Record = TypeVar("Record", bound=type)
Single: TypeAlias = bool | int | float | str | None


def described(record: Record) -> Record:
    """The text under a key is its description in the schema; other keys are refused."""
    return with_config(ConfigDict(use_attribute_docstrings=True, extra="forbid"))(record)


@described
class AssumptionRecord(TypedDict):
    """A value that nobody stated."""

    path: str
    """Dotted path, as --set takes it where it is an input."""
    value: Single | list[Single]
    why: str
    """Why this value, and its source where it has one."""


@described
class StepRecord(TypedDict):
    """One training step."""

    time_s: float
    time_s_p10: float
    """Lower end of the 80 % interval."""
    time_s_p90: float
    """Upper end of the 80 % interval."""
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    model_tflops_per_gpu: float
    """Model FLOPs, without recompute, per second and GPU, in 1e12."""
    mfu: float
    """Model FLOPs over dense peak, 0 to 1."""
    hfu: float
    """Executed FLOPs, with recompute, over dense peak, 0 to 1."""
    flops_convention: str
    bound_by: str
    """Component of the waterfall with the largest loss."""


@described
class CauseRecord(TypedDict):
    """One entry of the waterfall; all of them sum to the step time."""

    component: str
    time_s: float


@described
class KindsRecord(TypedDict):
    """Peak of the fullest stage, in bytes, as three tools would measure it."""

    allocated: float
    """What tensors take."""
    reserved: float
    """What the framework's allocator holds."""
    device: float
    """What the device has given away."""


@described
class StageRecord(TypedDict):
    """Memory of one pipeline stage."""

    stage: int
    peak_bytes: float
    components: dict[str, float]
    """Bytes by component at the peak; they sum to it."""


@described
class MemoryRecord(TypedDict):
    """Peak memory of a GPU."""

    fits: bool
    peak_bytes: float
    """Of the fullest stage."""
    capacity_bytes: float
    """What a framework can see."""
    kinds: KindsRecord
    stages: list[StageRecord]


@described
class PowerRecord(TypedDict):
    """Power while the job trains, in W."""

    gpu_average_w: float
    """Of one GPU."""
    node_average_w: float
    """Of one node."""
    it_average_w: float
    """Of nodes, spares, network and storage."""
    facility_average_w: float
    """With what the building adds."""
    it_nameplate_w: float
    """Rated power of all of it."""
    energy_per_token_j: float
    """At the facility's meter."""
    swing_w: float
    """How far the power of all GPUs moves within a step."""
    run_kwh: NotRequired[float]
    """Of the whole run at the facility's meter, where a number of tokens is stated."""
    phases: dict[str, float]
    """Seconds of a step by phase: compute, memory_bound, exposed_communication, idle."""


@described
class RunRecord(TypedDict):
    """The weeks of a run; days and counts where a number of tokens is stated."""

    wall_days: NotRequired[float]
    wall_days_p10: NotRequired[float]
    """Lower end of the 80 % interval."""
    wall_days_p90: NotRequired[float]
    """Upper end of the 80 % interval."""
    starts_after_days: NotRequired[float]
    """From the order to the first step, for machines that are bought."""
    goodput: float
    """Useful time over wall time, 0 to 1."""
    mtbf_s: float | None
    """Mean time between interruptions of the job; null if none occurs."""
    expected_interruptions: NotRequired[float]
    interruptions_by_cause: NotRequired[dict[str, float]]
    interruptions_per_day: float
    checkpoint_interval_s: float | None
    """Between checkpoints; null if none is needed."""
    spares: int
    """Spare nodes."""
    ledger: dict[str, float]
    """Shares of the wall time: useful, checkpoint, lost_work, restart, downtime, degraded; they sum to 1."""


@described
class BreakEvenRecord(TypedDict):
    """Owning against renting the same GPUs on demand."""

    rival_usd_per_gpu_hour: float
    """What the rent costs."""
    month: float | None
    """From when owning has cost less, with a resale then; null: never within the horizon."""
    month_without_resale: float | None
    rent_usd_per_gpu_hour: float
    """Rent of used hours at which both cost the same."""
    rent_usd_per_gpu_hour_paid: float
    """The same for a rent of all hours."""
    npv_own_usd: float
    """Gain of owning over the horizon, in today's money."""


@described
class CostRecord(TypedDict):
    """Money in USD, where the scenario says how the machines are got."""

    acquire: str
    """own, on-demand, 1y, 3y or spot."""
    usd_per_gpu_hour: float
    """Of a GPU that is there."""
    usd_per_gpu_hour_used: float
    """Of a GPU that is at work."""
    usd_per_gpu_hour_useful: float
    """Of useful work, without what failures and checkpoints take."""
    usd_per_million_tokens: float
    usd_per_million_tokens_p10: float
    """Lower end of the 80 % interval."""
    usd_per_million_tokens_p90: float
    """Upper end of the 80 % interval."""
    total_usd: NotRequired[float]
    """Of the run, where a number of tokens is stated."""
    total_usd_alone: NotRequired[float]
    """Of the run if nothing else uses the machines: bought ones are sold after it, a reserved term is paid whole."""
    capital_usd: float
    """Paid before the first step; 0 for a rent."""
    commitment_usd: float
    """Owed for the whole term of a rent; 0 without one."""
    hours: float
    """Share of the hours that the machines are taken to work."""
    monthly_usd: dict[str, float]
    """By item."""
    break_even: BreakEvenRecord | None
    """Null for a rent, and where nobody rents such GPUs out."""


@described
class ConfidenceRecord(TypedDict):
    """How sure the step time is."""

    grade: str
    """A measured on this hardware, B interpolated, C extrapolated, D datasheet or prior."""
    low_s: float
    """Lower end of the 80 % interval."""
    high_s: float
    """Upper end of the 80 % interval."""


@described
class MetaRecord(TypedDict):
    """How the answer was made."""

    seconds: NotRequired[float]
    """Time that it took; the only figure that differs from run to run."""
    version: str
    """Version of simcluster."""
    hash: NotRequired[str]
    """SHA-256 of the scenario in SI units."""
    seed: NotRequired[int]
    """Seed of the draws behind intervals of differences."""


@described
class CriticalPartRecord(TypedDict):
    """A part of the critical path; the seconds of all parts sum to the path."""

    part: str
    what: str
    stage: int
    """Pipeline stage; -1: all together."""
    time_s: float
    share: float
    """Of the path, 0 to 1."""
    gain_s: float
    """By which the step gets shorter if all of this takes 10 % less time."""


@described
class CriticalRecord(TypedDict):
    """What makes the step as long as it is."""

    total_s: float
    sentence: str
    advice: str
    parts: list[CriticalPartRecord]


@described
class SlowNodeRecord(TypedDict):
    """A slow node that is known by name or number."""

    node: str
    """As the file of measured times has it, else its number in words."""
    number: int
    """From 0, in the order in which ranks lie on nodes."""
    stages: list[int]
    """Pipeline stages that its ranks belong to."""
    replicas: list[int]
    """Data-parallel replicas that its ranks belong to."""
    factor: float
    """Its time over that of a typical node."""
    alone_s: float
    """By which the step is longer if all other nodes are typical."""
    gives_back_s: float
    """By which the step gets shorter if it alone is replaced; 0 where another node holds it up as much."""


@described
class StageCostRecord(TypedDict):
    """A step with one slow node in some stages, mostly one, all other nodes typical."""

    stages: list[int]
    nodes: int
    """How many nodes lie so."""
    factor: float
    """Its time over that of a typical node."""
    step_s: float


@described
class SpeedLayersRecord(TypedDict):
    """Layers shared out over stages by speed, simulated."""

    layers: list[int]
    """Of each virtual stage, in model order."""
    step_s: float
    fits: bool
    """Whether all stages fit in memory then."""


@described
class StragglersRecord(TypedDict):
    """Steps on nodes of unlike speed, in seconds."""

    healthy_s: float
    """With every node typical."""
    mean_s: float
    """Over the draws, as percentiles are."""
    p50_s: float
    p90_s: float
    p99_s: float
    drawn: list[str]
    """What the draws differ in: speeds of the nodes, places of the slow nodes, steps; empty if all is known."""
    nodes: list[SlowNodeRecord]
    """Known slow nodes, the one that costs most alone first; at most 32, those 0.1 % slower and more."""
    stages: list[StageCostRecord]
    """What a slow node costs by stage, where only the number of slow nodes is known."""
    now_s: NotRequired[float]
    """With the known slow nodes, all others typical; remedies are against it."""
    replaced_s: NotRequired[list[float]]
    """With the first 1, 2, 3 … of `nodes` typical, up to the last that shortens the step."""
    remedies: dict[str, float]
    """Step times after those that make sense: dropped, rebalanced, binned, binned_rebalanced."""
    layers: NotRequired[SpeedLayersRecord]


@described
class SimulateRecord(TypedDict):
    """Answer of `simulate`, and a candidate's evaluation in `compare`."""

    schema_version: str
    scenario: dict[str, Any]
    """The scenario with its defaults, in SI units; it can be run again as it stands."""
    engine: str
    assumptions: list[AssumptionRecord]
    not_modelled: list[str]
    """What was stated and nothing computes."""
    step: StepRecord
    waterfall: list[CauseRecord]
    critical_path: CriticalRecord
    stragglers: NotRequired[StragglersRecord]
    """Absent where nobody says that nodes are unlike."""
    memory: MemoryRecord
    power: PowerRecord
    run: RunRecord
    cost: NotRequired[CostRecord]
    """Absent where the scenario does not say how the machines are got."""
    confidence: ConfidenceRecord
    meta: MetaRecord


@described
class DeltaRecord(TypedDict):
    """A candidate against the baseline, in the unit of the metric, under draws common to both."""

    value: float
    """Candidate minus baseline."""
    relative: float
    """Candidate over baseline, minus 1."""
    low: float
    """Lower end of the 80 % interval of the difference."""
    high: float
    """Upper end of the 80 % interval of the difference."""
    probability_better: float
    """That the candidate's figure is the lower one; 0.5 where they are the same."""


@described
class CandidateRecord(TypedDict):
    """One candidate."""

    name: str
    evaluation: SimulateRecord
    delta: dict[str, DeltaRecord]
    """By metric: step_time_s, s_per_million_tokens, gpu_s_per_million_tokens; wall_days, usd_per_million_tokens and
    energy_per_token_j where both candidates have them."""


@described
class VerdictRecord(TypedDict):
    """The decision in words."""

    choice: str | None
    """Name of a candidate; null when none is clearly better."""
    sentence: str
    why: str
    flips_if: list[str]
    settle_with: list[str]
    """What to measure to be sure."""
    better_lever: str
    """What would gain more than choosing between the candidates."""


@described
class CompareRecord(TypedDict):
    """Answer of `compare`."""

    schema_version: str
    baseline: str
    """Name of the first candidate."""
    candidates: list[CandidateRecord]
    verdict: VerdictRecord
    notes: list[str]
    """Why figures may not be comparable."""
    meta: MetaRecord
