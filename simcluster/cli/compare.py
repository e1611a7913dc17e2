"""`simcluster compare`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from simcluster.cli.options import FORMATS, answer, answer_page, common, tell


@click.command()
@click.argument("candidates", nargs=-1, required=True)
@click.option("--what-if", "what_ifs", multiple=True, help="Also compare with a what-if of the files (repeatable).")
@common(FORMATS)
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
    from simcluster.reports.compare_page import compare_blocks
    from simcluster.reports.csv import record_csv
    from simcluster.reports.records import comparison_record, to_json
    from simcluster.study import compare as compare_candidates
    from simcluster.study import load_candidates

    started = time.perf_counter()
    named = load_candidates(candidates, sets, what_ifs)
    comparison = compare_candidates(named, Catalogue.load(hardware_db), seed)
    tell(note for _, loaded in named for note in loaded.notes)
    if format_ in ("json", "csv"):
        record = comparison_record(comparison, time.perf_counter() - started, seed)
        answer(to_json(record) if format_ == "json" else record_csv(record), output)
        return
    title = " against ".join(one.name for one in comparison.candidates)
    answer_page(title, lambda page: compare_blocks(comparison, page), format_, output)
