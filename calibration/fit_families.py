"""Fits what only whole runs tell about a software family: the host's cost of issuing a kernel.

python calibration/fit_families.py [--show]

Writes calibration/software/fitted/families.yaml. It takes the published runs marked `fit` (dense pretraining, micro-
batch stated) whose predicted step depends on that cost, at the sustained rates that fit_sustained.py found, and moves
the cost between 0.25 and 10 times the documented prior. Families with fewer than five such runs keep the prior.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np
from fit_rows import DATE, SOURCE, fit_rows

from simcluster.calibrate.sustained import FactorFit, fit_factor
from simcluster.engine.step import solve_step
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import Resolved
from simcluster.timing.fitted import fitted_path
from simcluster.timing.software import load_family
from simcluster.timing.software import resolve as for_generation

FACTORS = np.exp(np.linspace(np.log(0.25), np.log(10.0), 15))  # of the prior
PRIOR_SPREAD = 0.7  # standard deviation of ln(cost): the prior is known within a factor of two
SENSITIVE = 0.02  # a run counts if the dearest cost changes its step by more than this
FEWEST = 5


@dataclass(frozen=True)
class Sample:
    """One run: ln(predicted/published) for each factor on the family's documented cost."""

    family: str
    generation: str
    prior_s: float
    log_ratio: np.ndarray


def sample(resolved: Resolved, published_s: float) -> Sample | None:
    """The run for every factor, or None if it does not depend on the cost."""
    generation = resolved.cluster.node.gpu.generation
    prior = for_generation(load_family(resolved.family.id), generation).host_issue_s
    if resolved.machine.host_issue_s == 0.0 or prior == 0.0:
        return None
    times = [
        float(solve_step(resolved.plan, replace(resolved.machine, host_issue_s=prior * factor)).total[0])
        for factor in FACTORS
    ]
    if times[-1] < (1 + SENSITIVE) * times[0]:
        return None
    return Sample(resolved.family.id, generation, prior, np.log(np.array(times) / published_s))


def fit(samples: list[Sample]) -> FactorFit:
    """Cost of one family as a factor on its prior, on a logarithmic scale."""
    ratios = np.array([one.log_ratio for one in samples])
    weights = np.full(len(samples), len(samples) ** -0.5)
    low, high = np.log(FACTORS[0]), np.log(FACTORS[-1])
    found = fit_factor(np.log(FACTORS), ratios, weights, 0.0, PRIOR_SPREAD, low, high)
    return replace(found, value=float(np.exp(found.value)), sigma=abs(found.sigma * found.value))


def main() -> int:
    """Fits every family that has enough runs and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print only, write nothing")
    show = parser.parse_args().show
    groups: dict[str, list[Sample]] = defaultdict(list)
    for _, resolved, published_s in fit_rows(Catalogue.load()):
        one = sample(resolved, published_s)
        if one is not None:
            groups[one.family].append(one)
    lines = ["# Written by calibration/fit_families.py."]
    for family, samples in sorted(groups.items()):
        if len(samples) < FEWEST:
            print(f"{family}: {len(samples)} runs, too few: the prior stays")
            continue
        found, prior = fit(samples), samples[0].prior_s
        print(
            f"{family}: {found.value * prior * 1e6:.1f} us a kernel (prior {prior * 1e6:.1f}), {found.rows} runs, "
            f"median error there {found.median_absolute_error:.3f}"
        )
        lines += [
            f"{family}:",
            f"  host_issue_s: {{value: {found.value * prior:.3e}, sigma: {found.sigma:.3f}, "
            f"low: {FACTORS[0] * prior:.3e}, high: {FACTORS[-1] * prior:.3e}, rows: {found.rows}, "
            f'source: "{SOURCE}", date: "{DATE}", kind: estimate}}',
        ]
    if not show:
        fitted_path().write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
