"""A step as a trace: a process for each pipeline stage, a thread for each stream, arrows for messages, counters.

Ranks that do the same are shown once. Chunks of all stages come first; then, as far as the number of events allows,
counters, messages, and the blocks, kernels and exchanges inside the chunks of one stage. What is left out is said in
the trace itself.
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
from simcluster.shapes import FlashAttention, Gemm, Operator, Streaming, Transfer

MOST_EVENTS = 100_000
_MESSAGE = 5  # events of one: two slices and an arrow of three points
_INSIDES = 0.2  # share of the events that is kept for the insides of chunks
_LETTERS = {"forward": "F", "backward": "B", "weight_gradient": "W"}
_THREADS = {  # order and name of a stage's threads by streams
    "compute": (0, "compute"),
    "beside": (1, "compute, overlapped"),
    "data_parallel": (3, "data parallel"),
    "replicas": (4, "replicas"),
    "to_host": (8, "copies to the host"),
    "host": (9, "host"),
    "to_gpu": (10, "copies to the GPU"),
    "drives": (11, "drives"),
}
_CARRIED = {"forward": "activations", "backward": "gradients"}


def step_trace(evaluation: Evaluation, most_events: int = MOST_EVENTS) -> Trace:
    """The step of an evaluation as a trace of about `most_events` events at most."""
    resolved = evaluation.resolved
    spans = timeline(resolved.plan, resolved.machine, evaluation.times)
    micro_batches = resolved.layout.micro_batches
    chunks = [one for one in spans if one.stream != "messages" or one.micro_batch < 0]
    always = sum(one.micro_batch < 0 for one in chunks)
    fits = (most_events - always) * micro_batches // max(1, len(chunks) - always)
    kept = max(1, min(micro_batches, fits))
    chunks = [one for one in chunks if one.micro_batch < kept]
    outer = int(most_events * (1 - _INSIDES)) - len(chunks)
    counters, missing = _fitting(list(_counters(evaluation, spans)) if kept == micro_batches else [], outer)
    outer -= sum(len(one.samples) for one in counters)
    messages = [one for one in spans if one.stream == "messages" and one.micro_batch >= 0]
    each = _MESSAGE * len(messages) / micro_batches
    sent = min(kept, max(0, int(outer / each))) if messages else kept
    writer = _Writer(evaluation, [*chunks, *(one for one in messages if one.micro_batch < sent)])
    writer.chunks()
    writer.messages()
    opened, stage = writer.insides(most_events - writer.events - sum(len(one.samples) for one in counters))
    shown = {"": kept, "messages of ": sent, "insides of chunks of ": opened}
    return writer.trace(counters, _about(evaluation, stage, shown, missing))


def _fitting(counters: Sequence[Counter], room: int) -> tuple[list[Counter], list[str]]:
    """Counters of every kind that still fits, the kinds in turn; and the names of the others."""
    kinds: dict[str, list[Counter]] = {}
    for one in counters:
        kinds.setdefault(one.name, []).append(one)
    fitting: list[Counter] = []
    missing = []
    for name, own in kinds.items():
        size = sum(len(one.samples) for one in own)
        if size <= room:
            fitting += own
            room -= size
        else:
            missing.append(name)
    return fitting, missing


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
            if one.stream in ("compute", "beside") and one.kind in _CARRIED
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
                thread = self.thread(one.stage, *_THREADS[one.stream])
                self.add(thread, self.title(one), one.kind, one, _arguments(one))

    def messages(self) -> None:
        """Messages at both ends, with an arrow from the chunk that made it to the one that reads it."""
        for one in self.spans:
            if one.stream != "messages":
                continue
            if one.micro_batch < 0:
                thread = self.thread(one.stage, 7, one.kind.replace("_", " "))
                self.add(thread, self.title(one), one.kind, one, _arguments(one))
                continue
            forward = one.kind == "forward"
            parts = (one.part, self.evaluation.times.program.receiver(int(not forward), one.part))
            source, target = (self.computing.get((forward, one.micro_batch, part)) for part in parts)
            if source and target:
                self.message(one, source, target)

    def message(self, span: Span, source: Span, target: Span) -> None:
        what = _CARRIED[span.kind]
        ends = (
            self.thread(span.stage, 5, f"send {what} to stage {target.stage}"),
            self.thread(target.stage, 6, f"receive {what} from stage {span.stage}"),
        )
        for thread in ends:
            self.add(thread, self.title(span), "message", span, _arguments(span))
        if nanoseconds(span.end_s) > nanoseconds(span.start_s):
            points = (
                (self.thread(source.stage, *_THREADS[source.stream]), source.end_s - 1e-9),
                (ends[0], span.start_s),
                (self.thread(target.stage, *_THREADS[target.stream]), target.start_s),
            )
            self.arrows.append(Arrow(what, points))

    def title(self, span: Span) -> str:
        """The papers' notation: F3, or F3.1 with the chunk's number where a stage has several."""
        if span.micro_batch < 0:
            return span.kind.replace("_", " ")
        chunk = f".{span.part // self.plan.mesh.pp}" if len(self.plan.contents[0]) > 1 else ""
        return f"{_LETTERS.get(span.kind, span.kind)}{span.micro_batch}{chunk}"

    def insides(self, room: int) -> tuple[int, int]:
        """Opens chunks of the stage that computes longest, micro-batch by micro-batch, while there is room.

        Returns how many micro-batches were opened, and the stage.
        """
        evaluation = self.evaluation
        expander = Expander(self.plan, evaluation.resolved.machine, evaluation.times)
        stage = int(busy_s(tuple(self.spans), self.plan.mesh.pp).argmax())
        own = [one for one in self.spans if one.stage == stage and one.micro_batch >= 0]
        opened = 0
        for micro in range(1 + max(one.micro_batch for one in own)):
            parts = [inner for one in own if one.micro_batch == micro for inner in expander.inside(one)]
            if len(parts) > room:
                break
            room -= len(parts)
            opened += 1
            for inner in parts:
                self.inner(stage, inner, self.exchange_name())
        return opened, stage

    def exchange_name(self) -> str:
        layout = self.evaluation.resolved.layout
        axes = (("tensor", layout.tp), ("context", layout.cp), ("expert", layout.ep))
        return f"{', '.join(name for name, degree in axes if degree > 1)} parallel"

    def inner(self, stage: int, inner: Inner, exchange: str) -> None:
        rank, name = (2, exchange) if inner.stream == "exchange" else _THREADS[inner.stream]
        thread = self.thread(stage, rank, name)
        category = ("shard" if rank else "block") if inner.operator is None else "exchange" if rank else "kernel"
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


def _counters(evaluation: Evaluation, spans: Sequence[Span]) -> Iterator[Counter]:
    """Counters of every stage, kind by kind, what matters most first."""
    plan = evaluation.resolved.plan
    owns = [[one for one in spans if one.stage == stage] for stage in range(plan.mesh.pp)]
    for stage, own in enumerate(owns):
        components = {
            name: float(size)
            for name, size in evaluation.memory.stages[stage].components.items()
            if name not in DEVICE_ONLY + RESERVED_ONLY
        }
        yield Counter(stage, "memory allocated", "bytes", memory_course(plan, own, components))
    for stage, watts in enumerate(_power(evaluation, spans)):
        yield Counter(stage, "power of a GPU", "W", watts)
    flights = (
        ("gradients and parameters in flight", exchanges_in_flight),
        ("messages in flight", messages_in_flight),
    )
    for name, flight in flights:
        courses = [flight(plan, own) for own in owns]
        yield from (Counter(stage, name, "bytes", one) for stage, one in enumerate(courses) if len(one) > 1)


def _power(evaluation: Evaluation, spans: Sequence[Span]) -> tuple[tuple[tuple[float, float], ...], ...]:
    terms, plan = evaluation.means.power, evaluation.resolved.plan
    _, _, exposed_w, idle_w = (float(w) for w in phase_watts(Gpu(terms.gpu_idle_w, terms.gpu_limit_w)))
    average_w = evaluation.power.gpu_average_w
    return power_courses(
        spans, plan.mesh.pp, evaluation.step.time_s, average_w=average_w, exposed_w=exposed_w, idle_w=idle_w
    )


def _about(evaluation: Evaluation, stage: int, shown: Mapping[str, int], missing: Sequence[str]) -> Mapping[str, Any]:
    """What the trace shows and what it does not; `shown` says of how many micro-batches there is what."""
    plan, whole = evaluation.resolved.plan, evaluation.resolved.layout.micro_batches
    world, pp = plan.mesh.world, plan.mesh.pp
    left_out = [f"{world - pp:,} of {world:,} GPUs: each stage is shown once, {world // pp:,} GPUs do the same"]
    left_out += [f"insides of chunks of all stages but stage {stage}"] if pp > 1 else []
    left_out += [f"{what}micro-batches {count} to {whole - 1}" for what, count in shown.items() if count < whole]
    left_out += [f"counter: {name}" for name in missing]
    shape = evaluation.times.program.shape
    left_out += ["insides of chunks that run overlapped"] if shape.paired else []
    left_out += ["kernels of input gradients whose weight gradients run apart"] if shape.split else []
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
