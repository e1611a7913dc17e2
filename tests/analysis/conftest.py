"""Small pipelines and where their nodes lie."""

from __future__ import annotations

import numpy as np
import pytest

from simcluster.engine.paced import plain_step
from simcluster.program.step import StepShape, step_program


@pytest.fixture(scope="session")
def pipeline():
    """`pipeline(pp, micro_batches)`: equal stages, forward 1, backward 2, nothing else."""

    def of(pp, micro_batches):
        none = ((0,),) * pp
        program = step_program(StepShape("1f1b", pp, micro_batches, 1, None, none, none, True, False, False))
        durations = np.zeros(program.duration_rows)
        durations[: program.bucket_base] = np.repeat([1.0, 2.0], program.bucket_base // 2)
        return plain_step(program, durations)

    return of


@pytest.fixture(scope="session")
def grid():
    """`grid(replicas, pp)`: a node for each stage of each replica."""
    return lambda replicas, pp=1: np.arange(replicas * pp).reshape(replicas, pp, 1)
