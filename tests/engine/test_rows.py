"""Reused rows against the plain solver, to the bit, and against networkx through it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simcluster.engine import compiled, maxplus
from simcluster.engine.maxplus import distinct, last_tasks, makespan, solve, solve_rows
from simcluster.engine.rows import row_program
from simcluster.program.graph import NO_LAG, SOURCE, GraphBuilder
from simcluster.program.step import StepShape, step_program


@st.composite
def programs(draw):
    """A random graph and tables of several columns; some lags are the same in all."""
    count, columns = draw(st.integers(1, 14)), draw(st.integers(1, 9))
    rows = draw(st.integers(1, 4))
    builder = GraphBuilder()
    for task in range(count):
        producers = draw(st.lists(st.integers(SOURCE, task - 1), max_size=4))
        lags = draw(st.lists(st.integers(NO_LAG, rows - 1), min_size=len(producers), max_size=len(producers)))
        builder.add(task, draw(st.integers(0, 2)), list(zip(producers, lags)))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    lags = random.uniform(-1.0, 2.0, (rows, columns))
    same = random.random(rows) < 0.5
    lags[same] = lags[same, :1]
    durations = random.uniform(0.0, 3.0, (count, columns)) * (random.random((count, 1)) < 0.8)
    return builder.finish(), durations, lags


@given(programs(), st.integers(1, 10), st.data())
@settings(max_examples=150, deadline=None)
def test_rows_give_the_bits_of_the_plain_solver_whatever_the_block(program, block, data):
    graph, durations, lags = program
    plain = solve(graph, durations, lags)
    assert (solve_rows(graph, durations, lags, block=block) == plain).all()
    tasks = data.draw(st.lists(st.integers(0, len(graph) - 1), max_size=4))
    assert (solve_rows(graph, durations, lags, tasks, block) == plain[tasks]).all()
    assert (makespan(graph, durations, lags) == plain.max(axis=0)).all()


@given(programs())
@settings(deadline=None)
def test_one_column_of_lags_holds_for_all(program):
    graph, durations, lags = program
    whole = np.repeat(lags[:, :1], durations.shape[1], axis=1)
    assert (solve_rows(graph, durations, lags[:, :1]) == solve(graph, durations, whole)).all()
    assert (makespan(graph, durations, lags[:, :1]) == makespan(graph, durations, whole)).all()


@given(programs())
@settings(max_examples=30, deadline=None)
def test_the_compiled_kernel_gives_the_same_bits(program):
    pytest.importorskip("numba")
    from simcluster.engine.compiled import compiled_kernel

    graph, durations, lags = program
    found = solve_rows(graph, durations, lags, kernel=compiled_kernel())
    assert (found == solve(graph, durations, lags)).all()


def step(pp=8, micro_batches=32, virtual=2):
    counts = ((1,) * virtual,) * pp
    return step_program(StepShape("1f1b", pp, micro_batches, virtual, None, counts, counts, True, True, False))


def test_a_pipeline_needs_few_rows():
    """About two a stage; one more for each task that is kept."""
    program = step()
    last = [len(program.graph) - 1]
    assert row_program(program.graph, last).rows <= 3 * 8 + 4
    assert row_program(program.graph, last) is row_program(program.graph, last)


def test_a_step_of_many_columns():
    program, random = step(), np.random.default_rng(0)
    durations = random.uniform(0.9, 1.1, (program.duration_rows, 300))
    lags = np.zeros((program.lag_rows, 300))
    lags[: program.release_base] = 0.01
    lags[program.release_base :] = random.uniform(-0.5, 0.0, (program.lag_rows - program.release_base, 300))
    plain = solve(program.graph, durations, lags)
    kept = [0, program.chunk_tasks - 1, len(program.graph) - 1]
    assert (solve_rows(program.graph, durations, lags, kept, block=128) == plain[kept]).all()
    assert (makespan(program.graph, durations, lags) == plain.max(axis=0)).all()


def test_what_ends_last_is_never_waited_for_by_a_lag_of_zero_or_more():
    build = GraphBuilder()
    early = build.add(0)
    build.add(1, after=[(early, 0)])
    graph = build.finish()
    assert last_tasks(graph, np.array([[-1.0]])) == [0, 1]
    assert last_tasks(graph, np.array([[0.5]])) == [1]
    assert makespan(graph, np.array([[3.0], [1.0]]), np.array([[-2.5]])).tolist() == [3.0]


def test_no_tasks_and_no_columns():
    empty = GraphBuilder().finish()
    assert makespan(empty, np.zeros((1, 2))).tolist() == [0.0, 0.0]
    assert makespan(step().graph, np.zeros((500, 0)), np.zeros((500, 1))).shape == (0,)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=20))
def test_distinct_rows_stand_for_all(rows):
    table = np.array(rows, dtype=float)
    first, number = distinct(table)
    assert (table[first][number] == table).all()
    assert len(first) == len(set(rows))
    assert (np.diff(first) > 0).all()


def test_rows_of_one_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(maxplus, "_keys", lambda rows: np.zeros(len(rows), dtype=np.uint64))
    first, number = distinct(np.array([[2.0, 1.0], [1.0, 1.0], [2.0, 1.0]]))
    assert first.tolist() == [0, 1]
    assert number.tolist() == [0, 1, 0]


def test_a_folder_named_as_the_compiler_is_not_it(monkeypatch):
    monkeypatch.setattr(compiled, "find_spec", lambda name: SimpleNamespace(origin=None))
    assert compiled.kernel_for(1e12) is None
    assert compiled.kernel_for(1.0) is None
