"""A step as a trace: a process for each pipeline stage, a thread for each stream, arrows for messages, counters.

Ranks that do the same are shown once. Chunks of all stages are there; blocks, kernels and exchanges inside chunks for
one stage, as far as the number of events allows. What is left out is said in the trace itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import simcluster
from simcluster.analysis.activity import exchanges_in_flight, memory_course, messages_in_flight, power_courses
from simcluster.analysis.expanded import Expander, Inner
from simcluster.analysis.power import Gpu, phase_watts
from simcluster.analysis.timeline import Span, busy_s, timeline
from simcluster.evaluation import Evaluation
from simcluster.formats.trace import Arrow, Counter, Process, Slice, Thread, Trace, nanoseconds
from simcluster.memory.stage import DEVICE_ONLY, RESERVED_ONLY
from simcluster.program.plan import StepPlan
from simcluster.shapes import FlashAttention, Gemm, Operator, Streaming, Transfer

MOST_EVENTS = 100_000
_EACH = {"compute": 1, "messages": 5}  # events of a span; of a message two slices and an arrow of three points
_LETTERS = {"forward": "F", "backward": "B", "input_gradients": "B", "weight_gradients": "W"}
_CARRIED = {"forward": "activations", "backward": "gradients"}


def step_trace(evaluation: Evaluation, most_events: int = MOST_EVENTS) -> Trace:
    """The step of an evaluation as a trace of about `most_events` events at most."""
    resolved = evaluation.resolved
    spans = timeline(resolved.plan, resolved.machine, evaluation.times)
    shown, micro_batches = _shown(spans, resolved.layout.micro_batches, most_events)
    writer = _Writer(evaluation, shown)
    writer.chunks()
    writer.messages()
    counters = tuple(_counters(evaluation, shown if micro_batches else spans, spans))
    room = most_events - writer.events - sum(len(one.samples) for one in counters)
    opened = writer.insides(room)
    about = _about(evaluation, micro_batches, opened)
    return writer.trace(counters, about)


def _shown(spans: Sequence[Span], micro_batches: int, most: int) -> tuple[Sequence[Span], int]:
    """Spans that fit, and how many micro-batches they show (0: all)."""
    size = sum(_EACH.get(one.stream, 1) + 3 for one in spans)  # a span changes up to three counters
    if size <= most:
        return spans, 0
    kept = max(1, int(micro_batches * most / size))
    return [one for one in spans if one.micro_batch < kept], kept


@dataclass
class _Writer:
    """Collects slices and arrows; threads are made as they are needed."""

    evaluation: Evaluation
    spans: Sequence[Span]
    slices: list[Slice] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    threads: dict[tuple[int, int, str], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plan = self.evaluation.resolved.plan
        self.computing = {
            (one.kind == "forward", one.micro_batch, one.part): one
            for one in self.spans
            if one.stream == "compute" and one.kind in ("forward", "backward", "input_gradients")
        }

    @property
    def events(self) -> int:
        return len(self.slices) + sum(len(arrow.points) for arrow in self.arrows)

    def thread(self, stage: int, rank: int, name: str) -> int:
        """Number of a stage's thread; `rank` orders threads."""
        return self.threads.setdefault((stage, rank, name), len(self.threads))

    def add(self, thread: int, name: str, category: str, when: Span | Inner, arguments: Mapping[str, Any]) -> None:
        if nanoseconds(when.end_s) > nanoseconds(when.start_s):
            self.slices.append(Slice(thread, name, category, when.start_s, when.end_s, arguments))

    def chunks(self) -> None:
        """Computing and data parallel traffic."""
        for one in self.spans:
            if one.stream != "messages":
                rank = {"compute": 0, "data_parallel": 2}.get(one.stream, 3)
                thread = self.thread(one.stage, rank, one.stream.replace("_", " "))
                self.add(thread, self.title(one), one.kind, one, _arguments(one))

    def messages(self) -> None:
        """Messages at both ends, with an arrow from the chunk that made it to the one that reads it."""
        for one in self.spans:
            if one.stream != "messages":
                continue
            if one.micro_batch < 0:
                thread = self.thread(one.stage, 6, one.kind.replace("_", " "))
                self.add(thread, self.title(one), one.kind, one, _arguments(one))
                continue
            forward = one.kind == "forward"
            parts = (one.part, _receiver(self.plan, forward, one.part))
            source, target = (self.computing.get((forward, one.micro_batch, part)) for part in parts)
            if source and target:
                self.message(one, source, target)

    def message(self, span: Span, source: Span, target: Span) -> None:
        what = _CARRIED[span.kind]
        ends = (
            self.thread(span.stage, 4, f"send {what} to stage {target.stage}"),
            self.thread(target.stage, 5, f"receive {what} from stage {span.stage}"),
        )
        for thread in ends:
            self.add(thread, self.title(span), "message", span, _arguments(span))
        if nanoseconds(span.end_s) > nanoseconds(span.start_s):
            points = (
                (self.thread(source.stage, 0, "compute"), source.end_s - 1e-9),
                (ends[0], span.start_s),
                (self.thread(target.stage, 0, "compute"), target.start_s),
            )
            self.arrows.append(Arrow(what, points))

    def title(self, span: Span) -> str:
        """The papers' notation: F3, or F3.1 with the chunk's number where a stage has several."""
        if span.micro_batch < 0:
            return span.kind.replace("_", " ")
        chunk = f".{span.part // self.plan.mesh.pp}" if len(self.plan.contents[0]) > 1 else ""
        return f"{_LETTERS.get(span.kind, span.kind)}{span.micro_batch}{chunk}"

    def insides(self, room: int) -> Mapping[str, Any]:
        """Opens chunks of the stage that computes longest, micro-batch by micro-batch, while there is room."""
        evaluation = self.evaluation
        expander = Expander(self.plan, evaluation.resolved.machine, evaluation.times)
        stage = int(busy_s(tuple(self.spans), self.plan.mesh.pp).argmax())
        own = [one for one in self.spans if one.stage == stage and one.stream == "compute" and one.micro_batch >= 0]
        opened = 0
        for micro in range(evaluation.resolved.layout.micro_batches):
            parts = [inner for one in own if one.micro_batch == micro for inner in expander.inside(one)]
            if not parts or len(parts) > room:
                break
            room -= len(parts)
            opened += 1
            for inner in parts:
                self.inner(stage, inner, self.exchange_name())
        return {"stage": stage, "micro_batches": opened}

    def exchange_name(self) -> str:
        layout = self.evaluation.resolved.layout
        axes = (("tensor", layout.tp), ("context", layout.cp), ("expert", layout.ep))
        return f"{', '.join(name for name, degree in axes if degree > 1)} parallel"

    def inner(self, stage: int, inner: Inner, exchange: str) -> None:
        compute = inner.stream == "compute"
        thread = self.thread(stage, 0, "compute") if compute else self.thread(stage, 1, exchange)
        category = "block" if inner.operator is None else "kernel" if compute else "exchange"
        again = {"recompute": True} if inner.recompute else {}
        self.add(thread, inner.name, category, inner, {**_operator(inner.operator), **again})

    def trace(self, counters: Sequence[Counter], about: Mapping[str, Any]) -> Trace:
        """The trace, threads in order."""
        pp, world = self.plan.mesh.pp, self.plan.mesh.world
        shared = f"stands for {world // pp:,} GPUs"
        names = [f"stage {stage} of {pp}" for stage in range(pp)]
        order = {old: new for new, old in enumerate(self.threads[key] for key in sorted(self.threads))}
        threads = [Thread(stage, name) for stage, _, name in sorted(self.threads)]
        return Trace(
            [Process(f"{name}, {shared}", shared) for name in names],
            threads,
            [
                Slice(order[one.thread], one.name, one.category, one.start_s, one.end_s, one.arguments)
                for one in self.slices
            ],
            [Arrow(one.name, tuple((order[thread], when) for thread, when in one.points)) for one in self.arrows],
            counters,
            about,
        )


