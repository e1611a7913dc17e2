"""`simcluster compare`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from simcluster.cli.options import answer, common, tell


@click.command()
@click.argument("candidates", nargs=-1, required=True)
@click.option("--what-if", "what_ifs", multiple=True, help="Also compare with a what-if of the files (repeatable).")
@common(("table", "json"))
def compare(
    candidates: tuple[str, ...],
    what_ifs: tuple[str, ...],
    format_: str,
    output: Path | None,
    sets: tuple[str, ...],
    seed: int,
    hardware_db: Path | None,
) -> None:
    r"""Compare CANDIDATES: scenario files, or a study file that holds several. The first is the baseline.

    \b
    simcluster compare examples/llama-65b-512xa100.yaml examples/llama-65b-512xa100-roce.yaml
    simcluster compare examples/llama-1-33b-64xh100.yaml --what-if roce-200 --what-if roce-200-one-nic
    """
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.reports.layout import Page
    from simcluster.reports.records import comparison_record, to_json
    from simcluster.reports.terminal import compare_page
    from simcluster.study import compare as compare_candidates
    from simcluster.study import load_candidates

    started = time.perf_counter()
    named = load_candidates(candidates, sets, what_ifs)
    comparison = compare_candidates(named, Catalogue.load(hardware_db), seed)
    tell(note for _, loaded in named for note in loaded.notes)
    if format_ == "json":
        record = comparison_record(comparison)
        record["meta"] = {"seconds": time.perf_counter() - started, **record["meta"], "seed": seed}
        answer(to_json(record), output)
    else:
        answer(compare_page(comparison, Page.for_output(output)), output)
