"""The engine of the actual step: what it changes, and what not."""

from pathlib import Path

import numpy as np
import pytest

from simcluster.analysis.waterfall import CAUSES
from simcluster.evaluation import evaluate
from simcluster.reports.records import evaluation_record
from simcluster.scenario import load

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def both(name, catalogue):
    loaded = load(EXAMPLES / f"{name}.yaml")
    return evaluate(loaded, catalogue), evaluate(loaded, catalogue, "des")


@pytest.mark.parametrize("name", ["llama-3-8b-8xh100", "llama-2-13b-64xb200", "llama-3-70b-32xh100"])
def test_where_no_exchanges_meet_both_agree(name, catalogue):
    planned, run = both(name, catalogue)
    assert run.step.time_s == pytest.approx(planned.step.time_s, rel=1e-12)


def test_where_they_meet_the_events_are_later_and_the_exchange_pays(catalogue):
    planned, run = both("llama-3-405b-16384xh100", catalogue)
    later = run.step.time_s - planned.step.time_s
    assert 0 < later < 0.03 * planned.step.time_s
    gaps = np.subtract(run.waterfall.seconds, planned.waterfall.seconds)
    assert gaps[CAUSES.index("data_parallel")] == pytest.approx(later)
    assert run.waterfall.total_s == pytest.approx(run.step.time_s, rel=1e-9)
    assert np.count_nonzero(np.abs(gaps) > 1e-12) == 1


def test_the_answer_names_its_engine(catalogue):
    planned, run = both("llama-3-8b-8xh100", catalogue)
    assert [evaluation_record(one)["engine"] for one in (planned, run)] == ["max-plus", "des"]
