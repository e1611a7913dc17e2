"""Step programs of every schedule against a walk through their orders, and what follows the last chunk."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.engine.des import simulate
from simcluster.engine.maxplus import solve
from simcluster.engine.period import step_time
from simcluster.parallel.schedules import stage_orders, zb_h2
from simcluster.parallel.schedules.order import BACKWARD, FORWARD, INPUT, WEIGHT
from simcluster.program.step import POSITIONS, StepProgram, StepShape, step_program

SCHEDULES = ("gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1", "zb-h2", "dualpipe")


@dataclass(frozen=True)
class Job:
    """A pipeline with times by stage [s]: forward, input gradients, weight gradients; a pair and a message."""

    schedule: str
    pp: int
    m: int
    v: int = 1
    forward: tuple[float, ...] | float = 1.0
    inputs: tuple[float, ...] | float = 1.0
    weights: tuple[float, ...] | float = 1.0
    pair: float | None = None
    message: float = 0.0

    def program(self) -> StepProgram:
        chunks = 2 if self.schedule == "dualpipe" else self.v
        none = ((0,) * chunks,) * self.pp
        name = "1f1b" if self.schedule == "interleaved" else self.schedule
        return step_program(StepShape(name, self.pp, self.m, chunks, None, none, none, True, False, False))

    def times(self, program: StepProgram) -> tuple[np.ndarray, np.ndarray]:
        """(virtual stages,) of forward, whole backward, weight and input gradients, in that order of kinds; lag."""
        f, i, w = (np.broadcast_to(np.asarray(x, dtype=float), (self.pp,)) for x in
                   (self.forward, self.inputs, self.weights))  # fmt: skip
        order = np.arange(program.parts)
        held = order % self.pp
        if self.schedule == "dualpipe":  # the second chunk is the mirror image
            held = np.where(order < self.pp, held, self.pp - 1 - held)
        by_kind = np.stack([f, i + w, w, i])[:, held] / self.v
        return by_kind, np.asarray(self.message)

    def tables(self, program: StepProgram) -> tuple[np.ndarray, np.ndarray]:
        by_kind, message = self.times(program)
        durations, lags = np.zeros((program.duration_rows, 1)), np.zeros((program.lag_rows, 1))
        for kind in range(program.kinds):
            for part in range(program.parts):
                first = program.chunk_row(kind, part, 0)
                durations[first : first + POSITIONS] = by_kind[kind, part]
        if program.shape.two_way:
            for part in range(program.parts):
                first, other = (
                    program.pair_row(part, (part + self.pp) % program.parts, 0),
                    (part + self.pp) % program.parts,
                )
                both = by_kind[FORWARD, part] + by_kind[BACKWARD, other]
                durations[first : first + POSITIONS] = both if self.pair is None else self.pair
        for kind in (FORWARD, BACKWARD):
            for part in range(program.parts):
                target = program.receiver(kind, part)
                if target >= 0:
                    lags[program.message_lag(kind, target)] = message
        return durations, lags

    def ends(self) -> np.ndarray:
        program = self.program()
        return solve(program.graph, *self.tables(program))[:, 0]

    def step_s(self) -> float:
        return float(self.ends().max())

    def period_s(self) -> float:
        program = self.program()
        durations, lags = self.tables(program)
        ends = solve(program.graph, durations, lags)
        return float(step_time(program, ends, durations[program.graph.duration], lags)[0])


Operation = tuple[int, int, int]  # kind, micro-batch, virtual stage


class Walk:
    """Goes round the stages until all operations have run; `ends` says when."""

    def __init__(self, job: Job) -> None:
        self.job, self.program = job, job.program()
        self.by_kind, self.message = job.times(self.program)
        self.ends: dict[Operation, float] = {}

    def needed(self, op: Operation) -> float | None:
        """When what an operation waits for is there; None if that is not known yet."""
        kind, micro, part = op
        if kind == WEIGHT:
            return self.ends.get((INPUT, micro, part))
        senders = [x for x in range(self.program.parts) if self.program.receiver(min(kind, 1), x) == part]
        if not senders:
            return 0.0 if kind == FORWARD else self.ends.get((FORWARD, micro, part))
        kinds = (FORWARD,) if kind == FORWARD else (BACKWARD, INPUT)  # a neighbour may run it whole or apart
        found = [self.ends[one, micro, senders[0]] for one in kinds if (one, micro, senders[0]) in self.ends]
        return found[0] + float(self.message) if found else None

    def step(self, ops: list[Operation], free: float) -> float | None:
        """Runs an operation, or a pair; returns its end."""
        waits = [self.needed(op) for op in ops]
        if None in waits:
            return None
        spent = sum(float(self.by_kind[kind, part]) for kind, _, part in ops)
        spent = self.job.pair if len(ops) == 2 and self.job.pair is not None else spent
        end = max(free, *waits) + spent
        self.ends.update(dict.fromkeys(ops, end))
        return end

    def run(self) -> dict[Operation, float]:
        left = []
        for stage, order in enumerate(
            stage_orders(self.program.shape.schedule, self.job.pp, self.job.m, self.program.shape.virtual_stages)
        ):
            ops = list(zip(order.kind.tolist(), order.micro.tolist(), (order.chunk * self.job.pp + stage).tolist()))
            second = set((order.pairs + 1).tolist())
            left.append([ops[i : i + 1 + (i + 1 in second)] for i in range(len(ops)) if i not in second])
        free = [0.0] * self.job.pp
        while any(left):
            moved = False
            for stage, batches in enumerate(left):
                while batches and (end := self.step(batches[0], free[stage])) is not None:
                    free[stage], moved = end, True
                    del batches[0]
            assert moved, "the orders wait for each other"
        return self.ends


# Closed forms and examples


@pytest.mark.parametrize(
    ("job", "seconds"),
    [
        (Job("gpipe", 4, 8), 33),
        (Job("1f1b", 4, 8), 33),
        (Job("interleaved", 4, 8, 2), 28.5),
        (Job("interleaved", 8, 16, 3), 55),
        (Job("interleaved", 4, 12, 4), 38.25),
        (Job("breadth-first", 4, 8, 2), 28.5),
        (Job("zb-h1", 4, 8), 27),
        (Job("zb-h1", 4, 8, 1, 1.0, 1.2, 0.8), 28.2),
        (Job("dualpipe", 8, 20), 66),
        (Job("dualpipe", 16, 40), 134),
        (Job("gpipe", 4, 8, message=0.1), 33.6),
        (Job("1f1b", 4, 8, message=0.1), 34.6),
        (Job("1f1b", 4, 16, message=0.1), 59.8),
        (Job("1f1b", 8, 32, message=0.1), 123.8),
        (Job("interleaved", 4, 8, 2, message=0.1), 29.9),
        (Job("1f1b", 4, 8, 1, (1, 1, 1, 1.25), (1, 1, 1, 1.25), (1, 1, 1, 1.25)), 39.0),
        (Job("1f1b", 4, 8, 1, (1.25, 1, 1, 1), (1.25, 1, 1, 1), (1.25, 1, 1, 1)), 36.75),
    ],
    ids=str,
)
def test_examples(job, seconds):
    assert job.step_s() == pytest.approx(seconds, rel=1e-12)


TIMES = st.floats(0.1, 4.0)


@given(st.integers(2, 6), st.integers(0, 8), TIMES, TIMES, TIMES)
def test_zb_h2_with_unequal_times_is_never_below_the_closed_form(pp, more, forward, inputs, weights):
    m = 2 * pp - 1 + more
    closed = m * (forward + inputs + weights) + zb_h2.bubble_s(pp, forward, inputs, weights)
    assert Job("zb-h2", pp, m, 1, forward, inputs, weights).period_s() >= closed * (1 - 1e-12)


def test_zb_h2_written_for_its_times():
    """List scheduling comes 0.4 above the hand-written order of the paper."""
    (seconds, busy) = ({FORWARD: 1.0, INPUT: 1.2, WEIGHT: 0.8}, 24.0)
    orders = zb_h2.orders(4, 8, (1.0, 1.2, 0.8))
    ends, starts, free, place = {}, [[] for _ in orders], [0.0] * 4, [0] * 4
    while any(place[stage] < len(order) for stage, order in enumerate(orders)):
        for stage, order in enumerate(orders):
            while place[stage] < len(order):
                kind, micro = int(order.kind[place[stage]]), int(order.micro[place[stage]])
                before = {FORWARD: (FORWARD, stage - 1), INPUT: (INPUT, stage + 1), WEIGHT: (INPUT, stage)}[kind]
                before = (FORWARD, stage) if before == (INPUT, 4) else before
                needed = 0.0 if before == (FORWARD, -1) else ends.get((*before, micro))
                if needed is None:
                    break
                starts[stage].append(max(free[stage], needed))
                free[stage] = ends[kind, stage, micro] = starts[stage][-1] + seconds[kind]
                place[stage] += 1
    window = max(end - begun[0] for end, begun in zip(free, starts))
    assert window - busy == pytest.approx(2.2, rel=1e-9)
    assert zb_h2.bubble_s(4, 1.0, 1.2, 0.8) == pytest.approx(1.8)


@given(st.integers(2, 6), st.integers(1, 12), st.floats(0.5, 4.0), st.data())
def test_unequal_stages_of_1f1b_lie_between_the_bounds(pp, m, ratio, data):
    """The upper bound holds for one ratio of backward to forward; with any, longest forward and backward bound it."""
    draw = st.lists(TIMES, min_size=pp, max_size=pp).map(tuple)
    forward = data.draw(draw)
    for like, back in ((True, tuple(ratio * one / 2 for one in forward)), (False, data.draw(draw))):
        both = np.array(forward) + 2 * np.array(back)
        seconds = Job("1f1b", pp, m, 1, forward, back, back).step_s()
        assert max(both[:stage].sum() + m * both[stage] for stage in range(pp)) <= seconds * (1 + 1e-12)
        most = both.max() if like else max(forward) + 2 * max(back)
        assert seconds <= (both.sum() + (m - 1) * most) * (1 + 1e-12)


# Any schedule, any times


@st.composite
def jobs(draw) -> Job:
    schedule = draw(st.sampled_from(SCHEDULES))
    pp = draw(st.sampled_from([2, 4, 6]) if schedule == "dualpipe" else st.integers(2, 5))
    v = draw(st.integers(2, 3)) if schedule in ("interleaved", "breadth-first") else 1
    m = draw(st.integers(1, 10))
    m = 2 * (pp + m // 3) if schedule == "dualpipe" else pp * (1 + m % 3) if schedule == "interleaved" else m
    several = st.lists(TIMES, min_size=pp, max_size=pp).map(tuple)
    pair = draw(st.none() | TIMES) if schedule == "dualpipe" else None
    return Job(schedule, pp, m, v, draw(several), draw(several), draw(several), pair, draw(st.floats(0, 1)))


def by_operation(job: Job) -> dict[tuple[int, int, int], float]:
    program, ends = job.program(), job.ends()
    count = program.chunk_tasks
    keys = zip(program.kind.tolist(), program.micro.tolist(), program.virtual_stage.tolist())
    return dict(zip(keys, ends[:count].tolist(), strict=True))


@given(jobs())
def test_programs_do_what_the_orders_say(job):
    found, expected = by_operation(job), Walk(job).run()
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key], rel=1e-12) for key in found)


# Gradients and optimizer


def with_buckets(schedule: str, pp: int, m: int, bucket_s: float, optimizer_s: float) -> tuple[StepProgram, np.ndarray]:
    """One bucket a chunk, no message; ends of all tasks."""
    chunks = 2 if schedule == "dualpipe" else 1
    shape = StepShape(schedule, pp, m, chunks, None, ((1,) * chunks,) * pp, ((0,) * chunks,) * pp, True, False, False)
    program = step_program(shape)
    durations, lags = Job(schedule, pp, m).tables(program)
    durations[program.bucket_base : program.gather_base] = bucket_s
    durations[program.optimizer_base : program.wire_base] = optimizer_s
    return program, solve(program.graph, durations, lags)[:, 0]


@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1", "zb-h2", "dualpipe"])
def test_a_bucket_goes_once_the_last_weight_gradients_are_there(schedule):
    program, ends = with_buckets(schedule, 4, 8, 0.25, 0.0)
    makes = np.isin(program.kind, (BACKWARD, WEIGHT))
    free = np.zeros(4)
    for row, (stage, chunk, _) in enumerate(program.bucket_rows):
        mine = makes & (program.virtual_stage == chunk * 4 + stage)
        ready = ends[: program.chunk_tasks][mine].max()
        task = program.chunk_tasks + row
        free[stage] = max(free[stage], ready) + 0.25
        assert ends[task] == pytest.approx(free[stage], rel=1e-12)


def test_only_zb_h2_steps_each_stage_by_itself():
    for schedule, alone in (("zb-h1", False), ("zb-h2", True)):
        program, ends = with_buckets(schedule, 4, 8, 0.0, 0.5)
        steps = ends[-4:] - 0.5
        chunks = program.virtual_stage
        own = np.array([ends[: program.chunk_tasks][chunks == stage].max() for stage in range(4)])
        np.testing.assert_allclose(steps, own if alone else own.max(), rtol=1e-12)


@st.composite
def whole_steps(draw) -> tuple[StepProgram, np.ndarray, np.ndarray]:
    """Any schedule with buckets, gathers, blocking messages, norm, tied embedding and optimizer."""
    job = draw(jobs())
    chunks = len(job.program().shape.grad_buckets[0])
    counts = st.lists(st.integers(0, 2), min_size=chunks, max_size=chunks).map(tuple)
    several = st.lists(counts, min_size=job.pp, max_size=job.pp).map(tuple)
    ends = draw(st.none() | st.lists(st.integers(0, job.pp - 1), min_size=2, max_size=2, unique=True).map(tuple))
    flags = [draw(st.booleans()) for _ in range(3)]
    bare = job.program().shape
    shape = StepShape(
        bare.schedule,
        job.pp,
        job.m,
        chunks,
        None,
        draw(several),
        draw(several),
        *flags,
        ends=ends if flags[2] else None,
    )
    program = step_program(shape)
    durations, lags = job.tables(program)
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    durations[program.bucket_base :] = random.uniform(0, 2, (len(durations) - program.bucket_base, 1))
    own = slice(2 * program.parts, program.release_base)
    lags[own] = random.uniform(0, 1, lags[own].shape) * draw(st.booleans())
    for base, rows, forward in (
        (program.release_base, program.bucket_rows, False),
        (program.need_base, program.gather_rows, True),
    ):
        for row, (stage, chunk, _) in enumerate(rows):
            part = chunk * job.pp + stage
            kind = FORWARD if forward else program.gradient_kind[part]
            lags[base + row] = -random.uniform(0, 1) * durations[program.chunk_row(kind, part, 0), 0]
    return program, durations, lags


@given(whole_steps())
def test_both_engines_agree_on_whole_steps(case):
    program, durations, lags = case
    run = simulate(program.graph, durations[:, 0], lags[:, 0])
    ends = solve(program.graph, durations, lags)
    np.testing.assert_allclose(run.ends, ends[:, 0], rtol=1e-12)
    planned = step_time(program, ends, durations[program.graph.duration], lags)
    spent = run.ends - run.starts - run.stalled
    simulated = step_time(program, run.ends[:, None], spent[:, None], lags)
    assert simulated == pytest.approx(planned, rel=1e-12)
    assert (planned <= ends.max(axis=0) * (1 + 1e-12)).all()
