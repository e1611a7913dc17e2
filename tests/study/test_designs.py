"""`simcluster.compare` takes designs in whatever form they are at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from simcluster import compare, load, load_study
from simcluster.errors import InputError, UsageError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JOB = EXAMPLES / "llama-1-33b-64xh100.yaml"
STUDY = EXAMPLES / "llama-1-33b-64xh100-fabrics.yaml"
NAME = "llama-1-33b-64xh100"


def names(comparison):
    return [one.name for one in comparison.candidates]


def test_every_form_gives_the_same(catalogue):
    job = load(JOB)
    slow = job.what_if("roce-200")
    forms = [
        (job, slow),
        ([job, slow],),
        ([(NAME, job), (f"{NAME}, roce-200", slow)],),
        ({NAME: job, f"{NAME}, roce-200": slow},),
        (JOB, slow),
        (str(JOB), slow),
    ]
    for form in forms:
        comparison = compare(*form, catalogue=catalogue)
        assert names(comparison) == [NAME, f"{NAME}, roce-200"]
        assert comparison.verdict == compare(job, slow, catalogue=catalogue).verdict


def test_a_study_gives_its_candidates(catalogue):
    assert names(compare(STUDY, catalogue=catalogue)) == ["infiniband-400", "roce-200"]
    assert names(compare(load_study(STUDY), catalogue=catalogue)) == ["infiniband-400", "roce-200"]


def test_names_are_made_unique(catalogue):
    assert names(compare(JOB, JOB, JOB, catalogue=catalogue)) == [NAME, f"{NAME} (2)", f"{NAME} (3)"]


@pytest.mark.parametrize("designs", [(), (JOB,), ([],), ({},)])
def test_one_design_is_no_comparison(designs):
    with pytest.raises(UsageError, match="two designs or more"):
        compare(*designs)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"nowhere\.yaml"):
        compare("nowhere.yaml", JOB)
