"""Batch, micro-batch and accumulation: what is absent follows, what is stated must agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simcluster.errors import InputError
from simcluster.resolve.batch import settle_batch
from simcluster.resolve.trail import Trail
from simcluster.scenario.training import Training
from simcluster.timing.software import SoftwareFamily

NO_BATCH = ("training.global_batch=null", "training.micro_batch=null")


def why(resolved, path):
    return {one.path: one.why for one in resolved.assumptions}[path]


def test_accumulation_states_the_batch(settle):
    resolved = settle("training.global_batch=null", "training.gradient_accumulation_steps=6")
    layout = resolved.layout
    assert (layout.sequences, layout.micro_batch, layout.micro_batches) == (2 * 6 * 4, 2, 6)
    assert why(resolved, "training.global_batch") == "micro_batch 2 x gradient_accumulation 6 x dp 4"


def test_accumulation_states_the_micro_batch(settle):
    resolved = settle("training.micro_batch=auto", "training.gradient_accumulation=2")
    assert (resolved.layout.micro_batch, resolved.layout.micro_batches) == (4, 2)
    assert why(resolved, "training.micro_batch") == "32 sequences / (dp 4 x gradient_accumulation 2)"


def test_accumulation_alone(settle):
    layout = settle(*NO_BATCH, "training.gradient_accumulation=3").layout
    assert (layout.sequences, layout.micro_batch, layout.micro_batches) == (12, 1, 3)


def test_accumulation_that_agrees_is_silent_and_one_that_does_not_names_every_factor(settle, refused):
    assert settle("training.gradient_accumulation=4").layout == settle().layout
    (problem,) = refused("training.gradient_accumulation=5")
    assert "micro_batch 2 x gradient_accumulation 5 x dp 4 = 40, but global_batch is 32" in problem
    (problem,) = refused("training.micro_batch=auto", "training.gradient_accumulation=3")
    assert "micro_batch 2 x gradient_accumulation 3 x dp 4 = 24, but global_batch is 32" in problem


@pytest.mark.parametrize(
    ("rule", "batch", "size"), [("one", 32, 1), ("whole", 32, 8), ("per-stage", 32, 4), ("per-stage", 36, 3)]
)
def test_an_unstated_micro_batch_is_the_softwares(settle, rule, batch, size):
    sets = (f"training.global_batch={batch}", "training.micro_batch=auto")
    resolved = settle(*sets, f"training.software.overrides.default_micro_batch={rule}")
    assert resolved.layout.micro_batch == size
    assert "training.micro_batch" in {one.path for one in resolved.assumptions}


def test_a_batch_of_tokens_is_whole_micro_batches(settle, refused):
    resolved = settle("training.global_batch=70000 tokens")  # 68.4 sequences, micro_batch 2 x dp 4
    assert resolved.layout.sequences == 72
    assert "training.global_batch.sequences" in {one.path for one in resolved.assumptions}
    (problem,) = refused("training.global_batch=2000 tokens")
    assert "2000 tokens are 1.95312 sequences of 1024, less than micro_batch 2 x dp 4 = 8 sequences" in problem


SIZES = st.integers(1, 64)


@given(batch=st.integers(1, 4096), dp=SIZES, pp=st.integers(1, 8), micro=SIZES | st.none(), times=SIZES | st.none(),
       rule=st.sampled_from(["one", "per-stage", "whole"]))  # fmt: skip
def test_what_is_settled_fits(batch, dp, pp, micro, times, rule):
    """batch = micro_batch x micro_batches x dp, with whatever was stated; or a problem."""
    stated = {"global_batch": batch, "micro_batch": micro or "auto", "gradient_accumulation": times}
    training, trail = Training.model_validate(stated), Trail()
    family = SoftwareFamily("x", default_micro_batch=rule)
    settled = settle_batch(training, 1024, dp, pp, family, trail)
    possible = batch % dp == 0 and (batch // dp) % ((micro or 1) * (times or 1)) == 0
    possible = possible and (not micro or not times or batch == micro * times * dp)
    assert (settled is not None) == possible
    if settled is None:
        with pytest.raises(InputError):
            trail.stop()
        return
    trail.stop()
    assert settled.sequences == batch == settled.micro_batch * settled.micro_batches * dp
    assert micro in (None, settled.micro_batch)
    assert times in (None, settled.micro_batches)


def test_layers_of_a_virtual_stage_state_their_number(settle, refused):
    layout = "training.parallelism={tp: 2, pp: 2, num_layers_per_virtual_pipeline_stage: %d}"
    resolved = settle(layout % 2)
    assert resolved.layout.virtual_stages == 2
    assert [[chunk.layers for chunk in stage] for stage in resolved.plan.contents] == [[2, 2], [2, 2]]
    assert why(resolved, "training.parallelism.virtual_stages") == "8 layers / (pp 2 x 2 layers)"
    (problem,) = refused(layout % 3)
    assert "pp 2 x 3 layers = 6 does not divide the 8 layers; use 1, 2, 4" in problem
    (problem,) = refused((layout % 2).replace("}", ", virtual_stages: 4}"))
    assert "8 layers / (pp 2 x 2) = 2, but virtual_stages is 4" in problem
