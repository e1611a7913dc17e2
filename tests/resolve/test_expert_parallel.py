"""Expert parallelism: degrees that are legal, and uneven routing."""

import pytest

from simcluster.errors import InputError

EXPERTS = {
    "model": {"experts": 16, "top_k": 2, "expert_ffn": 2048},
    "training": {"parallelism": {"tp": 1, "pp": 1, "ep": 8, "sequence_parallel": False}},
}


def with_training(**changes):
    training = dict(EXPERTS["training"]) | changes
    return dict(EXPERTS) | {"training": training}


def test_uneven_routing_lengthens_expert_work_and_exchanges_alone(run):
    even, uneven = run(EXPERTS), run(with_training(expert_imbalance=1.5))
    lost = [dict(one.waterfall.items()) for one in (even, uneven)]
    assert uneven.step.time_s > even.step.time_s
    assert lost[1]["expert_context_parallel"] == pytest.approx(1.5 * lost[0]["expert_context_parallel"], rel=0.1)
    assert lost[1]["kernel_inefficiency"] > lost[0]["kernel_inefficiency"]
    assert lost[1]["ideal"] == lost[0]["ideal"]
    assert lost[1]["data_parallel"] == pytest.approx(lost[0]["data_parallel"], rel=0.2)


def test_balance_is_an_assumption_where_nobody_stated_it(run):
    assert "training.expert_imbalance" in {one.path for one in run(EXPERTS).resolved.assumptions}
    stated = run(with_training(expert_imbalance=1.2)).resolved.assumptions
    assert "training.expert_imbalance" not in {one.path for one in stated}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expert_imbalance": 9}, "9 is more than ep 8"),
        ({"expert_imbalance": 0.5}, "1 or more|at least 1|greater than or equal to 1"),
        ({"expert_imbalance": 1.5, "parallelism": {"tp": 1, "pp": 1, "ep": 1}}, "ep is 1"),
        ({"parallelism": {"tp": 1, "pp": 1, "ep": 5}}, "5 does not divide 16 experts"),
        ({"parallelism": {"tp": 1, "pp": 2, "ep": 16}}, "does not divide"),
    ],
)
def test_what_cannot_be_is_refused(run, change, words):
    with pytest.raises(InputError, match=words):
        run(with_training(**change))
