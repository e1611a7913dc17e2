"""The shipped examples: each compares with each, and what they say of wires is what wires can do."""

from itertools import combinations
from pathlib import Path

import pytest

from simcluster.evaluation import evaluate
from simcluster.scenario import apply_what_if, load, load_study
from simcluster.study import compare

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
SCENARIOS = [path for path in FILES if "\ncandidates:" not in path.read_text(encoding="utf-8")]


@pytest.fixture(scope="module")
def evaluations(catalogue):
    return {path.stem: evaluate(load(path), catalogue) for path in SCENARIOS}


def test_there_are_at_least_ten():
    assert len(FILES) >= 10


def test_each_fits_and_its_waterfall_sums(evaluations):
    for name, one in evaluations.items():
        assert one.memory.fits is not False, name
        assert sum(one.waterfall.seconds) == pytest.approx(one.step.time_s, rel=1e-9), name
        assert 0.05 < one.step.mfu < 0.8, name


def test_each_compares_with_every_other(catalogue):
    named = [(path.stem, load(path)) for path in SCENARIOS]
    for pair in combinations(named, 2):
        comparison = compare(pair, catalogue)
        assert comparison.verdict.sentence
        assert {one.name for one in comparison.candidates} == {name for name, _ in pair}


def test_study_with_candidates(catalogue):
    for path in set(FILES) - set(SCENARIOS):
        assert len(compare(load_study(path).candidates, catalogue).candidates) > 1


def test_hdr_and_200_gbit_roce_are_alike_for_llama_65b(evaluations):
    """Both carry 8 x 200 Gbit/s a node and the step hides almost all of it: less than 1 % apart, and named so."""
    hdr, roce = (evaluations[name].step.time_s for name in ("llama-65b-512xa100", "llama-65b-512xa100-roce"))
    assert abs(roce / hdr - 1) < 0.01


@pytest.mark.parametrize(
    ("change", "line_rates"),
    [("roce-200", 400 / 200), ("roce-200-one-nic", 8 * 400 / 200)],
)
def test_llama_33b_slows_by_no_more_than_wires_and_protocols_differ(catalogue, evaluations, change, line_rates):
    """Upper bound: line rates times the ratio of what the two protocols reach of them (RoCE at least 0.8 of IB)."""
    path = EXAMPLES / "llama-1-33b-64xh100.yaml"
    infiniband = evaluations[path.stem]
    roce = evaluate(apply_what_if(load(path), change), catalogue)
    assert 1.0 < roce.step.time_s / infiniband.step.time_s < line_rates / 0.8
    lost = [dict(one.waterfall.items()) for one in (infiniband, roce)]
    grown = {cause: lost[1][cause] - lost[0][cause] for cause in lost[0]}
    assert max(grown, key=lambda cause: grown[cause]) == "data_parallel"