def _receiver(plan: StepPlan, forward: bool, part: int) -> int:
    """Virtual stage that reads what another sends; where micro-batches enter at both ends, second chunks run back."""
    step = 1 if forward else -1
    back = plan.pipeline.schedule == "dualpipe" and part >= plan.mesh.pp
    return part - step if back else part + step


def _arguments(span: Span) -> Mapping[str, Any]:
    found = {} if span.micro_batch < 0 else {"micro_batch": span.micro_batch}
    return found if span.part < 0 else {**found, "virtual_stage": span.part}


def _operator(operator: Operator | None) -> Mapping[str, Any]:
    """What an operation works on."""
    if isinstance(operator, Gemm):
        return {"m": float(operator.m), "n": float(operator.n), "k": float(operator.k), "dtype": operator.dtype}
    if isinstance(operator, Transfer):
        return {"collective": operator.kind, "group": operator.group, "bytes": float(operator.bytes)}
    if isinstance(operator, Streaming):
        return {"bytes": float(operator.bytes)}
    if isinstance(operator, FlashAttention):
        return {"kernel": operator.kernel, "seq_q": float(operator.seq_q), "seq_k": float(operator.seq_k)}
    return {}


def _counters(evaluation: Evaluation, shown: Sequence[Span], spans: Sequence[Span]) -> Iterator[Counter]:
    """Counters of every stage; of the whole step's power only where all of it is shown."""
    plan = evaluation.resolved.plan
    watts = _power(evaluation, spans) if len(shown) == len(spans) else ()
    for stage in range(plan.mesh.pp):
        own = [one for one in shown if one.stage == stage]
        sent, moved = messages_in_flight(plan, own), exchanges_in_flight(plan, own)
        if len(sent) > 1:
            yield Counter(stage, "messages in flight", "bytes", sent)
        if len(moved) > 1:
            yield Counter(stage, "gradients and parameters in flight", "bytes", moved)
        components = {
            name: float(size)
            for name, size in evaluation.memory.stages[stage].components.items()
            if name not in DEVICE_ONLY + RESERVED_ONLY
        }
        yield Counter(stage, "memory allocated", "bytes", memory_course(plan, own, components))
        if watts:
            yield Counter(stage, "power of a GPU", "W", watts[stage])


