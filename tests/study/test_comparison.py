"""Candidates against the first of them."""

import pytest

from simcluster.errors import InputError
from simcluster.scenario import load_mapping, to_dict
from simcluster.study import compare


@pytest.fixture(scope="module")
def versus(run, catalogue):
    """`versus(change, …)` compares the base scenario with changed ones, changes as `--set` takes them."""
    base = to_dict(run().resolved.scenario)

    def call(*changes, seed=0):
        named = [(str(index), load_mapping(base, sets=sets)) for index, sets in enumerate(((), *changes))]
        return compare(named, catalogue, seed)

    return call


def test_deltas_are_differences_of_the_evaluations(versus):
    one, two = versus(["cluster.fabric=tcp-10"]).candidates
    assert all((delta.value, delta.low, delta.high) == (0, 0, 0) for delta in one.delta.values())
    times = [candidate.evaluation.step.time_s for candidate in (one, two)]
    assert two.delta["step_time_s"].value == pytest.approx(times[1] - times[0])
    rates = [candidate.evaluation.step.tokens_per_s for candidate in (one, two)]
    assert two.delta["s_per_million_tokens"].value == pytest.approx(1e6 / rates[1] - 1e6 / rates[0])


def test_size_and_batch_do_not_hide_in_the_metrics(versus):
    """Twice the nodes and twice the batch: the step is about as long, a token takes half, a GPU's token the same."""
    twice = versus(["cluster.nodes=4", "training.global_batch=128"]).candidates[1]
    assert twice.delta["step_time_s"].relative == pytest.approx(0, abs=0.05)
    assert twice.delta["s_per_million_tokens"].relative == pytest.approx(-0.5, abs=0.03)
    assert twice.delta["gpu_s_per_million_tokens"].relative == pytest.approx(0, abs=0.05)


def test_notes_name_what_is_unlike(versus):
    notes = versus(["cluster.nodes=4", "training.global_batch=128"], ["model.layers=8"], []).notes
    assert notes[0] == "1 has another global batch: compared per token"
    assert notes[1].startswith("1 has 32 GPUs, 0 16: whole clusters are compared; each of its GPUs does ")
    assert notes[2] == "2 trains inline, the baseline inline: unlike jobs, compared per token"
    assert len(notes) == 3


def test_common_evidence_cancels(versus):
    """The step is known to some ten percent, the difference of the two fabrics far better."""
    two = versus(
        ["cluster.fabric=roce-200", "training.parallelism={tp: 8, pp: 1}"],
    ).candidates[1]
    step = two.evaluation.step
    width = two.delta["step_time_s"].high - two.delta["step_time_s"].low
    assert width < step.time_s_p90 - step.time_s_p10


def test_the_baseline_is_the_first(versus):
    comparison = versus([], [])
    assert comparison.baseline is comparison.candidates[0]


def test_every_problem_of_every_candidate(versus):
    with pytest.raises(InputError) as caught:
        versus(["cluster.node=nothing"], [], ["training.software.overrides.x=1", "cluster.fabric=nothing"])
    assert len(caught.value.problems) == 3


def test_seeds_move_the_intervals_of_deltas_only(versus):
    change = ["training.micro_batch=2"]
    one, other = versus(change, seed=1), versus(change, seed=2)
    assert one.verdict == other.verdict
    assert one.candidates[1].delta == versus(change, seed=1).candidates[1].delta
    assert one.candidates[1].delta["step_time_s"].low != other.candidates[1].delta["step_time_s"].low
    assert one.candidates[1].delta["step_time_s"].value == other.candidates[1].delta["step_time_s"].value
