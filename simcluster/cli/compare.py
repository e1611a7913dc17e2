"""`simcluster compare`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from simcluster.cli.options import FORMATS, answer, answer_page, common, tell


@click.command()
@click.argument("candidates", nargs=-1, required=True)
@click.option("--model", help="Model to train: a name of the catalogue, or a config.json.")
@click.option("--tokens", help="Tokens of the whole run, like 2T.")
@click.option("--what-if", "what_ifs", multiple=True, help="Also compare with a what-if of the files (repeatable).")
@click.option("--same-layout", is_flag=True, help="Give all candidates the parallel layout of the first.")
@click.option(
    "--save", type=click.Path(path_type=Path, dir_okay=False), help="Write the candidates to a new study file."
)
@common(FORMATS)
def compare(
    candidates: tuple[str, ...],
    model: str | None,
    tokens: str | None,
    what_ifs: tuple[str, ...],
    same_layout: bool,
    save: Path | None,
    format_: str,
    output: Path | None,
    sets: tuple[str, ...],
    seed: int,
    hardware_db: Path | None,
) -> None:
    r"""Compare CANDIDATES; the first is the baseline.

    A candidate is a scenario file, each of those in a study file, or machines as COUNTxNODE[/FABRIC][:TERM], where TERM
    is own, on-demand, 1y, 3y or spot. A parallel layout that is not stated is chosen.

    \b
    simcluster compare --model llama-3-70b --tokens 2T 32xdgx-b200:own 32xaws-p6-b200:3y 64xhgx-h100:1y
    simcluster compare examples/llama-65b-512xa100.yaml examples/llama-65b-512xa100-roce.yaml
    simcluster compare examples/llama-1-33b-64xh100.yaml --what-if roce-200 --what-if roce-200-one-nic
    """
    from simcluster.hardware.catalogue import Catalogue
    from simcluster.reports.compare_page import compare_blocks
    from simcluster.reports.csv import record_csv
    from simcluster.reports.records import comparison_record, to_json
    from simcluster.study import compare as compare_candidates
    from simcluster.study import load_candidates, save_study

    started = time.perf_counter()
    named = load_candidates(candidates, sets, what_ifs, _job(model, tokens))
    if save is not None:
        save_study(named, save)
    comparison = compare_candidates(named, Catalogue.load(hardware_db), seed, same_layout=same_layout)
    tell(note for _, loaded in named for note in loaded.notes)
    tell(note for one in comparison.candidates for note in one.evaluation.notes)
    if format_ in ("json", "csv"):
        record = comparison_record(comparison, time.perf_counter() - started, seed)
        answer(to_json(record) if format_ == "json" else record_csv(record), output)
        return
    title = " against ".join(one.name for one in comparison.candidates)
    answer_page(title, lambda page: compare_blocks(comparison, page), format_, output)


def _job(model: str | None, tokens: str | None) -> dict[str, Any]:
    """The job that the options state."""
    return ({"model": model} if model else {}) | ({"training": {"tokens": tokens}} if tokens else {})