def _power(evaluation: Evaluation, spans: Sequence[Span]) -> tuple[tuple[tuple[float, float], ...], ...]:
    terms, plan = evaluation.means.power, evaluation.resolved.plan
    _, _, exposed_w, idle_w = (float(w) for w in phase_watts(Gpu(terms.gpu_idle_w, terms.gpu_limit_w)))
    average_w = evaluation.power.gpu_average_w
    return power_courses(
        spans, plan.mesh.pp, evaluation.step.time_s, average_w=average_w, exposed_w=exposed_w, idle_w=idle_w
    )


def _about(evaluation: Evaluation, micro_batches: int, opened: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the trace shows and what it does not."""
    plan, layout = evaluation.resolved.plan, evaluation.resolved.layout
    world, pp = plan.mesh.world, plan.mesh.pp
    stage, inner = opened["stage"], opened["micro_batches"]
    left_out = [f"{world - pp:,} of {world:,} GPUs: each stage is shown once, {world // pp:,} GPUs do the same"]
    left_out += [f"micro-batches {micro_batches} to {layout.micro_batches - 1}"] if micro_batches else []
    left_out += [f"insides of chunks of all stages but stage {stage}"] if pp > 1 else []
    if inner < layout.micro_batches:
        left_out += [f"insides of chunks of micro-batches {inner} to {layout.micro_batches - 1} of stage {stage}"]
    return {
        "made_by": f"simcluster {simcluster.__version__}, simulated, not measured",
        "scenario": evaluation.name,
        "engine": evaluation.engine,
        "step_s": evaluation.step.time_s,
        "left_out": left_out,
        "counters": {
            "memory allocated": "activations in proportion to the layers that wait for their backward, the rest as at "
            "the peak",
            "power of a GPU": "one figure while the stage computes, one while it only exchanges, one while it waits; "
            "their mean is that of the step",
        },
    }
