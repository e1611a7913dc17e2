"""Fits the sustained GEMM rate of each GPU generation on the published runs marked `fit`.

python calibration/fit_sustained.py [--show]

Writes calibration/software/fitted/sustained.yaml. A run counts if it is dense pretraining in 16-bit precision under a
framework of the Megatron family with its micro-batch stated, and if its kernels are long enough that the cost of
launching them (which nobody measured) does not decide its step time. Left out are heads of unfused attention that no
tensor core loads whole, and runs of a machine before a fault of it was mended.

Runs of one software family share an error about as large as their own scatter (machines, libraries, clocks), so a
family of n runs weighs n/(n + 1): families vote, not rows.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from fit_rows import DATE, SOURCE, fit_rows

from simcluster.calibrate.sustained import FactorFit, family_weights, fit_factor
from simcluster.data import data_root
from simcluster.engine.step import solve_step
from simcluster.formats.published import PublishedRow
from simcluster.hardware.catalogue import Catalogue
from simcluster.resolve import Resolved
from simcluster.timing.fitted import fitted_fields
from simcluster.timing.sustained import load_sustained

FAMILIES = ("megatron", "nemo", "mlperf-nemo")
GRID = np.linspace(0.5, 1.0, 11)
PRECISIONS = ("bf16", "fp16")
HOST_STRESS = {True: 2.0, False: 8.0}  # launch costs this many times the fitted value, or the prior, ...
HOST_LIMIT = 0.02  # ... must not change the step by more than this
ALIGNED = 8  # elements: tensor cores load whole groups; unfused attention with other heads was never measured


@dataclass(frozen=True)
class Sample:
    """One run: ln(predicted/published) on the grid of factors."""

    family: str
    generation: str
    log_ratio: np.ndarray


def step_s(resolved: Resolved, rate: float, host: float = 1.0) -> float:
    """Step time of a resolved scenario at a sustained rate and a multiple of the launch cost."""
    machine = replace(resolved.machine, gemm_rate=rate, host_issue_s=resolved.machine.host_issue_s * host)
    return float(solve_step(resolved.plan, machine).total[0])


def sample(row: PublishedRow, resolved: Resolved, published_s: float) -> Sample | None:
    """The run on the grid, or None if it does not count."""
    if row.facts.precision not in PRECISIONS or not resolved.family.id.startswith(FAMILIES):
        return None
    if resolved.family.attention == "unfused" and resolved.arch.head_dim % ALIGNED:
        return None
    stress = HOST_STRESS["host_issue_s" in fitted_fields(resolved.family.id)]
    if step_s(resolved, 1.0, stress) > (1 + HOST_LIMIT) * step_s(resolved, 1.0):
        return None
    ratios = np.log([step_s(resolved, rate) / published_s for rate in GRID])
    return Sample(resolved.family.id, resolved.cluster.node.gpu.generation, ratios)


def fit(samples: list[Sample], low: float, high: float, prior: float, prior_sigma: float) -> FactorFit:
    """The factor of one generation."""
    weights = family_weights([one.family for one in samples])
    return fit_factor(GRID, np.array([one.log_ratio for one in samples]), weights, prior, prior_sigma, low, high)


def report(generation: str, samples: list[Sample], found: FactorFit) -> None:
    """Prints a fit and how each family lies around it."""
    at = int(np.argmin(np.abs(GRID - found.value)))
    print(f"{generation}: {found.value:.3f} +- {found.sigma * found.value:.3f}, {found.rows} runs")
    for family in sorted({one.family for one in samples}):
        own = np.array([one.log_ratio[at] for one in samples if one.family == family])
        print(f"  {family:26s} {len(own):4d} runs, ln(predicted/published) near it: median {np.median(own):+.3f}")


def entry(value: float, sigma: float, low: float, high: float, rows: int) -> str:
    """One line of the file."""
    return (
        f"{{value: {value:.4f}, sigma: {sigma:.4f}, low: {low}, high: {high}, rows: {rows}, "
        f'source: "{SOURCE}", date: "{DATE}", kind: estimate}}'
    )


def main() -> int:
    """Fits every generation and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true", help="print only, write nothing")
    show = parser.parse_args().show
    prior = load_sustained()[0]
    groups: dict[str, list[Sample]] = defaultdict(list)
    for row, resolved, published_s in fit_rows(Catalogue.load()):
        one = sample(row, resolved, published_s)
        if one is not None:
            groups[one.generation].append(one)
    lines, residuals = [], []
    for generation in sorted(groups):
        found = fit(groups[generation], prior.low, prior.high, prior.value, prior.sigma)
        report(generation, groups[generation], found)
        lines.append(f"  {generation}: {entry(found.value, found.sigma, prior.low, prior.high, found.rows)}")
        residuals.append((found.rows, found.residual))
    total = sum(count for count, _ in residuals)
    residual = float(np.sqrt(sum(count * spread**2 for count, spread in residuals) / total))
    print(f"residual {residual:.3f} over {total} runs")
    if not show:
        path = Path(data_root("calibration")) / "software" / "fitted" / "sustained.yaml"
        head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith(("#", "prior:"))]
        tail = (
            f'residual: {{sigma: {residual:.4f}, source: "scatter of the same runs", date: "{DATE}", kind: estimate}}'
        )
        path.write_text("\n".join([*head, "generations:", *lines, tail]) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
