"""Figures over the time of a step, read off its spans: bytes on the way, memory, watts; each of one GPU of a stage.

A course is a list of (seconds, value); each value holds from its time to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from simcluster.analysis.timeline import Span
from simcluster.program.plan import StepPlan, buckets, message_bytes

Course: TypeAlias = tuple[tuple[float, float], ...]


def course(intervals: Iterable[tuple[float, float, float]], base: float = 0.0) -> Course:
    """Base plus the amounts of the intervals (start, end, amount) that are open at a time.

    >>> course([(1.0, 3.0, 5.0), (2.0, 4.0, 1.0)], base=10.0)
    ((0.0, 10.0), (1.0, 15.0), (2.0, 16.0), (3.0, 11.0), (4.0, 10.0))
    """
    changes: dict[float, float] = {0.0: 0.0}
    for start, end, amount in intervals:
        changes[start] = changes.get(start, 0.0) + amount
        changes[end] = changes.get(end, 0.0) - amount
    samples, level = [], 0.0
    for when in sorted(changes):
        level += changes[when]
        samples.append((when, base + level))
    return tuple(samples)


def mean(course: Course, end_s: float) -> float:
    """Mean value from zero to `end_s` > 0.

    >>> mean(((0.0, 2.0), (1.0, 4.0)), 2.0)
    3.0
    """
    stops = [*(when for when, _ in course[1:]), end_s]
    return sum(value * (stop - start) for (start, value), stop in zip(course, stops)) / end_s


def messages_in_flight(plan: StepPlan, spans: Sequence[Span]) -> Course:
    """Bytes that one GPU of a stage has sent to neighbours and that have not arrived; `spans` are the stage's."""
    size = message_bytes(plan)
    sent = (one for one in spans if one.stream == "messages" and one.micro_batch >= 0)
    return course((one.start_s, one.end_s, size) for one in sent)


def exchanges_in_flight(plan: StepPlan, spans: Sequence[Span]) -> Course:
    """Bytes of gradient buckets and parameter gathers under way on one GPU of a stage (of the whole bucket)."""
    found: list[tuple[float, float, float]] = []
    for kind, backward in (("reduce", True), ("gather", False)):
        own = [one for one in spans if one.kind == kind]
        width = plan.data.gradient_bytes if backward else plan.data.parameter_bytes
        for part in dict.fromkeys(one.part for one in own):
            moves = sorted((one for one in own if one.part == part), key=lambda one: one.start_s)
            contents = plan.contents[part % plan.mesh.pp][part // plan.mesh.pp]
            sizes = [width * (one.parameters + one.experts) for one in buckets(plan, contents, backward)]
            if len(sizes) == len(moves):
                found += [(one.start_s, one.end_s, size) for one, size in zip(moves, sizes)]
    return course(found)


def activations_held(plan: StepPlan, spans: Sequence[Span]) -> Course:
    """Activations that a stage holds, over the most that it ever holds: 0 to 1, chunks weighed by their layers.

    A chunk's are there from the start of its forward to the end of the last operation of its backward.
    """
    since: dict[tuple[int, int], float] = {}
    until: dict[tuple[int, int], float] = {}
    for one in spans:
        if one.stream in ("compute", "beside") and one.micro_batch >= 0:
            key = (one.part, one.micro_batch)
            if one.kind == "forward":
                since[key] = one.start_s
            else:
                until[key] = max(one.end_s, until.get(key, 0.0))
    pp = plan.mesh.pp
    layers = {part: plan.contents[part % pp][part // pp].layers for part, _ in since}
    even = not any(layers.values())
    held = [(since[key], until[key], 1.0 if even else float(layers[key[0]])) for key in since if key in until]
    steps = course(held)
    most = max((value for _, value in steps), default=0.0)
    return tuple((when, value / most if most else 0.0) for when, value in steps)


def memory_course(plan: StepPlan, spans: Sequence[Span], components: Mapping[str, float]) -> Course:
    """Bytes allocated: activations in proportion to those held, all else as at the peak.

    components   of the stage's peak, allocated ones alone; those named `activations_…` come and go
    """
    moving = sum(size for name, size in components.items() if name.startswith("activations_"))
    rest = sum(components.values()) - moving
    return tuple((when, rest + moving * share) for when, share in activations_held(plan, spans))


def power_courses(
    spans: Sequence[Span], stages: int, total_s: float, *, average_w: float, exposed_w: float, idle_w: float
) -> tuple[Course, ...]:
    """Watts of one GPU of each stage, whose mean over stages and step is `average_w`.

    A stage that computes draws one figure, which makes the mean right; one that only exchanges `exposed_w`, one that
    waits `idle_w`.

    >>> one = Span(0, "compute", "forward", 0, 0, 0.0, 1.0)
    >>> power_courses([one], 1, 2.0, average_w=300.0, exposed_w=200.0, idle_w=100.0)
    (((0.0, 500.0), (1.0, 100.0)),)
    """
    computing = [_union(spans, stage, ("compute",)) for stage in range(stages)]
    using = [_union(spans, stage, ("compute", "data_parallel", "replicas")) for stage in range(stages)]
    busy_s = sum(end - start for own in computing for start, end in own)
    exposed_s = sum(end - start for own in using for start, end in own) - busy_s
    rest_w_s = (average_w - idle_w) * stages * total_s - (exposed_w - idle_w) * exposed_s
    more_w = rest_w_s / busy_s if busy_s else 0.0  # than while only exchanging
    extra = more_w - (exposed_w - idle_w)
    return tuple(
        course(
            [
                *((start, end, exposed_w - idle_w) for start, end in used),
                *((start, end, extra) for start, end in own),
            ],
            idle_w,
        )
        for used, own in zip(using, computing)
    )


def _union(spans: Sequence[Span], stage: int, streams: Sequence[str]) -> list[tuple[float, float]]:
    """Time in which any of the streams of a stage is in use, as intervals apart from each other."""
    own = sorted((one.start_s, one.end_s) for one in spans if one.stage == stage and one.stream in streams)
    found: list[tuple[float, float]] = []
    for start, end in own:
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
