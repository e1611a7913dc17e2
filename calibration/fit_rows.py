"""Which published runs a fit may read, and what each resolves to."""

from __future__ import annotations

from collections.abc import Iterator

from simcluster.data import data_root
from simcluster.errors import InputError
from simcluster.formats.published import PublishedRow, read_published
from simcluster.formats.published_checks import published_step_time, skip_reason
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import Resolved, resolve
from simcluster.validate.scenario import scenario_of

DATE = "2026-11"  # of the fits
SOURCE = "published training runs marked fit, calibration/published/training.csv"
# Machine -> day before which its runs are left out: "PCI-Express/NUMA was improved today so all TFLOPs have changed for
# the better (1-5%)" (bigscience-workshop/bigscience, train/tr11-176B-ml/chronicles-prequel.md, 25 February 2022).
FAULTY_UNTIL = {"BigScience 176B prequel sweeps (Jean Zay)": "2022-02-25"}


def fit_rows(catalogue: Catalogue) -> Iterator[tuple[PublishedRow, Resolved, float]]:
    """Dense pretraining runs marked `fit` with their micro-batch stated: row, resolved scenario, published seconds."""
    for row in read_published(data_root("calibration") / "published" / "training.csv"):
        published = published_step_time(row)
        if published is None or not _usable(row):
            continue
        try:
            resolved = resolve(scenario_of(row.facts, catalogue).loaded, catalogue)
        except InputError:
            continue
        yield row, resolved, published[0]


def _usable(row: PublishedRow) -> bool:
    """What can be told from the row alone."""
    facts, result = row.facts, row.result
    healthy = facts.date >= FAULTY_UNTIL.get(result.source, "")
    stated = facts.micro_batch is not None and not facts.experts
    return result.split == "fit" and stated and healthy and skip_reason(row) is None
